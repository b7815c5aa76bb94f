//! Locals and then parameters are dropped while the lock is held, whatever way the body ends.

#![allow(clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{Lease, LockError, LockManager, distributed_lock};

thread_local! {
    static EVENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The lease of the body that ran last: over as soon as the lock is being released.
    static LEASE: RefCell<Option<Arc<Lease>>> = const { RefCell::new(None) };
}

fn note(event: impl Into<String>) {
    EVENTS.with_borrow_mut(|events| events.push(event.into()));
}

fn events() -> Vec<String> {
    EVENTS.take()
}

/// Notes its drop, and whether that was under the lock.
struct Noted(&'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        let held = LEASE.with_borrow(|lease| lease.as_ref().is_some_and(|lease| !lease.is_lost()));
        note(format!(
            "{}{}",
            self.0,
            if held { "" } else { ", not locked" }
        ));
    }
}

struct Service(Noted);

impl Service {
    #[distributed_lock(key = "k:{how}", ttl = "8s", manager = locks)]
    async fn call(
        self,
        locks: &LockManager,
        used: Noted,
        _: Noted,
        (first, _second): (Noted, Noted),
        how: &str,
    ) -> Result<&'static str, LockError> {
        let _local = Noted("local");
        LEASE.set(Some(lock_runtime::__private::running_lease()));
        note(format!("body of {} {} {}", self.0.0, used.0, first.0));
        tokio::task::yield_now().await;
        match how {
            "return" => return Ok(how_it_ended("returned")),
            "panic" => panic!("on purpose"),
            "await" => {
                note("await 1");
                tokio::task::yield_now().await;
                let _later = Noted("later local");
                note("await 2");
                tokio::task::yield_now().await;
                note("await 3");
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        Ok(how_it_ended("done"))
    }
}

/// Until the event was noted: a body goes on meanwhile, whatever its lock needs to be acquired.
async fn noted(event: &str) {
    while EVENTS.with_borrow(|events| events.iter().all(|noted| noted != event)) {
        tokio::task::yield_now().await;
    }
}

fn how_it_ended(how: &'static str) -> &'static str {
    note(how);
    how
}

fn call<'a>(
    locks: &'a LockManager,
    how: &'a str,
) -> impl Future<Output = Result<&'static str, LockError>> + use<'a> {
    let pair = (Noted("first"), Noted("second"));
    Service(Noted("self")).call(locks, Noted("used"), Noted("unnamed"), pair, how)
}

const PARAMETERS: [&str; 5] = ["second", "first", "unnamed", "used", "self"];

#[tokio::test]
async fn at_the_end_and_at_an_early_return() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    for (how, ended) in [("end", "done"), ("return", "returned")] {
        assert_eq!(call(&locks, how).await?, ended);
        let mut expected = vec!["body of self used first", ended, "local"];
        expected.extend(PARAMETERS);
        assert_eq!(events(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn at_a_panic() {
    let locks = LockManager::in_memory();
    // The test's runtime has one thread, so the task notes its events where they are looked for.
    let task = tokio::spawn(async move { call(&locks, "panic").await });
    let panicked = task.await.unwrap_err();
    assert!(panicked.is_panic());
    let mut expected = vec!["body of self used first", "local"];
    expected.extend(PARAMETERS);
    assert_eq!(events(), expected);
}

#[tokio::test]
async fn at_a_cancellation_at_each_await() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    for last in 1..=3 {
        let awaits: Vec<String> = (1..=last).map(|n| format!("await {n}")).collect();
        tokio::select! {
            biased;
            () = noted(&awaits[last - 1]) => {}
            ended = call(&locks, "await") => panic!("{ended:?}"),
        }
        let mut expected = vec!["body of self used first"];
        expected.extend(awaits.iter().map(String::as_str));
        expected.extend((last > 1).then_some("later local"));
        expected.push("local");
        expected.extend(PARAMETERS);
        assert_eq!(events(), expected);
        assert!(LEASE.take().is_some_and(|lease| lease.is_lost()));
        // What is released in the background is free soon.
        let request = locks.lock("k:await").ttl(Duration::from_secs(8));
        drop(request.wait(Duration::from_secs(30)).acquire().await?);
    }
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", wait = forever, manager = locks)]
async fn waiting(
    locks: &LockManager,
    used: Noted,
    _: Noted,
    _asked: &str,
) -> Result<(), LockError> {
    note("body");
    drop(used);
    Ok(())
}

#[tokio::test]
async fn at_a_cancellation_while_waiting_for_the_lock() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    let request = locks.lock("k").ttl(Duration::from_secs(60));
    let lease = request.clone().acquire().await?;
    let call = waiting(&locks, Noted("used"), Noted("unnamed"), "");
    let elapsed = tokio::time::timeout(Duration::from_millis(100), call).await;
    assert!(elapsed.is_err());
    assert_eq!(events(), ["unnamed, not locked", "used, not locked"]);
    lease.release().await.expect("it is held");
    drop(request.acquire().await?);
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", manager = locks)]
async fn in_part(locks: &LockManager, (_, _named): (Noted, Noted)) -> Result<(), LockError> {
    LEASE.set(Some(lock_runtime::__private::running_lease()));
    Ok(())
}

/// The limit that the documentation names: without a name, a part of a parameter cannot be moved into the body.
#[tokio::test]
async fn a_part_without_a_name_is_dropped_after_the_release() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    in_part(&locks, (Noted("unnamed part"), Noted("named"))).await?;
    assert_eq!(events(), ["named", "unnamed part, not locked"]);
    Ok(())
}

#[tokio::test]
async fn a_busy_lock_drops_the_parameters_and_never_polls_the_body() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    let lease = locks
        .lock("k:busy")
        .ttl(Duration::from_secs(8))
        .acquire()
        .await?;
    let refused = call(&locks, "busy").await.unwrap_err();
    assert!(refused.is_busy(), "{refused}");
    let dropped = events();
    let expected: Vec<String> = PARAMETERS
        .iter()
        .map(|name| format!("{name}, not locked"))
        .collect();
    assert_eq!(dropped, expected);
    drop(lease);
    Ok(())
}
