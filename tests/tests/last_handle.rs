//! The last handle of a manager may go before its work is done: that is done all the same, and then nothing is left of it,
//! no connection and no thread. One test, as threads are those of the whole process.

use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, Mode, Proxy, eventually, ready, stays};
use std::time::Duration;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// How many threads of managers this process has.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    // One that has ended meanwhile cannot be read.
    let names = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "lock-runtime").count()
}

/// Drops the last handle, and a lease, while another caller waits for it; the nodes behave like this by then.
async fn drop_all(fleet: &Fleet, ttl: Duration, mode: &Mode) {
    let builder = fleet.builder().node_timeout(Duration::from_millis(100));
    let locks: LockManager = builder.build().expect("a manager");
    ready(&locks).await;
    let ask = || locks.lock("k").ttl(ttl);
    let lease = ask().wait(DEADLINE).acquire().await.expect("free");
    let waiting = tokio::spawn(ask().wait_forever().acquire());
    eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;
    for proxy in fleet.proxies() {
        proxy.set(mode.clone());
    }
    drop(locks);
    drop(lease);
    waiting.abort();
}

async fn nothing_is_left(fleet: &Fleet) {
    fleet.assert_no_keys("*").await;
    eventually(DEADLINE, "no thread and no connection is left", || {
        let mut open = fleet.proxies().iter().map(Proxy::open_connections);
        threads() == 0 && open.all(|connections| connections == 0)
    })
    .await;
}

#[tokio::test]
async fn a_manager_finishes_its_work_and_ends() {
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    nothing_is_left(&fleet).await;

    drop_all(&fleet, TTL, &Mode::Pass).await;
    nothing_is_left(&fleet).await;

    // Nodes that answer later are told later.
    for mode in [Mode::Blackhole, Mode::Refuse] {
        drop_all(&fleet, TTL, &mode).await;
        stays(Duration::from_millis(300), "it is at work", || {
            threads() == 1 && fleet.nodes_with("k") == 3
        })
        .await;
        for proxy in fleet.proxies() {
            proxy.set(Mode::Pass);
        }
        nothing_is_left(&fleet).await;
    }

    // And nodes that stay away keep it for no longer than the TTL.
    drop_all(&fleet, Duration::from_secs(2), &Mode::Refuse).await;
    nothing_is_left(&fleet).await;
}
