//! What is measured of calls: each that was begun ends once, and nobody waits when nobody is there.

use crate::measured::{self, counter, gauge, samples};
use futures_util::FutureExt;
use lock_runtime::{LockManager, OnLost};
use lock_tests::{DEADLINE, eventually};
use std::time::Duration;
use tokio::sync::oneshot;

const TTL: Duration = Duration::from_secs(30);

const OUTCOMES: [&str; 5] = ["acquired", "busy", "no_quorum", "refused", "cancelled"];

fn ended(name: &str, outcome: &str) -> u64 {
    let labels = [("name", name), ("outcome", outcome)];
    counter("lock_acquisitions_total", &labels).unwrap_or(0)
}

fn waiters(name: &str) -> Option<f64> {
    gauge("lock_waiters", &[("name", name)])
}

fn holds(name: &str) -> usize {
    samples("lock_hold_seconds", &[("name", name)]).len()
}

/// Of all calls of a name, each has ended once, its wait was measured, and what it had is over.
async fn all_are_accounted_for(name: &str, calls: u64) {
    eventually(DEADLINE, "what was acquired is over", || {
        holds(name) as u64 == ended(name, "acquired")
    })
    .await;
    let all: Vec<_> = OUTCOMES.map(|outcome| ended(name, outcome)).into();
    assert_eq!(all.iter().sum::<u64>(), calls, "{OUTCOMES:?} {all:?}");
    for outcome in OUTCOMES {
        let labels = [("name", name), ("outcome", outcome)];
        let waits = samples("lock_wait_seconds", &labels).len();
        assert_eq!(waits as u64, ended(name, outcome), "{outcome}");
    }
    let ratios = samples("lock_hold_ratio", &[("name", name)]).len();
    assert_eq!(ratios, holds(name));
    assert_eq!(waiters(name), Some(0.0));
}

/// A hold that is handed over is over for the one and begins for the other.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_handed_over_is_held_by_each_in_turn() {
    measured::install();
    let locks = LockManager::in_memory();
    let ask = || locks.lock("k").name("handed over").ttl(TTL).wait(TTL);
    let first = ask().acquire().await.expect("free");
    let next = tokio::spawn(ask().acquire());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(waiters("handed over"), Some(1.0));
    first.release().await.expect("released");
    let next = next.await.expect("no panic").expect("handed over");
    let handovers = counter("lock_handovers_total", &[("name", "handed over")]);
    assert_eq!(handovers, Some(1));
    assert_eq!(holds("handed over"), 1);
    tokio::time::sleep(TTL / 5).await;
    next.release().await.expect("released");
    let ratios = samples("lock_hold_ratio", &[("name", "handed over")]);
    assert!((ratios[1] - 0.2).abs() < 0.01, "{ratios:?}");
    all_are_accounted_for("handed over", 2).await;
}

/// It was the caller's before he could look at it, and is a loss.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_before_its_caller_is_polled_was_acquired_and_lost() {
    measured::install();
    let locks = LockManager::in_memory();
    let request = locks.lock("k").name("too late").ttl(TTL).extend(false);
    let mut call = Box::pin(request.acquire());
    let first = (&mut call).now_or_never();
    assert!(first.is_none(), "it is done by another task");
    tokio::time::sleep(TTL * 2).await;
    let late = call
        .now_or_never()
        .expect("it was told")
        .expect_err("it is over");
    assert!(late.to_string().contains("ran out"), "{late}");
    let labels = [("name", "too late"), ("reason", "expired")];
    assert_eq!(counter("lock_losses_total", &labels), Some(1));
    all_are_accounted_for("too late", 1).await;
}

/// The manager was built before, as by a `static`, and the recorder is installed before the first call.
#[tokio::test]
async fn a_recorder_may_be_installed_after_the_manager_was_built() {
    let locks = LockManager::in_memory();
    measured::install();
    let lease = locks.lock("k").name("late").ttl(TTL).acquire().await;
    lease.expect("free").release().await.expect("released");
    all_are_accounted_for("late", 1).await;
    assert!(measured::described().contains_key("lock_waiters"));
    let labels = [("name", "late"), ("reason", "expired")];
    assert_eq!(
        counter("lock_losses_total", &labels),
        Some(0),
        "from the start"
    );
}

mod heavy {
    use super::*;
    use lock_tests::{Fleet, dropped_after};
    use tokio::task::JoinSet;

    /// Dropped at random: before they are polled, while they wait in line or for the nodes, inside, and while they release.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn calls_that_are_dropped_at_random_each_end_once() {
        const CALLERS: u64 = 24;
        const CALLS: u64 = 25;
        measured::install();
        let fleet = Fleet::start(3);
        let locks = fleet.ready_manager().await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let locks = locks.clone();
            let mut random = fastrand::Rng::with_seed(seed ^ caller);
            callers.spawn(async move {
                let mut begun = 0;
                for _ in 0..CALLS {
                    let request = match random.u8(..4) {
                        0 => locks.lock_all(["a", "b"]),
                        1 => locks.lock("a").fenced(true),
                        _ => locks.lock("b"),
                    };
                    let request = request.name("dropped").ttl(TTL).wait(TTL);
                    let inside = Duration::from_micros(random.u64(..1_000));
                    let call = request.run(async move |_| tokio::time::sleep(inside).await);
                    let patience = Duration::from_micros(random.u64(..8_000));
                    begun += 1;
                    match random.u8(..3) {
                        0 => drop(dropped_after(1, call).await),
                        1 => drop(tokio::time::timeout(patience, call).await),
                        _ => {
                            // Polled once here: a task that is aborted before it ran has begun no call.
                            let mut call = Box::pin(call);
                            if futures_util::poll!(&mut call).is_pending() {
                                let task = tokio::spawn(call);
                                tokio::time::sleep(patience).await;
                                task.abort();
                                drop(task.await);
                            }
                        }
                    }
                }
                begun
            });
        }
        let mut begun = 0;
        while let Some(calls) = callers.join_next().await {
            begun += calls.expect("no panic");
        }
        assert!(ended("dropped", "cancelled") > 0 && ended("dropped", "acquired") > 0);
        all_are_accounted_for("dropped", begun).await;
    }
}

/// It is one loss, and what follows is how its body ends.
#[tokio::test(start_paused = true)]
async fn a_loss_that_a_shutdown_has_told_is_not_told_again() {
    const NAME: &str = "outlives the grace";
    measured::install();
    let locks = LockManager::in_memory();
    let request = locks.lock("k").ttl(TTL).max_hold(2 * TTL).name(NAME);
    let request = request.on_lost(OnLost::Continue);
    let (held, is_held) = oneshot::channel();
    let call = tokio::spawn(request.run(|_| async {
        held.send(()).expect("it is waited for");
        tokio::time::sleep(4 * TTL).await;
    }));
    is_held.await.expect("free");
    locks.shutdown(Duration::ZERO).await;
    let _ = call.await.expect("no panic");
    let lost = |reason| counter("lock_losses_total", &[("name", NAME), ("reason", reason)]);
    let lost = ["shutdown", "max_hold", "expired", "taken", "renewer"].map(lost);
    assert_eq!(lost, [Some(1), Some(0), Some(0), Some(0), Some(0)]);
    all_are_accounted_for(NAME, 1).await;
}
