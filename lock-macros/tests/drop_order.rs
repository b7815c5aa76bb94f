//! Locals and then parameters are dropped while the lock is held, whatever way the body ends.

#![allow(clippy::large_types_passed_by_value, clippy::panic)]

use std::cell::RefCell;
use std::panic::catch_unwind;

use lock_runtime::{LockError, LockManager, assert_held, distributed_lock};

thread_local! {
    static EVENTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
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
        let held = catch_unwind(assert_held).is_ok();
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
        note(format!("body of {} {} {}", self.0.0, used.0, first.0));
        tokio::task::yield_now().await;
        match how {
            "return" => return Ok(how_it_ended("returned")),
            "panic" => panic!("on purpose"),
            _ => {}
        }
        Ok(how_it_ended("done"))
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
async fn a_busy_lock_drops_the_parameters_and_never_polls_the_body() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    let lease = locks
        .lock("k:busy")
        .ttl(std::time::Duration::from_secs(8))
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

#[distributed_lock(key = "large", ttl = "8s", manager = locks)]
async fn large(locks: &LockManager, bytes: [u8; 4096]) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(bytes[0])
}

async fn large_without_lock(_locks: &LockManager, bytes: [u8; 4096]) -> Result<u8, LockError> {
    tokio::task::yield_now().await;
    Ok(bytes[0])
}

#[test]
fn a_large_parameter_is_not_stored_once_more() {
    let locks = LockManager::in_memory();
    let guarded = size_of_val(&large(&locks, [0; 4096]));
    let plain = size_of_val(&large_without_lock(&locks, [0; 4096]));
    assert!(
        guarded < plain + 4096,
        "{guarded} bytes, and {plain} without the lock"
    );
}
