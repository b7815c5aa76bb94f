//! A lock node as it is rendered, with the real server.

use crate::pod::{Pod, Probed, Secrets};
use crate::render::Rendered;
use crate::service::{answer, send};
use lock_runtime::{LockManager, LockManagerBuilder, Severity};
use lock_tests::port::ReservedPort;
use lock_tests::processes::Peer;
use lock_tests::{DEADLINE, cycle, eventually_async, eventually_blocking, ready};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

pub(crate) const PASSWORD: &str = "a-password_of.the~shop";
pub(crate) const SECRETS: Secrets<'static> = &[("shop-password", PASSWORD)];

/// A node and its server.
pub(crate) struct Node {
    pub(crate) pod: Pod,
    pub(crate) server: Peer,
}

impl Node {
    /// The nodes of a directory, each of them ready.
    pub(crate) fn start_all(rendered: &Rendered) -> Vec<Self> {
        let set = rendered.get("StatefulSet", "lock-redis");
        let count = set["spec"]["replicas"].as_u64().expect("a number");
        let nodes: Vec<Self> = (0..usize::try_from(count).expect("few"))
            .map(|number| Self::launch(Pod::new(rendered, set, number, SECRETS), &[]))
            .collect();
        nodes.iter().for_each(Self::wait_until_ready);
        nodes
    }

    fn start(directory: &str) -> Self {
        let rendered = Rendered::of(directory);
        let node = Self::launch(pod(&rendered), &[]);
        node.wait_until_ready();
        node
    }

    /// Makes its users and starts its server, with more settings than it has.
    fn launch(pod: Pod, more: &[&str]) -> Self {
        pod.initialize().expect("it has a good Secret");
        let mut settings = vec!["--bind", "127.0.0.1"];
        settings.extend(more);
        let server = pod.start("redis", &settings);
        Self { pod, server }
    }

    fn wait_until_ready(&self) {
        eventually_blocking(DEADLINE, "a node is ready", || {
            match self.pod.probe("redis", "readinessProbe") {
                Probed::Succeeded(_) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    fn connect(&self, user: &str, password: &str) -> redis::RedisResult<redis::Connection> {
        let url = format!("redis://{user}:{password}@{}", self.pod.address());
        redis::Client::open(url)?.get_connection_with_timeout(DEADLINE)
    }

    fn ask(&self, user: &str, password: &str, words: &[&str]) -> Result<String, String> {
        let answer = self.connect(user, password).and_then(|mut connection| {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]).query(&mut connection)
        });
        answer.map_err(|error| error.to_string())
    }

    /// Asks as the services do.
    pub(crate) fn shop(&self, words: &[&str]) -> Result<String, String> {
        self.ask("shop", PASSWORD, words)
    }

    /// How many listen on a channel.
    pub(crate) fn listeners(&self, channel: &str) -> u64 {
        let asked = self.connect("shop", PASSWORD).and_then(|mut connection| {
            let mut command = redis::cmd("PUBSUB");
            command.arg("NUMSUB").arg(channel).query(&mut connection)
        });
        let (_, listeners): (String, u64) = asked.expect("the user may ask");
        listeners
    }

    fn info(&self, section: &str) -> String {
        self.shop(&["INFO", section]).expect("the user may ask")
    }

    fn probe(&self, kind: &str) -> Probed {
        self.pod.probe("redis", kind)
    }
}

fn pod(rendered: &Rendered) -> Pod {
    let set = rendered.get("StatefulSet", "lock-redis");
    Pod::new(rendered, set, 0, SECRETS)
}

/// What a rendered service is given as `LOCK_NODES`, with the addresses that the nodes have here.
pub(crate) fn lock_nodes(service: &Pod, container: &str, nodes: &[Node]) -> String {
    let list = service.variable(container, "LOCK_NODES");
    let list = nodes.iter().enumerate().fold(list, |list, (number, node)| {
        let there = format!("lock-redis-{number}.lock-redis:6379");
        list.replace(&there, &node.pod.address())
    });
    assert!(!list.contains("lock-redis"), "{list}");
    list
}

fn manager(rendered: &Rendered, nodes: &[Node]) -> LockManagerBuilder {
    let payments = rendered.get("Deployment", "payments");
    let secrets = [SECRETS, &[("url", "postgres://nowhere")]].concat();
    let payments = Pod::new(rendered, payments, 0, &secrets);
    LockManager::builder()
        .nodes(&lock_nodes(&payments, "payments", nodes))
        .prefix(payments.variable("payments", "LOCK_PREFIX"))
        .holder_label(payments.variable("payments", "LOCK_HOLDER"))
        .node_timeout(Duration::from_secs(2))
}

#[tokio::test]
async fn services_lock_on_five_nodes_and_a_check_has_nothing_to_say() {
    let rendered = Rendered::of("overlays/production");
    let nodes = Node::start_all(&rendered);
    assert_eq!(nodes.len(), 5);
    let build = || manager(&rendered, &nodes).build().expect("a good list");
    let locks = build();
    ready(&locks).await;
    let report = locks.check().await;
    let findings: Vec<_> = report.findings().iter().collect();
    let worst = findings.iter().map(|finding| finding.severity()).max();
    assert!(
        report.is_safe() && worst <= Some(Severity::Note),
        "{report}"
    );

    // With everything that the user needs permission for: a token, and a release that another manager hears.
    let held = locks.lock("order:1").ttl(DEADLINE).fenced(true).acquire();
    let held = held.await.expect("free");
    assert!(held.fence() > 0);
    let inspection = locks
        .inspect("order:1")
        .await
        .expect("they answer")
        .to_string();
    assert!(inspection.contains("payments-0"), "{inspection}");
    let other = build();
    ready(&other).await;
    let waiting = tokio::spawn(async move { cycle(&other, "order:1", DEADLINE).await });
    held.release().await.expect("released");
    waiting.await.expect("it has had it");

    for node in &nodes {
        let memory = node.info("memory");
        for line in ["maxmemory:100663296\r", "maxmemory_policy:noeviction\r"] {
            assert!(memory.contains(line), "{line}: {memory}");
        }
        assert!(node.info("persistence").contains("aof_enabled:1\r"));
    }
}

#[tokio::test]
async fn a_single_node_will_do_for_trying_things() {
    let rendered = Rendered::of("overlays/dev");
    let nodes = Node::start_all(&rendered);
    assert_eq!(nodes.len(), 1);
    let locks = manager(&rendered, &nodes).build().expect("a good list");
    ready(&locks).await;
    assert!(locks.check().await.is_safe());
    cycle(&locks, "order:1", DEADLINE).await;
}

/// A password that is made of nothing is the same everywhere, and would be no secret.
#[test]
fn a_node_without_a_source_of_chance_does_not_start() {
    let pod = pod(&Rendered::of("base"));
    let programs = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    fs::set_permissions(programs.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let head = programs.path().join("head");
    fs::write(&head, "#!/bin/sh\nexit 1\n").expect("it is ours");
    fs::set_permissions(&head, Permissions::from_mode(0o755)).expect("it is ours");
    let path = std::env::var("PATH").expect("a list of directories");
    let mut users = pod.run("users");
    users.env("PATH", format!("{}:{path}", programs.path().display()));
    let output = users.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("/dev/urandom"),
        "{said}"
    );
    assert!(!pod.file("/run/lock-redis/users.acl").exists());
}

#[test]
fn nobody_gets_in_but_the_services_and_the_probes() {
    let node = Node::start("base");
    assert_eq!(node.shop(&["SET", "shop:k", "v"]), Ok("OK".to_owned()));
    let probe = fs::read_to_string(node.pod.file("/run/lock-redis/probe-password"));
    let probe = probe.expect("it was made");
    let pong = node.ask("probe", &probe, &["PING"]);
    assert_eq!(pong, Ok("PONG".to_owned()));

    let refused = |user, password, words: &[&str], with: &str| {
        let answer = node.ask(user, password, words);
        let said = answer.expect_err("refused");
        assert!(said.contains(with), "{user} {words:?}: {said}");
    };
    refused("shop", PASSWORD, &["SET", "another:k", "v"], "NoPerm");
    refused("shop", PASSWORD, &["KEYS", "*"], "NoPerm");
    refused("shop", PASSWORD, &["CONFIG", "GET", "maxmemory"], "NoPerm");
    refused("probe", &probe, &["GET", "shop:k"], "NoPerm");
    refused("probe", &probe, &["ACL", "LIST"], "NoPerm");
    // What redis says of a login that is refused names the reason for none of these.
    for (user, password) in [
        ("shop", "another-password"),
        ("probe", PASSWORD),
        ("default", PASSWORD),
    ] {
        assert!(node.ask(user, password, &["PING"]).is_err(), "{user}");
    }
    let anybody = redis::Client::open(format!("redis://{}", node.pod.address()));
    let anybody = anybody.and_then(|it| it.get_connection_with_timeout(DEADLINE));
    let answer = anybody.and_then(|mut it| redis::cmd("PING").query::<String>(&mut it));
    assert!(answer.is_err_and(|error| error.to_string().contains("NOAUTH")));

    // Neither password is in what it was started with, nor in what it goes by.
    let line = fs::read_to_string(format!("/proc/{}/cmdline", node.server.pid()));
    let users = fs::read_to_string(node.pod.file("/run/lock-redis/users.acl"));
    let (line, users) = (line.expect("it runs"), users.expect("it was made"));
    for secret in [PASSWORD, &probe] {
        assert!(!line.contains(secret) && !users.contains(secret));
    }
}

#[tokio::test]
async fn a_node_that_is_killed_has_its_locks_when_it_is_back() {
    let mut node = Node::start("base");
    let lock = ["SET", "shop:k", "owner", "NX", "PX", "60000"];
    assert_eq!(node.shop(&lock), Ok("OK".to_owned()));
    node.server.kill();
    assert!(matches!(node.probe("livenessProbe"), Probed::Failed(_)));
    let node = Node::launch(node.pod, &[]);
    node.wait_until_ready();
    assert_eq!(node.shop(&["GET", "shop:k"]), Ok("owner".to_owned()));
}

/// The server goes slowly through what it has to load, as it would with much more.
#[tokio::test]
async fn a_node_that_loads_is_alive_and_not_ready() {
    const LOCKS: usize = 2000;
    // Ten seconds of them, and every kilobyte it looks up.
    let slowly = [
        "--key-load-delay",
        "5000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    // Between the commands of its file it would look up more rarely than between the data that they have become.
    let rewriting = [
        "--auto-aof-rewrite-min-size",
        "1kb",
        "--auto-aof-rewrite-percentage",
        "1",
    ];
    let mut node = Node::launch(pod(&Rendered::of("base")), &rewriting);
    node.wait_until_ready();
    let mut connection = node.connect("shop", PASSWORD).expect("it is ready");
    let mut fill = redis::pipe();
    for number in 0..LOCKS {
        fill.cmd("SET")
            .arg(format!("shop:{number}"))
            .arg("owner")
            .ignore();
    }
    fill.exec(&mut connection).expect("there is room");
    eventually_blocking(DEADLINE, "its file is rewritten", || {
        let info = node.info("persistence");
        let size = |of: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(of));
            line.and_then(|size| size.parse::<usize>().ok())
        };
        match (size("aof_base_size:"), size("aof_current_size:")) {
            (Some(base), Some(size)) if base > LOCKS && size - base < LOCKS => Ok(()),
            _ => Err(info),
        }
    });
    node.server.terminate();
    let (status, _) = node.server.finish().await;
    assert!(status.success(), "{status}");

    let mut node = Node::launch(node.pod, &slowly);
    eventually_blocking(DEADLINE, "it answers", || {
        match node.probe("startupProbe") {
            Probed::Succeeded(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    for (kind, fails) in [
        ("startupProbe", false),
        ("livenessProbe", false),
        ("readinessProbe", true),
    ] {
        match node.probe(kind) {
            Probed::Succeeded(said) if !fails && said.starts_with("LOADING") => {}
            Probed::Failed(said) if fails && said.starts_with("LOADING") => {}
            other => panic!("{kind}: {other:?}"),
        }
    }
    node.server.kill();
    let node = Node::launch(node.pod, &[]);
    node.wait_until_ready();
    assert_eq!(node.shop(&["GET", "shop:0"]), Ok("owner".to_owned()));
}

#[test]
fn a_node_that_hangs_is_neither_ready_nor_alive() {
    let mut node = Node::start("base");
    node.server.pause();
    std::thread::scope(|scope| {
        for kind in ["livenessProbe", "readinessProbe"] {
            let pod = &node.pod;
            scope.spawn(move || assert_eq!(pod.probe("redis", kind), Probed::TimedOut, "{kind}"));
        }
    });
    node.server.resume();
    node.wait_until_ready();
    assert_eq!(
        node.probe("livenessProbe"),
        Probed::Succeeded("PONG".to_owned())
    );
}

/// A probe that cannot log in says nothing about whether a restart would help, and all nodes would be restarted for it.
#[test]
fn a_probe_with_a_wrong_password_makes_a_node_unready_and_kills_nobody() {
    let node = Node::start("base");
    fs::write(node.pod.file("/run/lock-redis/probe-password"), "another").expect("it is ours");
    let probed = node.probe("readinessProbe");
    let refused = matches!(&probed, Probed::Failed(said) if said.starts_with("NOAUTH"));
    assert!(refused, "{probed:?}");
    let probed = node.probe("livenessProbe");
    assert!(matches!(probed, Probed::Succeeded(_)), "{probed:?}");
}

/// Whoever leaks connections does so on all nodes, and these would all be restarted together.
#[test]
fn a_node_whose_connections_are_all_taken_is_unready_and_is_not_killed() {
    const MOST: usize = 3;
    let node = Node::launch(pod(&Rendered::of("base")), &["--maxclients", "3"]);
    node.wait_until_ready();
    let connect = |_| std::net::TcpStream::connect(node.pod.address()).expect("it listens");
    let taken: Vec<_> = (0..MOST).map(connect).collect();
    eventually_blocking(DEADLINE, "it is not ready", || {
        matches!(node.probe("readinessProbe"), Probed::Failed(_))
    });
    for _ in 0..10 {
        let probed = node.probe("livenessProbe");
        assert!(matches!(probed, Probed::Succeeded(_)), "{probed:?}");
    }
    drop(taken);
    node.wait_until_ready();
}

/// Else it would be the container's memory that ends it, and the server.
#[test]
fn a_client_that_sends_too_much_is_disconnected() {
    let node = Node::start("base");
    let mut client = std::net::TcpStream::connect(node.pod.address()).expect("it listens");
    let begin =
        format!("AUTH shop {PASSWORD}\r\n*3\r\n$3\r\nSET\r\n$6\r\nshop:k\r\n$400000000\r\n");
    client.write_all(begin.as_bytes()).expect("it is connected");
    let megabyte = vec![b'v'; 1 << 20];
    let refused = (0..200).find(|_| client.write_all(&megabyte).is_err());
    assert!(refused.is_some_and(|sent| sent < 100), "{refused:?}");
    assert_eq!(node.shop(&["PING"]), Ok("PONG".to_owned()));
}

/// As the alerts need it. What it is refused is not more than that.
#[tokio::test]
async fn prometheus_is_told_of_the_memory() {
    let node = Node::start("base");
    let address = ReservedPort::new().address().to_string();
    let _exporter = node
        .pod
        .start("exporter", &["-web.listen-address", &address]);
    eventually_async(DEADLINE, "it listens", || async {
        TcpStream::connect(&address).await.is_ok()
    })
    .await;
    let metrics = answer(send(&address, "GET /metrics", "").await).await;
    for line in ["redis_up 1\n", "redis_memory_max_bytes 1.00663296e+08\n"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(metrics.contains("\nredis_memory_used_bytes "), "{metrics}");
}

#[tokio::test]
async fn passwords_are_changed_without_one_that_nobody_takes() {
    const NEXT: &str = "the-password_of.tomorrow";
    let rendered = Rendered::of("base");
    let mut pod = pod(&rendered);
    pod.change_secrets(&[("shop-password", PASSWORD), ("shop-password-other", NEXT)]);
    let mut node = Node::launch(pod, &[]);
    node.wait_until_ready();
    for password in [PASSWORD, NEXT] {
        assert_eq!(node.ask("shop", password, &["PING"]), Ok("PONG".to_owned()));
    }
    node.server.kill();
    node.pod.change_secrets(&[("shop-password", NEXT)]);
    let node = Node::launch(node.pod, &[]);
    node.wait_until_ready();
    assert_eq!(node.ask("shop", NEXT, &["PING"]), Ok("PONG".to_owned()));
    assert!(node.shop(&["PING"]).is_err());
}

#[test]
fn a_password_that_a_url_would_escape_is_refused_before_anybody_uses_it() {
    let rendered = Rendered::of("base");
    let mut pod = pod(&rendered);
    for password in [
        "too-short",
        "a-password@with/more",
        "a-password-and-a-line\n",
        "",
    ] {
        for secrets in [
            &[("shop-password", password)][..],
            &[
                ("shop-password", PASSWORD),
                ("shop-password-other", password),
            ],
        ] {
            pod.change_secrets(secrets);
            let said = pod.initialize().expect_err("refused");
            assert!(said.contains("a password needs 16 characters"), "{said}");
            assert!(password.is_empty() || !said.contains(password), "{said}");
        }
    }
    pod.change_secrets(&[]);
    let said = pod.initialize().expect_err("no password");
    assert!(said.contains("shop-password"), "{said}");
}
