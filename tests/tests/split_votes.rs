//! Votes that nobody wins: told from a lock that is held, answered at once, and settled so that somebody runs.

use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, Mode, eventually};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(60);

/// So long that whatever waits for it is told from what does not.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

fn patient(fleet: &Fleet) -> LockManager {
    fleet.builder().node_timeout(NODE_TIMEOUT).build().unwrap()
}

/// Somebody has half of an even number of nodes and will not let go: no majority for him, none for us.
#[tokio::test]
async fn half_of_an_even_number_is_answered_at_once() {
    for nodes in [2, 4] {
        let fleet = Fleet::start(nodes);
        let locks = patient(&fleet);
        lock_tests::ready(&locks).await;
        for held in 0..nodes / 2 {
            let node = &fleet.servers()[held];
            let _: String = node.command(&["SET", "k", "a dead client", "PX", "60000"]);
        }
        let asked = Instant::now();
        let error = locks.lock("k").ttl(TTL).acquire().await.expect_err("split");
        assert!(error.is_busy(), "{nodes}: {error}");
        assert!(
            asked.elapsed() < NODE_TIMEOUT / 2,
            "{nodes}: {:?}",
            asked.elapsed()
        );
        assert_eq!(locks.stats().split_votes, 1, "{nodes}");
        eventually(DEADLINE, "what we had is released", || {
            fleet.nodes_with("k") == nodes / 2
        })
        .await;
    }
}

/// Two of three by one owner: busy, and nothing to settle.
#[tokio::test]
async fn a_rival_with_a_majority_is_no_split() {
    let fleet = Fleet::start(3);
    let locks = patient(&fleet);
    lock_tests::ready(&locks).await;
    for node in &fleet.servers()[1..] {
        let _: String = node.command(&["SET", "k", "somebody", "PX", "60000"]);
    }
    let error = locks.lock("k").ttl(TTL).acquire().await.expect_err("held");
    assert!(error.is_busy(), "{error}");
    assert_eq!(locks.stats().split_votes, 0);
    eventually(DEADLINE, "the free node is free again", || {
        fleet.nodes_with("k") == 2
    })
    .await;
}

/// What a client that died has left on a minority is in nobody's way.
#[tokio::test]
async fn leftovers_on_a_minority_do_not_matter() {
    let fleet = Fleet::start(5);
    let locks = patient(&fleet);
    lock_tests::ready(&locks).await;
    for (leftover, node) in fleet.servers()[..2].iter().enumerate() {
        let owner = format!("dead client {leftover}");
        let _: String = node.command(&["SET", "k", &owner, "PX", "60000"]);
    }
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("three are free");
    lease.release().await.expect("released");
    eventually(DEADLINE, "only the leftovers stay", || {
        fleet.nodes_with("k") == 2
    })
    .await;
}

/// Each of two clients reaches a node that the other does not, and the third decides: one of them gets the lock.
#[tokio::test]
async fn clients_that_see_different_nodes_do_not_both_win() {
    let fleet = Fleet::start(3).behind_proxies();
    let direct = fleet.servers().iter().map(lock_tests::RedisServer::url);
    let theirs = direct.fold(
        LockManager::builder(),
        lock_runtime::LockManagerBuilder::node,
    );
    let theirs = theirs.build().unwrap();
    let ours = fleet.manager();
    lock_tests::ready(&ours).await;
    lock_tests::ready(&theirs).await;
    fleet.proxies()[0].set(Mode::Refuse);
    for round in 0..50 {
        let key = format!("k{round}");
        let request = |locks: &LockManager| locks.lock(&key).ttl(TTL).acquire();
        let (ours, theirs) = tokio::join!(request(&ours), request(&theirs));
        let won = [&ours, &theirs]
            .into_iter()
            .filter(|lease| lease.is_ok())
            .count();
        assert_eq!(won, 1, "round {round}: {ours:?} {theirs:?}");
    }
    fleet.assert_no_keys("*").await;
}
