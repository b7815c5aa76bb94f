//! Calls within calls: a task that asks for what it holds is told so at once, instead of waiting for itself.

use lock_runtime::{LockError, LockManager, distributed_lock};
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(10);

#[distributed_lock(key = "account:{id}", ttl = "10s", wait = "60s", manager = locks)]
async fn deposit(locks: &LockManager, id: u32) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(keys = ["account:{from}", "account:{to}"], ttl = "10s", manager = locks, name = "transfer")]
async fn transfer(locks: &LockManager, from: u32, to: u32, into: u32) -> Result<(), LockError> {
    deposit(locks, into).await
}

fn assert_already_held(outcome: Result<(), LockError>, by: &str) {
    match outcome {
        Err(LockError::AlreadyHeld { by: holder, .. }) => assert!(holder.contains(by), "{holder}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_is_refused_at_once_and_another_one_nests() {
    let locks = LockManager::in_memory();
    let asked = Instant::now();
    assert_already_held(transfer(&locks, 1, 2, 1).await, "transfer");
    assert_already_held(transfer(&locks, 1, 2, 2).await, "transfer");
    assert_eq!(asked.elapsed(), Duration::ZERO, "nobody waits for himself");
    transfer(&locks, 1, 2, 3).await.expect("another account");
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn overlapping_keys_are_refused_whatever_their_order() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let request = locks.lock("b").ttl(TTL);
    let outcome = request.run(|_| async move {
        let overlapping = inner.lock_all(["a", "b", "c"]).ttl(TTL).wait_forever();
        overlapping.acquire().await.map(drop)
    });
    let outcome = outcome.await.expect("free");
    assert!(
        matches!(outcome, Err(LockError::AlreadyHeld { ref key, .. }) if key.as_str() == "b"),
        "{outcome:?}"
    );
}

/// Two calls that one body joins hold nothing for one another: the second waits for the first.
#[tokio::test(start_paused = true)]
async fn joined_siblings_take_turns() {
    let locks = LockManager::in_memory();
    let (one, other) = tokio::join!(deposit(&locks, 1), deposit(&locks, 1));
    one.expect("its turn");
    other.expect("its turn");
}

/// A spawned task is another one, also where the body that spawned it holds the lock.
#[tokio::test(start_paused = true)]
async fn a_spawned_task_waits_for_the_body_that_spawned_it() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let request = locks.lock("account:1").ttl(TTL);
    let spawned = request.run(|_| async move {
        let spawned = tokio::spawn(async move { deposit(&inner, 1).await });
        tokio::time::sleep(TTL / 2).await;
        assert!(!spawned.is_finished(), "it waits");
        (spawned,)
    });
    let (spawned,) = spawned.await.expect("free");
    spawned
        .await
        .expect("no panic")
        .expect("after the body has ended");
}

/// The other manager has other nodes, so the key is another lock.
#[tokio::test(start_paused = true)]
async fn the_same_key_of_another_manager_nests() {
    let (locks, others) = (LockManager::in_memory(), LockManager::in_memory());
    let request = locks.lock("account:1").ttl(TTL);
    let outcome = request
        .run(|_| async move { deposit(&others, 1).await })
        .await;
    outcome.expect("free").expect("another lock");
}

/// A lease that was lost is nobody's: asking again is asking like everybody else.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_no_longer_held() {
    let locks = LockManager::in_memory();
    let inner = locks.clone();
    let request = locks.lock("account:1").ttl(TTL).extend(false);
    let request = request.on_lost(lock_runtime::OnLost::Continue);
    let outcome = request.run(|lease| async move {
        lease.lost().await;
        deposit(&inner, 1).await
    });
    outcome.await.expect("it runs on").expect("free again");
}
