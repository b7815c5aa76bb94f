//! An uncontended acquire and release on five servers and on one, against the same commands sent raw over the client's
//! multiplexed connections to the same servers in the same run; and the same with a fencing token.
//!
//! `cargo bench --package lock-benches`

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use lock_benches::{Contender, machine, side_by_side, table};
use lock_runtime::LockManager;
use lock_tests::Fleet;
use redis::aio::MultiplexedConnection;

const TTL: Duration = Duration::from_secs(30);
const NODES: usize = 5;
const ROUNDS: usize = 9;
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

fn ours(locks: LockManager, name: &'static str, fenced: bool) -> Contender {
    Contender {
        name,
        cycle: Arc::new(move |key| {
            let locks = locks.clone();
            Box::pin(async move {
                let lease = locks.lock(key).ttl(TTL).fenced(fenced).acquire().await;
                lease.expect("free").release().await.expect("released");
            })
        }),
    }
}

#[derive(Clone)]
struct Raw {
    nodes: Vec<MultiplexedConnection>,
    hash: Arc<str>,
}

impl Raw {
    async fn connect(fleet: &Fleet) -> Self {
        let nodes = fleet.urls().into_iter().map(|url| async move {
            let client = redis::Client::open(url).expect("a URL");
            let connection = client.get_multiplexed_async_connection().await;
            connection.expect("a connection")
        });
        let nodes: Vec<MultiplexedConnection> = join_all(nodes).await;
        let script = redis::Script::new(RELEASE);
        for mut node in nodes.clone() {
            script.load_async(&mut node).await.expect("a script");
        }
        Self {
            nodes,
            hash: script.get_hash().into(),
        }
    }

    /// Sends to all nodes, and waits for so many answers.
    async fn all(&self, command: redis::Cmd, answers: usize) {
        let command = Arc::new(command);
        let mut replies: FuturesUnordered<_> = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                let command = Arc::clone(&command);
                async move { node.send_packed_command(&command).await }
            })
            .collect();
        for _ in 0..answers {
            replies.next().await.expect("an answer").expect("no error");
        }
    }

    fn contender(self, name: &'static str, answers: usize) -> Contender {
        Contender {
            name,
            cycle: Arc::new(move |key| {
                let raw = self.clone();
                Box::pin(async move {
                    let token = "0123456789abcdef0123456789abcdef";
                    let mut acquire = redis::cmd("SET");
                    acquire.arg(&key).arg(token).arg("NX");
                    acquire.arg("PX").arg(30_000).arg("GET");
                    raw.all(acquire, answers).await;
                    let mut release = redis::cmd("EVALSHA");
                    release.arg(&*raw.hash).arg(1).arg(&key).arg(token);
                    raw.all(release, answers).await;
                })
            }),
        }
    }
}

async fn measure(fleet: &Fleet) {
    let nodes = fleet.urls().len();
    let locks = fleet.builder().node_timeout(Duration::from_secs(5)).build();
    let locks = locks.expect("a manager");
    assert!(locks.ready().await, "the servers answer");
    let raw = Raw::connect(fleet).await;
    let contenders = [
        raw.clone().contender("raw, waiting for all", nodes),
        raw.contender("raw, at quorum (leaks keys)", nodes / 2 + 1),
        ours(locks.clone(), "lock-runtime", false),
        ours(locks, "lock-runtime, fenced", true),
    ];
    for (tasks, cycles) in [(1, 2_000), (64, 12_800)] {
        let measured = side_by_side(&contenders, tasks, cycles, ROUNDS).await;
        let title = format!("nodes: {nodes}, tasks: {tasks}");
        println!("{}", table(&title, &contenders, &measured, 0));
    }
}

#[tokio::main]
async fn main() {
    let fleet = lock_benches::servers::start(NODES);
    let version: String = fleet.servers()[0].command(&["INFO", "server"]);
    let version = version
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    println!(
        "{}; Redis {} without persistence on loopback; tokio multi-thread; medians of {ROUNDS} rounds\n",
        machine(),
        version.unwrap_or("?"),
    );
    measure(&fleet).await;
    drop(fleet);
    measure(&lock_benches::servers::start(1)).await;
}
