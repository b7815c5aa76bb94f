//! What it costs to have a lock on replicas before it counts: an uncontended acquire and release on one server that has two
//! replicas, with `replicas` from 0 to 2, in turns on the same servers.
//!
//! `cargo bench --package lock-benches --bench replicas`

use std::sync::Arc;
use std::time::Duration;

use lock_benches::{Contender, machine, side_by_side, table};
use lock_runtime::{LockManager, NodeSpec};
use lock_tests::{RedisServer, ready};

const TTL: Duration = Duration::from_secs(30);
const ROUNDS: usize = 9;
const NAMES: [&str; 3] = ["no replica asked", "replicas=1", "replicas=2"];

async fn contender(primary: &RedisServer, replicas: usize) -> Contender {
    let node = NodeSpec::from(primary.url()).replicas(replicas);
    let locks = LockManager::builder().node_timeout(Duration::from_secs(5));
    let locks = locks.node(node).build().expect("a manager");
    ready(&locks).await;
    Contender {
        name: NAMES[replicas],
        cycle: Arc::new(move |key| {
            let locks = locks.clone();
            Box::pin(async move {
                let lease = locks.lock(key).ttl(TTL).acquire().await.expect("free");
                lease.release().await.expect("released");
            })
        }),
    }
}

#[tokio::main]
async fn main() {
    let options = || RedisServer::options().argument("--repl-diskless-sync-delay", "0");
    let primary = options().start();
    let replicas = RedisServer::start_all([(); 2].map(|()| options().replica_of(&primary)));
    for replica in &replicas {
        replica.follows(&primary).await;
    }
    println!(
        "{}; a primary and two replicas without persistence on loopback; medians of {ROUNDS} rounds\n",
        machine()
    );
    let mut contenders = Vec::new();
    for replicas in 0..NAMES.len() {
        contenders.push(contender(&primary, replicas).await);
    }
    for (tasks, cycles) in [(1, 2_000), (64, 12_800)] {
        let measured = side_by_side(&contenders, tasks, cycles, ROUNDS).await;
        println!(
            "{}",
            table(&format!("tasks: {tasks}"), &contenders, &measured, 0)
        );
    }
}
