//! A node that is known to be silent costs nothing. Counted, as times say little on a busy machine; `cargo bench --package
//! lock-benches --bench faults` has the times.

use lock_runtime::LockManager;
use lock_tests::version::{acquire_command, is_before_7};
use lock_tests::{DEADLINE, Fleet, Mode, RedisServer, eventually, eventually_async};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(60);

/// Wide, so that what waits for it is told from what a busy machine delays.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);
const CYCLES: u64 = 320;

fn calls(server: &RedisServer, command: &str) -> u64 {
    server.command_stats().get(command).copied().unwrap_or(0)
}

/// So many cycles in so many tasks. No acquire waits for who does not answer.
async fn cycles(locks: &LockManager, tasks: u64) {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let locks = locks.clone();
        running.spawn(async move {
            for cycle in 0..CYCLES / tasks {
                let request = locks.lock(format!("k:{task}:{cycle}")).ttl(TTL);
                let asked = Instant::now();
                let lease = request.acquire().await.expect("three of five");
                let taken = asked.elapsed();
                assert!(taken < NODE_TIMEOUT / 2, "{taken:?}");
                lease.release().await.expect("three of five");
            }
        });
    }
    running.join_all().await;
}

async fn costs_nothing(silent: usize) {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.found().await;
    let builder = fleet.builder().node_timeout(NODE_TIMEOUT);
    let locks = builder.build().expect("a manager");
    let nodes_of_a_lock = || async {
        let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
        let lease = request.acquire().await.expect("three of five");
        let nodes = fleet.nodes_with("k");
        lease.release().await.expect("three of five");
        nodes
    };
    eventually_async(DEADLINE, "every node is used", || async {
        nodes_of_a_lock().await == 5
    })
    .await;
    // They get every request, and nobody hears of it: what they are sent can be counted.
    let (quiet, well) = fleet.servers().split_at(silent);
    for proxy in &fleet.proxies()[..silent] {
        proxy.set(Mode::HoldAnswers);
    }
    eventually_async(DEADLINE, "they are known to be silent", || async {
        let asks = |server| calls(server, acquire_command());
        let asked = || quiet.iter().map(asks).sum::<u64>();
        let before = asked();
        // On a machine that is busy, what they are sent may be on its way for a while.
        for _ in 0..20 {
            nodes_of_a_lock().await;
        }
        asked() == before
    })
    .await;
    fleet.assert_no_keys("*").await;

    for tasks in [1, 32] {
        fleet
            .servers()
            .iter()
            .for_each(RedisServer::reset_command_stats);
        cycles(&locks, tasks).await;
        for server in quiet {
            let (locks, releases) = (calls(server, "set"), calls(server, "evalsha"));
            assert_eq!((locks, releases), (0, 0), "a silent node was asked");
            let probes = calls(server, "ping") + calls(server, "info");
            assert!(probes < 50, "{probes} probes");
        }
        let scripts = if is_before_7() { 2 * CYCLES } else { CYCLES };
        eventually(DEADLINE, "the others have released everything", || {
            well.iter()
                .all(|server| calls(server, "evalsha") == scripts)
        })
        .await;
        for server in well {
            assert_eq!(calls(server, "set"), CYCLES, "one command for each lock");
        }
    }

    for proxy in &fleet.proxies()[..silent] {
        proxy.set(Mode::Pass);
    }
    eventually_async(DEADLINE, "they are used again", || async {
        nodes_of_a_lock().await == 5
    })
    .await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_five_costs_nothing() {
    costs_nothing(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_cost_nothing() {
    costs_nothing(2).await;
}
