//! A lock that is kept for a while although its job is done, and not a moment longer.

use lock_runtime::{LockError, LockManager};
use lock_tests::{DEADLINE, Fleet, eventually};
use std::time::Duration;
use tokio::time::{Instant, advance};

const TTL: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_secs(2);

async fn is_free(locks: &LockManager) -> bool {
    match locks.lock("k").ttl(TTL).acquire().await {
        Ok(lease) => lease.release().await.map(|()| true).expect("released"),
        Err(error) => {
            assert!(error.is_busy(), "{error}");
            false
        }
    }
}

/// Whatever way the body ends, after one second: still kept just before the two are over, free just after.
async fn kept_until_the_time_is_over(end: impl AsyncFnOnce(&LockManager)) {
    let locks = LockManager::in_memory();
    let start = Instant::now();
    end(&locks).await;
    assert!(
        start.elapsed() <= Duration::from_secs(1),
        "ending does not wait"
    );
    assert!(!is_free(&locks).await, "right after the end");
    let left = KEPT.saturating_sub(start.elapsed());
    advance(left.saturating_sub(Duration::from_millis(1))).await;
    assert!(!is_free(&locks).await, "just before");
    advance(Duration::from_millis(2)).await;
    assert!(is_free(&locks).await, "just after");
}

#[tokio::test(start_paused = true)]
async fn after_a_body_that_ended_sooner() {
    kept_until_the_time_is_over(async |locks| {
        let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
        request
            .run(|_| tokio::time::sleep(KEPT / 2))
            .await
            .expect("free");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_body_that_failed() {
    kept_until_the_time_is_over(async |locks| {
        let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
        let failed = request.run(|_| async { Err::<(), _>("no") }).await;
        assert_eq!(failed.expect("free"), Err("no"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_body_that_panicked() {
    kept_until_the_time_is_over(async |locks| {
        let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
        let panicked = tokio::spawn(request.run(|_| async { panic!("on purpose") })).await;
        assert!(panicked.expect_err("it panicked").is_panic());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_body_that_was_dropped() {
    kept_until_the_time_is_over(async |locks| {
        let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
        let call = request.run(|_| std::future::pending::<()>());
        tokio::time::timeout(KEPT / 2, call)
            .await
            .expect_err("it never ends");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_a_lease_that_was_dropped() {
    kept_until_the_time_is_over(async |locks| {
        let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
        drop(request.acquire().await.expect("free"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_lasted_longer_releases_at_once() {
    let locks = LockManager::in_memory();
    let request = locks.lock("k").ttl(TTL).hold_at_least(KEPT);
    request
        .run(|_| tokio::time::sleep(KEPT))
        .await
        .expect("free");
    assert!(is_free(&locks).await);
}

#[tokio::test(start_paused = true)]
async fn it_may_outlast_the_ttl_but_not_the_greatest_ttl() {
    let locks = LockManager::in_memory();
    let request = |kept| {
        let short = locks.lock("k").ttl(Duration::from_secs(1));
        short.hold_at_least(kept)
    };
    request(KEPT).run(|_| async {}).await.expect("free");
    advance(KEPT.saturating_sub(Duration::from_millis(1))).await;
    assert!(!is_free(&locks).await);
    advance(Duration::from_millis(1)).await;
    assert!(is_free(&locks).await);

    for kept in [Duration::from_secs(61), Duration::MAX] {
        let refused = request(kept).run(|_| async {}).await;
        assert!(
            matches!(refused, Err(LockError::InvalidTtl { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn on_servers_too_and_less_than_a_millisecond_is_none() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    let request = locks
        .lock("kept")
        .ttl(TTL)
        .hold_at_least(KEPT)
        .wait(DEADLINE);
    request.run(|_| async {}).await.expect("free");
    let kept = fleet.nodes_with("kept");
    assert!(kept >= 3, "kept on {kept} nodes");
    eventually(DEADLINE, "the release has reached every node", || {
        let holders = fleet
            .servers()
            .iter()
            .filter(|server| server.exists("kept"));
        let mut ttls = holders.map(|server| server.pttl("kept"));
        ttls.all(|ttl| ttl <= 2_000)
    })
    .await;
    fleet.assert_no_keys("kept").await;

    for kept in [Duration::ZERO, Duration::from_nanos(1)] {
        let request = locks.lock("k").ttl(TTL).hold_at_least(kept);
        request.run(|_| async {}).await.expect("free");
        fleet.assert_no_keys("k").await;
    }
}
