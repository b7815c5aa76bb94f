//! The services as they are rendered, with the real programs: from the first order to the end.

use crate::node::{Node, SECRETS, lock_nodes};
use crate::pod::Pod;
use crate::render::Rendered;
use crate::rules::PAYMENTS_END;
use lock_runtime::LockManager;
use lock_tests::processes::{Peer, example};
use lock_tests::{DEADLINE, Postgres, eventually, eventually_async, ready};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ORDER: &str = r#"{"product_id": 9921, "user_id": 7}"#;

/// A service on the nodes of the same directory.
struct Service {
    pod: Pod,
    process: Peer,
}

impl Service {
    fn start(rendered: &Rendered, name: &str, nodes: &[Node], database: &str) -> Self {
        let secrets = [SECRETS, &[("url", database)]].concat();
        let pod = Pod::new(rendered, rendered.get("Deployment", name), 0, &secrets);
        let mut command = pod.run(name);
        command.env("LOCK_NODES", lock_nodes(&pod, name, nodes));
        let process = Peer::start(command);
        Self { pod, process }
    }

    async fn payments(rendered: &Rendered, nodes: &[Node], database: &str) -> Self {
        let mut service = Self::start(rendered, "payments", nodes, database);
        let listening = format!("listening on {}", service.pod.address());
        service.process.expect(&listening).await;
        service
    }

    async fn wait_for(&self, request: &str, status: &str) {
        eventually_async(DEADLINE, request, || async {
            let answer = answer(send(&self.pod.address(), request, "").await).await;
            if answer.starts_with(status) {
                Ok(())
            } else {
                Err(answer)
            }
        })
        .await;
    }
}

/// Sends a request on a connection of its own.
pub(crate) async fn send(address: &str, what: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let sent = write(&mut stream, what, body).await;
    sent.expect("it reads");
    stream
}

async fn write(stream: &mut TcpStream, what: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let request = format!(
        "{what} HTTP/1.0\r\nHost: shop\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await
}

/// What comes after the version.
pub(crate) async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let read = timeout(DEADLINE, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    let (_version, rest) = answer.split_once(' ').expect("a status");
    rest.to_owned()
}

/// Whether a service says that it takes requests. One that ends may break off instead of answering.
async fn is_ready(address: &str) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        write(&mut stream, "GET /ready", "").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = timeout(DEADLINE, asked).await.expect("an answer in time");
    answer.is_ok_and(|answer| answer.contains(" 200 "))
}

fn locks(rendered: &Rendered, nodes: &[Node]) -> LockManager {
    let secrets = [SECRETS, &[("url", "postgres://nowhere")]].concat();
    let pod = Pod::new(
        rendered,
        rendered.get("Deployment", "payments"),
        0,
        &secrets,
    );
    let locks = LockManager::builder()
        .nodes(&lock_nodes(&pod, "payments", nodes))
        .prefix(pod.variable("payments", "LOCK_PREFIX"))
        .node_timeout(Duration::from_secs(2));
    locks.build().expect("a good list")
}

#[tokio::test]
async fn the_time_to_end_is_what_the_example_says() {
    let mut command = example("payments");
    command.arg("--help");
    let (_, lines) = Peer::start(command).finish().await;
    let says = format!("after {PAYMENTS_END} seconds at the latest");
    assert!(lines.iter().any(|line| line.contains(&says)), "{lines:?}");
}

/// The order waits for a lock that somebody else has until the signal has come.
#[tokio::test]
async fn payments_finishes_an_open_order_within_its_grace() {
    let rendered = Rendered::of("overlays/production");
    let (nodes, postgres) = (Node::start_all(&rendered), Postgres::start());
    let mut service = Service::payments(&rendered, &nodes, &postgres.url()).await;
    service.wait_for("GET /ready", "200").await;

    // Before the signal there is the hook, after which orders may still arrive.
    let told = Instant::now();
    let mut hook = service.pod.pre_stop("payments");
    let locks = locks(&rendered, &nodes);
    ready(&locks).await;
    let held = locks.lock("product:9921").ttl(DEADLINE).wait(DEADLINE);
    let held = held.acquire().await.expect("free");
    let (status, _) = hook.finish().await;
    assert!(status.success(), "preStop: {status}");
    let order = send(&service.pod.address(), "POST /v1/checkout", ORDER).await;
    eventually(DEADLINE, "the order waits for the lock", || {
        let listens = |node: &Node| node.listeners("{shop:product:9921}:released") > 0;
        nodes.iter().any(listens)
    })
    .await;
    service.process.terminate();
    eventually_async(DEADLINE, "it takes no more orders", || async {
        !is_ready(&service.pod.address()).await
    })
    .await;
    held.release().await.expect("released");
    let sold = answer(order).await;
    assert!(sold.starts_with("200"), "{sold}");
    let (status, lines) = service.process.finish().await;
    assert_eq!((status.code(), lines), (Some(0), Vec::new()));
    assert!(told.elapsed() < service.pod.grace(), "{:?}", told.elapsed());
    assert_eq!(postgres.query("SELECT COUNT(*) FROM sales"), "1");
}

/// Its database is a file in a volume; and nothing that fails outside of it makes it less alive.
#[tokio::test]
async fn payments_of_the_small_one_is_alive_without_its_node_and_not_ready() {
    let rendered = Rendered::of("overlays/dev");
    let mut nodes = Node::start_all(&rendered);
    let mut service = Service::payments(&rendered, &nodes, "").await;
    service.wait_for("GET /ready", "200").await;
    let order = send(&service.pod.address(), "POST /v1/checkout", ORDER).await;
    let sold = answer(order).await;
    assert!(sold.starts_with("200"), "{sold}");
    nodes[0].server.kill();
    service.wait_for("GET /ready", "503").await;
    service.wait_for("GET /live", "200").await;
    service.process.terminate();
    let (status, _) = service.process.finish().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn cron_waits_for_its_ticks_until_it_is_told_to_end() {
    let rendered = Rendered::of("overlays/production");
    let nodes = Node::start_all(&rendered);
    let mut service = Service::start(&rendered, "cron", &nodes, "");
    // It has come to its nodes, with the user and the prefix that they let in, and given them their vote.
    eventually(DEADLINE, "it is ready", || {
        let votes = |node: &&Node| node.shop(&["GET", "shop:lock-runtime:votes"]).is_ok();
        nodes.iter().filter(votes).count() == nodes.len()
    })
    .await;
    service.process.terminate();
    let told = Instant::now();
    let (status, lines) = service.process.finish().await;
    assert_eq!(status.code(), Some(0), "{lines:?}");
    assert!(told.elapsed() < service.pod.grace());
}
