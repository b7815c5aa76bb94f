//! `shutdown`: nothing new, time for what is under way, and then nothing of ours is left on any node.

use lock_runtime::{LockError, LockManager, LockRequest, OnLost, distributed_lock};
use lock_tests::{DEADLINE, Fleet, Mode, RedisServer, dropped_after, eventually, stays};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

mod in_time;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// So short that a lock which is not renewed goes away while a test looks.
const SHORT: Duration = Duration::from_secs(3);

/// What a body has that is in no hurry to end, and what a shutdown has that waits for it to the end.
const LONG: Duration = Duration::from_secs(3600);

fn ask(locks: &LockManager, key: &str) -> LockRequest {
    locks.lock(key).ttl(TTL)
}

fn is_shutting_down<T>(outcome: &Result<T, LockError>) -> bool {
    matches!(outcome, Err(LockError::ShuttingDown { .. }))
}

/// Runs a body that never ends, and returns once it runs.
async fn endless(locks: &LockManager, key: &str) -> tokio::task::JoinHandle<Result<(), LockError>> {
    let running = Arc::new(AtomicBool::new(false));
    let body = {
        let running = Arc::clone(&running);
        ask(locks, key).run(|_| async move {
            running.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        })
    };
    let task = tokio::spawn(body);
    eventually(DEADLINE, "the body runs", || running.load(Ordering::SeqCst)).await;
    task
}

#[tokio::test]
async fn nothing_new_is_taken_and_nothing_of_it_is_left() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let report = locks.shutdown(LONG).await;
    assert_eq!((report.stopped, report.left), (0, 0));

    let refused = ask(&locks, "k").wait(LONG).acquire().await;
    let Err(error) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        matches!(&error, LockError::ShuttingDown { key, .. } if key.as_str() == "k"),
        "{error:?}"
    );
    assert!(!error.is_busy() && !error.is_outage(), "{error}");
    let words = error.to_string();
    assert!(
        words.contains('k') && words.contains("shutting down"),
        "{words}"
    );
    let ran = ask(&locks, "k")
        .run(|_| async { unreachable!() as () })
        .await;
    assert!(is_shutting_down(&ran), "{ran:?}");
    assert!(!locks.ready().await, "no more traffic is wanted");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_skipping_function_does_not_run_and_is_no_outage() {
    #[distributed_lock(key = "job", ttl = "8s", on_busy = skip, manager = locks)]
    async fn quiet(locks: &LockManager) {
        panic!("it runs");
    }
    #[distributed_lock(key = "job", ttl = "8s", on_busy = skip, manager = locks)]
    async fn told(locks: &LockManager) -> Result<(), LockError> {
        panic!("it runs");
    }
    let locks = LockManager::in_memory();
    locks.shutdown(Duration::ZERO).await;
    quiet(&locks).await;
    let refused = told(&locks).await;
    assert!(is_shutting_down(&refused), "{refused:?}");
}

#[tokio::test]
async fn those_who_wait_are_told_at_once() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let other = fleet.manager();
    let holder = ask(&other, "k").acquire().await.expect("free");
    let mut waiting = Vec::new();
    for request in [
        ask(&locks, "k").wait(LONG),
        ask(&locks, "k").wait_forever(),
        locks.lock_all(["a", "k"]).ttl(TTL).wait_forever(),
    ] {
        waiting.push(tokio::spawn(request.acquire()));
    }
    eventually(DEADLINE, "they have tried", || fleet.nodes_with("k") == 3).await;
    let report = locks.shutdown(LONG).await;
    assert_eq!((report.stopped, report.left), (0, 0));
    for waiter in waiting {
        let outcome = waiter.await.expect("no panic");
        assert!(is_shutting_down(&outcome), "{outcome:?}");
    }
    assert!(!holder.is_lost(), "that is another manager's");
    holder.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

/// Between two tries of one that settles a split vote nothing is under way that a shutdown could wait for.
#[tokio::test]
async fn those_who_settle_a_split_vote_ask_for_nothing_afterwards() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    for round in 0..10 {
        let locks = fleet.manager();
        lock_tests::ready(&locks).await;
        let key = format!("k{round}");
        for (server, owner) in fleet.servers().iter().zip(["a", "a", "b", "b"]) {
            server.command::<()>(&["SET", &key, owner, "PX", "60000"]);
        }
        let settling = tokio::spawn(ask(&locks, &key).wait(LONG).acquire());
        eventually(DEADLINE, "the vote is split", || {
            locks.stats().split_votes > 0
        })
        .await;
        locks.shutdown(LONG).await;
        // From here on whoever asks would be granted the lock.
        let sets = |server: &RedisServer| {
            server.command::<()>(&["DEL", &key]);
            server.command_stats().remove("set")
        };
        let before: Vec<_> = fleet.servers().iter().map(sets).collect();
        let outcome = settling.await.expect("no panic");
        assert!(is_shutting_down(&outcome), "{outcome:?}");
        let after: Vec<_> = fleet.servers().iter().map(sets).collect();
        assert_eq!(before, after, "round {round}");
    }
}

#[tokio::test]
async fn a_body_that_ends_in_time_is_not_stopped_and_the_shutdown_ends_with_it() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let (go, may_end) = tokio::sync::oneshot::channel();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(ask(&locks, "k").run(|lease| async move {
        begun.send(()).expect("it is waited for");
        may_end.await.expect("told");
        lease.is_lost()
    }));
    has_begun.await.expect("it runs");

    let mut shutdown = under_way(locks.shutdown(LONG)).await;
    go.send(()).expect("it waits for this");
    let report = (&mut shutdown).await;
    assert_eq!((report.stopped, report.left), (0, 0));
    // At once: whoever exits now leaves nothing.
    assert_eq!(fleet.nodes_with("k"), 0);
    let lost = body.await.expect("no panic").expect("not stopped");
    assert!(!lost);
}

/// Drives a shutdown until it has begun; it must not be over while something is held.
async fn under_way<T>(
    shutdown: impl Future<Output = T>,
) -> std::pin::Pin<Box<impl Future<Output = T>>> {
    let mut shutdown = Box::pin(shutdown);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut shutdown).await;
    assert!(early.is_err(), "it returned while a body ran");
    shutdown
}

/// Looks, when it is dropped, whether its key is still on the nodes.
struct Witness {
    fleet: Arc<Fleet>,
    seen: Arc<AtomicUsize>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.seen
            .store(self.fleet.nodes_with("k"), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_body_that_does_not_end_is_dropped_and_then_its_lock_is_released() {
    let fleet = Arc::new(Fleet::start(5));
    let locks = fleet.ready_manager().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let witness = Witness {
        fleet: Arc::clone(&fleet),
        seen: Arc::clone(&seen),
    };
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(ask(&locks, "k").run(|_| async move {
        let _witness = witness;
        begun.send(()).expect("it is waited for");
        std::future::pending::<()>().await;
    }));
    has_begun.await.expect("it runs");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 5).await;

    let report = locks.shutdown(Duration::from_millis(20)).await;
    assert_eq!((report.stopped, report.left), (1, 0));
    assert_eq!(fleet.nodes_with("k"), 0);
    assert_eq!(seen.load(Ordering::SeqCst), 5, "body first, lock second");
    let Err(error) = body.await.expect("no panic") else {
        panic!("it ended");
    };
    assert!(matches!(error, LockError::Lost { .. }), "{error:?}");
    assert!(error.to_string().contains("shut down"), "{error}");
    assert_eq!(locks.stats().lost, 0, "nothing was lost that should not be");
}

#[tokio::test]
async fn a_lease_by_hand_is_told_and_released() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let lease = ask(&locks, "k").acquire().await.expect("free");
    let fixed = ask(&locks, "fixed").extend(false).acquire().await;
    let fixed = fixed.expect("free");
    let (report, ()) = tokio::join!(locks.shutdown(Duration::from_millis(20)), lease.lost());
    assert_eq!((report.stopped, report.left), (2, 0));
    assert!(lease.is_lost() && fixed.is_lost());
    assert_eq!(fleet.nodes_with("k") + fleet.nodes_with("fixed"), 0);
    let refused = lease.extend().await;
    assert!(
        matches!(refused, Err(LockError::Lost { .. })),
        "{refused:?}"
    );
    lease.release().await.expect("the shutdown has released it");
    drop(fixed);
    fleet.assert_no_keys("*").await;
}

/// Nobody holds it any more, and whoever has it need not have noticed.
#[tokio::test]
async fn a_lease_by_hand_that_was_lost_is_not_waited_for_and_released() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let ttl = Duration::from_secs(3);
    let request = || locks.lock("k").ttl(ttl).max_hold(ttl);
    // On the nodes it was renewed shortly before it was over.
    let before = request().acquire().await.expect("free");
    before.lost().await;
    assert_eq!(fleet.nodes_with("k"), 3);
    let leaked = locks.lock("leaked").ttl(ttl).extend(false).acquire().await;
    std::mem::forget(leaked.expect("free"));
    let lost_meanwhile = locks.lock("l").ttl(ttl).extend(false).acquire().await;
    let lost_meanwhile = lost_meanwhile.expect("free");

    let report = locks.shutdown(LONG).await;
    assert_eq!((report.stopped, report.left), (0, 0));
    assert!(lost_meanwhile.is_lost(), "it was waited for");
    assert_eq!(fleet.nodes_with("k"), 0);
    before
        .release()
        .await
        .expect("the shutdown has released it");
}

#[test]
fn a_lease_of_a_runtime_that_is_gone_is_not_waited_for() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().expect("a runtime")
    };
    let locks = LockManager::in_memory();
    let gone = runtime();
    let lease = gone.block_on(ask(&locks, "k").acquire()).expect("free");
    drop(gone);
    assert!(lease.is_lost());
    let report = runtime().block_on(locks.shutdown(LONG));
    assert_eq!((report.stopped, report.left), (0, 0));
}

/// A body that the shutdown could not stop is told of, and renewed for longer than the TTL.
async fn assert_keeps_its_lock(fleet: &Fleet, locks: &LockManager) {
    let report = locks.shutdown(Duration::ZERO).await;
    assert_eq!((report.stopped, report.left), (1, 1));
    stays(SHORT, "nobody may run next to it", || {
        fleet.nodes_with("k") >= 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_cannot_be_stopped_keeps_its_lock() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let (go, may_end) = std::sync::mpsc::channel::<()>();
    // Blocks its thread, which is what a body must not do.
    let request = locks.lock("k").ttl(SHORT);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(request.run(|_| async move {
        begun.send(()).expect("it is waited for");
        may_end.recv()
    }));
    has_begun.await.expect("it runs");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 3).await;

    assert_keeps_its_lock(&fleet, &locks).await;
    go.send(()).expect("it waits for this");
    let outcome = body.await.expect("no panic");
    assert!(outcome.is_ok(), "it came to its end: {outcome:?}");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_body_that_runs_on_is_told_and_keeps_its_lock_until_its_end() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let (go, may_end) = tokio::sync::oneshot::channel::<()>();
    let request = locks.lock("k").ttl(SHORT).on_lost(OnLost::Continue);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(request.run(|lease| async move {
        begun.send(()).expect("it is waited for");
        lease.lost().await;
        may_end.await.expect("told");
    }));
    has_begun.await.expect("it runs");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 3).await;
    assert_keeps_its_lock(&fleet, &locks).await;
    go.send(()).expect("it waits for this");
    body.await.expect("no panic").expect("its own result");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_lock_that_is_kept_for_a_while_is_kept() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let request = ask(&locks, "k").hold_at_least(Duration::from_secs(50));
    request.run(|_| async {}).await.expect("free");
    let report = locks.shutdown(LONG).await;
    assert_eq!((report.stopped, report.left), (0, 0));
    assert_eq!(fleet.nodes_with("k"), 3, "or the job would run twice");
    for server in fleet.servers() {
        assert!((1..=50_000).contains(&server.pttl("k")));
    }
}

#[tokio::test]
async fn cancelled_it_stops_nothing_and_can_be_called_again() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let body = endless(&locks, "k").await;
    for polls in 0..=1 {
        dropped_after(polls, locks.shutdown(LONG)).await;
    }
    drop(under_way(locks.shutdown(LONG)).await);
    let refused = ask(&locks, "other").acquire().await;
    assert!(is_shutting_down(&refused), "{refused:?}");
    assert!(!body.is_finished());
    assert_eq!(locks.stats().stopped, 0);

    let (first, second) = tokio::join!(
        locks.shutdown(Duration::from_millis(20)),
        locks.shutdown(LONG)
    );
    assert_eq!((first.stopped, first.left), (1, 0));
    assert_eq!(second.left, 0);
    body.await.expect("no panic").expect_err("it was stopped");
    assert_eq!(fleet.nodes_with("k"), 0);
}
