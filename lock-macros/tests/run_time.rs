//! What only run time knows about the arguments is refused in words, before anything is sent.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};

const MINUTE: Duration = Duration::from_secs(60);

#[distributed_lock(key = "k", ttl = ttl, manager = locks)]
async fn with_ttl(locks: &LockManager, ttl: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", max_hold = max_hold, hold_at_least = "2s", manager = locks)]
async fn with_max_hold(locks: &LockManager, max_hold: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", hold_at_least = "61s", manager = locks)]
async fn kept_beyond_max_ttl(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", hold_at_least = least, max_hold = most, manager = locks)]
async fn kept(locks: &LockManager, least: Duration, most: Duration) -> Result<(), LockError> {
    Ok(())
}

fn locks() -> LockManager {
    LockManager::builder()
        .node(lock_runtime::memory())
        .max_ttl(MINUTE)
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_refused(outcome: Result<(), LockError>, reason: &str) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, LockError::InvalidTtl { .. }), "{error:?}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[tokio::test]
async fn what_does_not_fit_together() {
    let locks = locks();
    let second = Duration::from_secs(1);
    assert_refused(with_ttl(&locks, Duration::ZERO).await, "drift");
    assert_refused(
        with_ttl(&locks, MINUTE + second).await,
        "longer than max_ttl",
    );
    assert_refused(
        with_max_hold(&locks, second * 7).await,
        "shorter than the TTL",
    );
    assert_refused(
        kept_beyond_max_ttl(&locks).await,
        "hold_at_least of 61s is longer than max_ttl",
    );
    assert_refused(
        kept(&locks, second * 9, second * 8).await,
        "hold_at_least of 9s is longer than max_hold",
    );
    assert!(
        locks.lock("k").ttl(second).acquire().await.is_ok(),
        "nothing was locked"
    );
}

/// The attribute refuses `ttl = "2ms"` and takes `"3ms"`: so does the runtime.
#[tokio::test]
async fn the_shortest_ttl_is_that_of_the_attribute() {
    let locks = locks();
    assert_refused(with_ttl(&locks, Duration::from_millis(2)).await, "drift");
    // So short a lease may be over before it is seen; but it can be asked for.
    if let Err(error) = with_ttl(&locks, Duration::from_millis(3)).await {
        assert!(!matches!(error, LockError::InvalidTtl { .. }), "{error}");
    }
}
