//! A held lock is held: renewed whatever the body does, and lost for good when it cannot be.

use lock_runtime::{LockError, LockManager, OnLost, distributed_lock};
use lock_tests::version::is_before_7;
use lock_tests::{DEADLINE, Fleet, Mode, eventually, eventually_async, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(1);

/// Long enough for a lock of this TTL to have run out several times, were it not renewed.
const LONG: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_body_may_outlast_its_ttl_many_times() {
    let locks = LockManager::in_memory();
    let rival = locks.clone();
    let request = locks.lock("k").ttl(TTL);
    let outcome = request.run(|lease| async move {
        for _ in 0..600 {
            tokio::time::sleep(TTL / 10).await;
            assert!(lease.remaining() > TTL / 2, "{:?}", lease.remaining());
        }
        let rival = tokio::spawn(rival.lock("k").ttl(TTL).acquire());
        rival.await.expect("no panic").expect_err("held").is_busy()
    });
    assert!(outcome.await.expect("never lost"));
    assert_eq!(locks.stats().lost, 0);
}

#[tokio::test]
async fn it_is_renewed_on_servers_while_the_body_waits() {
    let fleet = Fleet::start(5);
    let (locks, rival) = (fleet.manager(), fleet.manager());
    ready(&rival).await;
    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
    let outcome = request.run(|_| async move {
        let started = Instant::now();
        while started.elapsed() < LONG {
            let tried = rival.lock("k").ttl(TTL).acquire().await;
            assert!(
                tried.is_err(),
                "a rival got in after {:?}",
                started.elapsed()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    outcome.await.expect("never lost");
    fleet.assert_no_keys("k").await;
}

/// The renewer has a thread of its own, so it goes on even on a runtime of one thread that the body blocks.
#[tokio::test(flavor = "current_thread")]
async fn it_is_renewed_while_the_body_computes_without_yielding() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
    let outcome = request.run(|lease| async move {
        let started = Instant::now();
        let mut sum = 0_u64;
        while started.elapsed() < LONG / 2 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(!lease.is_lost());
        tokio::task::yield_now().await;
        sum
    });
    assert!(outcome.await.expect("never lost") > 0);
    fleet.assert_no_keys("k").await;
}

/// What ends before a third of its TTL is over sends nothing but its acquire and its release.
#[tokio::test]
async fn a_short_body_costs_no_renewal() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let locks = fleet.manager();
    eventually_async(DEADLINE, "all three nodes are connected", || async {
        let lease = locks
            .lock("k")
            .ttl(LONG)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("free");
        let nodes = fleet.nodes_with("k");
        lease.release().await.expect("released");
        nodes == 3
    })
    .await;
    fleet.assert_no_keys("k").await;
    for server in fleet.servers() {
        server.reset_command_stats();
    }
    for round in 0..20 {
        let request = locks.lock(format!("k{round}")).ttl(Duration::from_secs(30));
        request
            .run(|_| tokio::task::yield_now())
            .await
            .expect("free");
    }
    fleet.assert_no_keys("k*").await;
    for server in fleet.servers() {
        let stats = server.command_stats();
        let scripts = if is_before_7() { 2 * 20 } else { 20 };
        // One more where the connection was only just made: the server is told that it votes.
        assert!(
            stats.get("set").is_some_and(|&calls| calls <= 21),
            "{stats:?}"
        );
        assert!(
            stats.get("evalsha").is_some_and(|&calls| calls <= scripts),
            "{stats:?}"
        );
        assert_eq!(stats.get("pexpire"), None, "{stats:?}");
    }
}

#[tokio::test]
async fn an_inconclusive_renewal_is_repeated_and_is_no_loss() {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.found().await;
    let locks = fleet.manager();
    ready(&locks).await;
    let ttl = Duration::from_secs(12);
    let request = locks.lock("k").ttl(ttl).wait(DEADLINE);
    let proxies = || fleet.proxies()[..3].iter();
    let outcome = request.run(|lease| async move {
        let before = lease.remaining();
        proxies().for_each(|proxy| proxy.set(Mode::Blackhole));
        eventually(DEADLINE, "the first renewal has failed", || {
            lease.remaining() < ttl / 2
        })
        .await;
        proxies().for_each(|proxy| proxy.set(Mode::Pass));
        eventually(DEADLINE, "a later one has not", || {
            lease.remaining() > ttl * 2 / 3
        })
        .await;
        before
    });
    outcome.await.expect("never lost");
    assert_eq!(locks.stats().lost, 0);
    fleet.assert_no_keys("k").await;
}

#[tokio::test]
async fn nodes_that_are_away_for_too_long_are_a_loss_that_stops_the_body() {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.found().await;
    let locks = fleet.manager();
    ready(&locks).await;
    let steps = Arc::new(AtomicU32::new(0));
    let inside = Arc::clone(&steps);
    let proxies = || fleet.proxies()[..3].iter();
    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
    let outcome = request.run(|lease| async move {
        proxies().for_each(|proxy| proxy.set(Mode::Blackhole));
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(
                !lease.is_lost(),
                "the body sees no statement past its lease"
            );
            inside.fetch_add(1, Ordering::SeqCst);
        }
    });
    let error = outcome.await.map(|never: ()| never).expect_err("lost");
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    assert!(steps.load(Ordering::SeqCst) > 0);
    assert_eq!(locks.stats().lost, 1);
    proxies().for_each(|proxy| proxy.set(Mode::Pass));
    fleet.assert_no_keys("k").await;
}

/// A lock that somebody else has on a majority is lost at the next renewal, long before its deadline.
#[tokio::test]
async fn a_lock_that_was_taken_is_lost_at_the_next_renewal() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    let ttl = Duration::from_secs(6);
    let lease = locks
        .lock("k")
        .ttl(ttl)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("free");
    for server in fleet.servers() {
        let _: String = server.command(&["SET", "k", "somebody else", "PX", "60000"]);
    }
    let deadline = lease.remaining();
    let noticed = Instant::now();
    tokio::time::timeout(DEADLINE, lease.lost())
        .await
        .expect("it is noticed");
    assert!(
        noticed.elapsed() < deadline,
        "by the renewal, not by the deadline"
    );
    assert!(lease.is_lost());
    lease.release().await.expect_err("it was not ours");
    for server in fleet.servers() {
        assert_eq!(server.get("k").as_deref(), Some("somebody else"));
    }
}

/// A renewal takes the lock again where it is missing, but a lease that has ended never comes back.
#[tokio::test]
async fn a_missing_lock_is_taken_again_before_the_deadline_and_never_after() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    let lease = locks
        .lock("k")
        .ttl(LONG)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("free");
    for server in &fleet.servers()[..2] {
        let _: u64 = server.command(&["DEL", "k"]);
    }
    lease.extend().await.expect("three of five have it");
    eventually(DEADLINE, "it is back everywhere", || {
        fleet.nodes_with("k") == 5
    })
    .await;
    lease.release().await.expect("released");

    let request = locks
        .lock("k")
        .ttl(Duration::from_millis(100))
        .extend(false);
    let lease = request.wait(DEADLINE).acquire().await.expect("free");
    eventually(DEADLINE, "it has run out", || lease.is_lost()).await;
    let error = lease.extend().await.expect_err("too late");
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    fleet.assert_no_keys("k").await;
    assert!(lease.is_lost());
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_body_that_renewals_would_keep() {
    let locks = LockManager::in_memory();
    let asked = tokio::time::Instant::now();
    let request = locks.lock("k").ttl(TTL).max_hold(TTL * 5);
    let outcome = request.run(|_| std::future::pending::<()>()).await;
    let error = outcome.expect_err("lost");
    assert!(error.to_string().contains("max_hold"), "{error}");
    let held = asked.elapsed();
    assert!(
        held >= TTL * 5 && held < TTL * 5 + Duration::from_millis(5),
        "{held:?}"
    );
    let next = locks.lock("k").ttl(TTL).acquire().await;
    drop(next.expect("free at once"));

    let refused = locks.lock("k").ttl(TTL).max_hold(TTL / 2).acquire().await;
    assert!(
        matches!(refused, Err(LockError::InvalidTtl { .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_continues_is_told_of_its_loss_and_finishes() {
    let locks = LockManager::in_memory();
    let request = locks
        .lock("k")
        .ttl(TTL)
        .extend(false)
        .on_lost(OnLost::Continue);
    let outcome = request.run(|lease| async move {
        assert!(!lease.is_lost());
        lease.lost().await;
        assert!(lease.is_lost());
        tokio::time::sleep(TTL).await;
        "finished"
    });
    assert_eq!(outcome.await.expect("it runs on"), "finished");
    assert_eq!(locks.stats().lost, 1);
}

#[distributed_lock(key = "k", ttl = "1s", extend = false, on_lost = continue, lease = lease, manager = locks)]
async fn continues(locks: &LockManager) -> Result<bool, LockError> {
    lease.lost().await;
    Ok(lease.is_lost())
}

#[distributed_lock(key = "k", ttl = "1s", max_hold = "3s", manager = locks)]
async fn capped(locks: &LockManager, finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_millis(2_900)).await;
    finished.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_attribute_says_the_same() {
    let locks = LockManager::in_memory();
    assert!(continues(&locks).await.expect("it runs on"));
    let finished = AtomicBool::new(false);
    let error = capped(&locks, &finished).await.expect_err("too long");
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    assert!(finished.load(Ordering::SeqCst), "renewed until max_hold");
}

/// Whatever renews is gone with its runtime, and what it renewed is lost at once, not at its deadline.
#[test]
fn a_renewer_that_ends_is_a_loss() {
    let locks = LockManager::in_memory();
    let first = tokio::runtime::Runtime::new().unwrap();
    let lease = first.block_on(async {
        let request = locks.lock("k").ttl(Duration::from_secs(60));
        request.acquire().await.expect("free")
    });
    assert!(!lease.is_lost());
    drop(first);
    let later = tokio::runtime::Runtime::new().unwrap();
    later.block_on(eventually(DEADLINE, "it is lost", || lease.is_lost()));
    drop(lease);
    // The manager works on the next runtime.
    later.block_on(async {
        let lease = locks.lock("k").ttl(Duration::from_secs(60)).acquire().await;
        lease.expect("free").release().await.expect("released");
    });
}

/// A renewer of embedded nodes is a task of the caller's runtime. It goes with its manager, not when the last lease would
/// have been due.
#[tokio::test]
async fn a_renewer_ends_with_its_manager() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let locks = LockManager::in_memory();
    let lease = locks.lock("k").ttl(Duration::from_secs(60)).acquire().await;
    let lease = lease.expect("free");
    drop(locks);
    lease.extend().await.expect("a lease needs no manager");
    assert!(tasks() > before, "it is renewed");
    lease.release().await.expect("released");
    let locks = LockManager::in_memory();
    let lease = locks.lock("k").ttl(Duration::from_secs(60)).acquire().await;
    lease.expect("free").release().await.expect("released");
    drop(locks);
    eventually(DEADLINE, "no task is left", || tasks() == before).await;
}

/// Does something when it is dropped.
struct AtTheEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A lease that is acquired while the runtime is going away is lost, and nothing waits for ever.
#[test]
fn a_lease_of_a_runtime_that_is_going_away_is_lost() {
    let locks = LockManager::in_memory();
    let (told, outcome) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (started, running) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let _last = AtTheEnd(|| {
            let request = locks.lock("k").ttl(Duration::from_secs(60));
            let tried = lock_tests::dropped_after(1, request.acquire());
            let _ = told.send(
                futures_util::FutureExt::now_or_never(tried)
                    .flatten()
                    .map(|outcome| outcome.is_ok()),
            );
        });
        let _ = started.send(());
        std::future::pending::<()>().await;
    });
    running.recv_timeout(DEADLINE).expect("the task runs");
    drop(runtime);
    let outcome = outcome.recv_timeout(DEADLINE).expect("it does not block");
    assert_ne!(outcome, Some(true), "nobody would renew it");
}
