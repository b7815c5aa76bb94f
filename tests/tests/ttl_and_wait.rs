//! TTLs and waits, at their extremes and between: a typed error or what was asked for, never a panic and never a lock that
//! does not end. Run in debug and in release builds.

use lock_runtime::{LockError, LockManager};
use lock_tests::{DEADLINE, Fleet, Mode, cycle, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);
const NANO: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn a_ttl_that_cannot_be_kept_is_refused_and_nothing_is_asked() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let below_drift = Duration::from_millis(2);
    for ttl in [Duration::ZERO, NANO, below_drift, TTL + NANO, Duration::MAX] {
        let ran = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&ran);
        let request = locks.lock("k").ttl(ttl).wait(Duration::MAX);
        let outcome = request
            .run(|_| async move { inside.store(true, Ordering::SeqCst) })
            .await;
        assert!(
            matches!(outcome, Err(LockError::InvalidTtl { .. })),
            "{ttl:?}: {outcome:?}"
        );
        assert!(!ran.load(Ordering::SeqCst));
    }
    let stats = fleet.servers()[0].command_stats();
    assert!(
        !stats.contains_key("set") && !stats.contains_key("eval"),
        "{stats:?}"
    );
}

/// Below what a round trip takes the answer may be either, but it is an answer, and the lock ends.
#[tokio::test]
async fn every_ttl_up_to_a_second_is_an_answer() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    for millis in 0..1000 {
        let ttl = Duration::from_millis(millis);
        let request = locks.lock(format!("k{millis}")).ttl(ttl);
        match request.acquire().await {
            Ok(lease) => {
                assert!(lease.remaining() < ttl, "{ttl:?}: {:?}", lease.remaining());
                drop(lease);
            }
            Err(LockError::InvalidTtl { .. }) => assert!(millis < 3, "{ttl:?}"),
            Err(LockError::NoQuorum { .. } | LockError::Lost { .. }) => {
                assert!(millis < 500, "{ttl:?}");
            }
            Err(error) => panic!("{ttl:?}: {error}"),
        }
    }
    fleet.assert_no_key_without_ttl();
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_wait_of_nothing_is_one_try() {
    let locks = LockManager::in_memory();
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    for wait in [Duration::ZERO, NANO] {
        let error = locks
            .lock("k")
            .ttl(TTL)
            .wait(wait)
            .acquire()
            .await
            .expect_err("held");
        assert!(error.is_busy(), "{error}");
    }
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_its_time_is_over() {
    let locks = LockManager::in_memory();
    let _lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    for wait in [1, 7, 500, 3_000].map(Duration::from_millis) {
        let asked = tokio::time::Instant::now();
        let error = locks
            .lock("k")
            .ttl(TTL)
            .wait(wait)
            .acquire()
            .await
            .expect_err("held");
        assert!(error.is_busy(), "{error}");
        let waited = asked.elapsed();
        assert!(
            waited >= wait && waited <= wait + Duration::from_millis(2),
            "{waited:?}"
        );
        assert!(error.elapsed() >= wait, "{:?}", error.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_wait_gets_the_lock_when_it_runs_out() {
    let locks = LockManager::in_memory();
    for wait in [Some(Duration::MAX), None] {
        let stale = locks.lock("k").ttl(TTL).extend(false);
        let stale = stale.acquire().await.expect("free");
        let asked = tokio::time::Instant::now();
        let request = locks.lock("k").ttl(TTL);
        let request = match wait {
            Some(wait) => request.wait(wait),
            None => request.wait_forever(),
        };
        let lease = request.acquire().await.expect("it runs out");
        let waited = asked.elapsed();
        assert!(
            waited >= TTL && waited <= TTL + Duration::from_millis(500),
            "{waited:?}"
        );
        assert!(stale.is_lost() && !lease.is_lost());
        lease.release().await.expect("released");
    }
}

/// A TTL is not a deadline for waiting.
#[tokio::test(start_paused = true)]
async fn a_wait_may_be_longer_than_the_ttl() {
    let locks = LockManager::in_memory();
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let holder = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        lease.release().await.expect("released");
    });
    let request = locks
        .lock("k")
        .ttl(Duration::from_secs(1))
        .wait(Duration::from_secs(5));
    let lease = request.acquire().await.expect("freed after three seconds");
    assert!(
        lease.remaining() > Duration::from_millis(900),
        "valid from now, not from the start"
    );
    holder.await.unwrap();
}

#[tokio::test]
async fn a_waiter_gets_a_lock_that_is_freed_deleted_or_expired() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.manager(), fleet.manager());
    for way in ["released", "deleted by hand", "expired"] {
        let ttl = if way == "expired" {
            Duration::from_millis(300)
        } else {
            TTL
        };
        let lease = ours
            .lock(way)
            .extend(false)
            .ttl(ttl)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect(way);
        let waiter = tokio::spawn(theirs.lock(way).ttl(TTL).wait(DEADLINE).acquire());
        match way {
            "released" => lease.release().await.expect("released"),
            "deleted by hand" => {
                for server in fleet.servers() {
                    server.flush();
                }
                std::mem::forget(lease);
            }
            _ => eventually(DEADLINE, "it has run out", || lease.is_lost()).await,
        }
        let lease = waiter
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{way}: {error}"));
        lease.release().await.expect("released");
    }
}

/// The body sees no statement past the deadline: not one that is due at it, and not after a thread that slept.
#[tokio::test(start_paused = true)]
async fn a_body_ends_with_its_lease() {
    let locks = LockManager::in_memory();
    let steps = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let inside = Arc::clone(&steps);
    let asked = tokio::time::Instant::now();
    let request = locks.lock("k").ttl(Duration::from_secs(1)).extend(false);
    let outcome = request.run(|_| async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            inside.fetch_add(1, Ordering::SeqCst);
        }
    });
    let error = outcome.await.map(|never: ()| never).expect_err("lost");
    assert!(
        matches!(&error, LockError::Lost { key, .. } if key.as_str() == "k"),
        "{error}"
    );
    // A hundredth and two milliseconds are left out for drift.
    let held = asked.elapsed();
    assert!(
        held >= Duration::from_millis(988) && held < Duration::from_millis(991),
        "{held:?}"
    );
    assert_eq!(steps.load(Ordering::SeqCst), 9);
    assert_eq!(locks.stats().lost, 1);

    let request = locks.lock("k").ttl(Duration::from_secs(1));
    let ran = Arc::clone(&steps);
    let outcome = request.run(|_| async move {
        tokio::time::advance(Duration::from_secs(2)).await;
        ran.store(1000, Ordering::SeqCst);
    });
    assert!(matches!(outcome.await, Err(LockError::Lost { .. })));
    assert_eq!(
        steps.load(Ordering::SeqCst),
        9,
        "the body went on after its lease"
    );
}

/// A lock that a thread sleeps past, on real nodes and a real clock.
#[tokio::test]
async fn a_thread_that_slept_past_its_lease_runs_no_further_statement() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    let ran = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&ran);
    let request = locks
        .lock("k")
        .ttl(Duration::from_millis(500))
        .extend(false)
        .wait(DEADLINE);
    let outcome = request.run(|lease| async move {
        // Blocks the thread, as a pause of the process would.
        while !lease.is_lost() {
            std::thread::sleep(lease.remaining());
        }
        tokio::task::yield_now().await;
        inside.store(true, Ordering::SeqCst);
    });
    let error = outcome.await.expect_err("lost");
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    assert!(!ran.load(Ordering::SeqCst));
    fleet.assert_no_keys("*").await;
}

/// Answers that took their time are time that the lease does not have.
#[tokio::test]
async fn validity_counts_from_the_sending() {
    let late = Duration::from_millis(400);
    let (fleet, locks) = late_answers(late).await;
    let ttl = Duration::from_secs(10);
    let lease = locks
        .lock("k")
        .ttl(ttl)
        .extend(false)
        .acquire()
        .await
        .expect("free");
    let drift = Duration::from_millis(102);
    assert!(
        lease.remaining() + late + drift <= ttl,
        "{:?}",
        lease.remaining()
    );
    lease.release().await.expect("released");
    fleet.assert_no_keys("k").await;
}

/// A fleet of three whose answers come late, and a manager that has the patience for it.
async fn late_answers(late: Duration) -> (Fleet, LockManager) {
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let patient = fleet.builder().node_timeout(Duration::from_secs(5));
    let locks = patient.build().expect("a manager");
    lock_tests::ready(&locks).await;
    for proxy in fleet.proxies() {
        proxy.set(Mode::Delay {
            requests: Duration::ZERO,
            answers: late,
        });
    }
    (fleet, locks)
}

#[tokio::test]
async fn a_grant_that_came_too_late_is_refused() {
    let (fleet, locks) = late_answers(Duration::from_millis(300)).await;
    let error = locks
        .lock("k")
        .ttl(Duration::from_millis(200))
        .acquire()
        .await;
    let error = error.expect_err("it is over");
    assert!(error.is_outage(), "{error}");
    assert!(error.to_string().contains("too late"), "{error}");
    fleet.assert_no_keys("k").await;
}

/// While the later keys are taken, the first one ages.
#[tokio::test]
async fn keys_that_are_taken_together_are_all_good_or_none_is() {
    let (fleet, locks) = late_answers(Duration::from_millis(300)).await;
    let both = |ttl| locks.lock_all(["a", "b"]).ttl(ttl).extend(false).acquire();
    let error = both(Duration::from_millis(500))
        .await
        .expect_err("the first one is over");
    assert!(error.to_string().contains("too late"), "{error}");
    let lease = both(Duration::from_secs(30)).await.expect("free");
    assert!(
        lease.remaining() <= Duration::from_millis(29_400),
        "{:?}",
        lease.remaining()
    );
    lease.release().await.expect("released");
    fleet.assert_no_keys("[ab]").await;
}

/// The answer came in time, and the task that waits for it was not run until the lease was over.
#[tokio::test(flavor = "current_thread")]
async fn a_lease_that_was_over_before_it_was_seen_is_none() {
    let fleet = Fleet::start(1).behind_proxies();
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let ttl = Duration::from_secs(1);
    // A server that takes locks by a script knows it from now on.
    cycle(&locks, "first", ttl).await;
    let request = locks.lock("k").ttl(ttl).extend(false);
    // Another task of this runtime that does not yield, from before the answer comes until the lease is over.
    let (server, proxy) = (&fleet.servers()[0], &fleet.proxies()[0]);
    proxy.set(Mode::HoldAnswers);
    let busy = async {
        lock_tests::eventually_blocking(DEADLINE, "it is granted", || server.exists("k"));
        proxy.set(Mode::Pass);
        std::thread::sleep(ttl * 3 / 2);
    };
    let (outcome, ()) = tokio::join!(request.acquire(), busy);
    let error = outcome.expect_err("it is over");
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    fleet.assert_no_keys("k").await;
}
