//! Whatever way a lock is left, no key stays on any node, and none that never expires is ever there.

use lock_runtime::{LockError, LockManager, LockRequest};
use lock_tests::version::{acquire_command, is_before_7};
use lock_tests::{DEADLINE, Fleet, Mode, RedisServer, dropped_after, eventually, eventually_async};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// More polls than any future here takes.
const POLLS: usize = 12;

fn ask(locks: &LockManager) -> LockRequest {
    locks.lock("k").ttl(TTL)
}

#[tokio::test]
async fn after_a_release_that_was_awaited() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    for _ in 0..50 {
        let lease = ask(&locks).acquire().await.expect("free");
        assert!(fleet.nodes_with("k") >= 3);
        fleet.assert_no_key_without_ttl();
        lease.release().await.expect("released");
        assert!(fleet.nodes_with("k") <= 2, "a majority has confirmed");
    }
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_a_lease_was_dropped() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    drop(ask(&locks).acquire().await.expect("free"));
    fleet.assert_no_keys("*").await;
}

#[test]
fn after_a_lease_was_dropped_outside_any_runtime() {
    let fleet = Fleet::start(5);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lease = runtime.block_on(async {
        let locks = fleet.ready_manager().await;
        ask(&locks).acquire().await.expect("free")
    });
    drop(runtime);
    drop(lease);
    let checking = tokio::runtime::Runtime::new().unwrap();
    checking.block_on(fleet.assert_no_keys("*"));
}

#[test]
fn after_the_runtime_of_a_holder_went_away() {
    let fleet = Fleet::start(5);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let locks = runtime.block_on(async {
        let locks = fleet.ready_manager().await;
        let lease = ask(&locks).acquire().await.expect("free");
        tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(lease);
        });
        let request = locks.lock("body").ttl(TTL);
        tokio::spawn(request.run(|_| std::future::pending::<()>()));
        eventually(DEADLINE, "both are held", || {
            fleet.nodes_with("k") >= 3 && fleet.nodes_with("body") >= 3
        })
        .await;
        locks
    });
    drop(runtime);
    let later = tokio::runtime::Runtime::new().unwrap();
    later.block_on(async {
        fleet.assert_no_keys("*").await;
        // The manager outlives the runtime that it was made in.
        let lease = ask(&locks).acquire().await.expect("free");
        lease.release().await.expect("released");
    });
}

#[tokio::test]
async fn after_a_body_returned_failed_or_panicked() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;

    let value = ask(&locks).run(|_| async { 7 }).await.expect("free");
    assert_eq!(value, 7);
    fleet.assert_no_keys("*").await;

    let failed = ask(&locks).run(|_| async { Err::<(), _>("no") }).await;
    assert_eq!(failed.expect("free"), Err("no"));
    fleet.assert_no_keys("*").await;

    let request = ask(&locks);
    let panicked = tokio::spawn(request.run(|_| async { panic!("on purpose") })).await;
    assert!(panicked.expect_err("it panicked").is_panic());
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_a_body_kept_its_lease() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    let kept = ask(&locks)
        .run(|lease| async { lease })
        .await
        .expect("free");
    assert!(kept.is_lost(), "a lease ends with its body");
    assert_eq!(kept.remaining(), Duration::ZERO);
    fleet.assert_no_keys("*").await;
}

/// Drops the future after each number of polls until it ends by itself, and looks after each.
///
/// What a dropped future had sent may arrive a moment later, so each of them waits for the lock: that it gets it means
/// that what came before it was released.
async fn dropped_at_every_poll<T>(fleet: &Fleet, make: impl AsyncFn() -> T) -> usize {
    let mut dropped = 0;
    for polls in 0..POLLS {
        let ended = dropped_after(polls, make()).await;
        fleet.assert_no_key_without_ttl();
        match ended {
            None => dropped += 1,
            Some(_) => break,
        }
        make().await;
        fleet.assert_no_keys("k*").await;
    }
    assert!(dropped < POLLS, "the future takes more than {POLLS} polls");
    dropped
}

#[tokio::test]
async fn after_an_acquire_was_dropped_at_any_await() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    let dropped = dropped_at_every_poll(&fleet, async || {
        let lease = ask(&locks).wait(DEADLINE).acquire().await;
        lease.expect("free soon").release().await.expect("released");
    })
    .await;
    assert!(
        dropped >= 2,
        "before the first poll and at an await: {dropped}"
    );
}

#[tokio::test]
async fn after_a_guarded_call_was_dropped_at_any_await() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    let dropped = dropped_at_every_poll(&fleet, async || {
        let body = |_| tokio::task::yield_now();
        ask(&locks)
            .wait(DEADLINE)
            .run(body)
            .await
            .expect("free soon");
    })
    .await;
    assert!(
        dropped >= 3,
        "before the first poll, acquiring, in the body: {dropped}"
    );
}

#[tokio::test]
async fn after_several_keys_were_dropped_at_any_await() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    dropped_at_every_poll(&fleet, async || {
        let request = locks.lock_all(["k1", "k2", "k3"]).ttl(TTL).wait(DEADLINE);
        let lease = request.acquire().await.expect("free soon");
        lease.release().await.expect("released");
    })
    .await;
}

/// Nobody ran, so there is nothing to keep the lock for.
#[tokio::test]
async fn after_an_acquire_was_dropped_that_was_to_be_kept() {
    let fleet = Fleet::start(3);
    for locks in [fleet.ready_manager().await, LockManager::in_memory()] {
        for polls in 0..3 {
            let kept = ask(&locks).hold_at_least(TTL);
            let outcome = dropped_after(polls, kept.acquire()).await;
            let used = outcome.is_some();
            drop(outcome);
            if used {
                break;
            }
            let next = ask(&locks).wait(DEADLINE).acquire().await;
            next.expect("free soon").release().await.expect("released");
        }
    }
}

/// The body's lease is over when the body is, whoever else looks at it.
#[tokio::test]
async fn after_a_body_was_dropped_or_panicked_while_others_keep_its_lease() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let keep_too = keep.clone();
    let request = ask(&locks);
    let panicking = request.run(|lease| async move {
        keep.send(lease).expect("it is kept");
        panic!("on purpose")
    });
    assert!(
        tokio::spawn(panicking)
            .await
            .expect_err("it panicked")
            .is_panic()
    );
    let lease = kept.recv().await.expect("it was kept");
    assert!(lease.is_lost());
    fleet.assert_no_keys("*").await;

    let dropped = ask(&locks).run(|lease| async move {
        keep_too.send(lease).expect("it is kept");
        std::future::pending::<()>().await;
    });
    let lease = tokio::select! {
        _ = dropped => panic!("it never ends"),
        lease = kept.recv() => lease.expect("it was kept"),
    };
    assert!(lease.is_lost());
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_a_waiter_went_away() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.ready_manager().await, fleet.ready_manager().await);
    let lease = ask(&ours).acquire().await.expect("free");
    for polls in 1..4 {
        let waited = dropped_after(polls, ask(&theirs).wait_forever().acquire());
        let waited = tokio::time::timeout(Duration::from_millis(50), waited).await;
        assert!(
            !matches!(waited, Ok(Some(_))),
            "it is held by somebody else"
        );
    }
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
    // No waiter that went away takes it now.
    let acquired = theirs.stats().acquired;
    let lease = ask(&ours).acquire().await.expect("free");
    lease.release().await.expect("released");
    assert_eq!(theirs.stats().acquired, acquired);
}

/// Many calls, dropped at random: at any await, with answers on their way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_thousand_random_drops() {
    let fleet = Fleet::start(5);
    let locks = fleet.ready_manager().await;
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut running = tokio::task::JoinSet::new();
    for task in 0..20_u64 {
        let (locks, dropped) = (locks.clone(), Arc::clone(&dropped));
        let mut random = fastrand::Rng::with_seed(task);
        running.spawn(async move {
            for round in 0..50 {
                let request = locks.lock(format!("k:{task}:{round}")).ttl(TTL);
                let call = request.run(|_| tokio::task::yield_now());
                let patience = Duration::from_micros(random.u64(0..2_000));
                if tokio::time::timeout(patience, call).await.is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no task panics");
    }
    let dropped = dropped.load(Ordering::Relaxed);
    assert!(dropped > 100, "only {dropped} calls were dropped");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_answers_that_came_late() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;
    for slow in &fleet.proxies()[..2] {
        slow.set(Mode::HoldAnswers);
    }
    let lease = ask(&locks).acquire().await.expect("three answer");
    lease.release().await.expect("three answer");
    for slow in fleet.proxies() {
        slow.set(Mode::Pass);
    }
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_a_failed_try_whose_grants_came_late() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;
    for slow in &fleet.proxies()[..3] {
        slow.set(Mode::HoldAnswers);
    }
    let error = ask(&locks).acquire().await.expect_err("only two answer");
    assert!(error.is_outage(), "{error}");
    for slow in fleet.proxies() {
        slow.set(Mode::Pass);
    }
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_requests_that_arrived_late() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;
    for slow in fleet.proxies() {
        slow.set(Mode::Blackhole);
    }
    let error = ask(&locks).acquire().await.expect_err("nobody answers");
    assert!(error.is_outage(), "{error}");
    for slow in fleet.proxies() {
        slow.set(Mode::Pass);
    }
    let lease = ask(&locks)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("they are back");
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

/// The node did it, the answer is lost with the connection, and the release has to find another one.
#[tokio::test]
async fn after_the_connection_was_cut_behind_the_request() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;
    // The second is in no request but a release.
    for (word, cuts) in [(acquire_command(), 1), ("{k}:released", 2)] {
        let cut = &fleet.proxies()[..2];
        for proxy in cut {
            proxy.set(Mode::CutAfter {
                word: word.to_owned(),
                times: 1,
            });
        }
        // A node that is being connected again is not asked, so it may take more than one cycle to cut both.
        eventually_async(
            DEADLINE,
            &format!("{word} was cut on both nodes"),
            || async {
                let lease = ask(&locks)
                    .wait(DEADLINE)
                    .acquire()
                    .await
                    .expect("three answer");
                lease.release().await.expect("three answer");
                cut.iter().all(|proxy| proxy.cuts() == cuts)
            },
        )
        .await;
        fleet.assert_no_keys("*").await;
    }
}

#[tokio::test]
async fn on_a_node_that_was_away_during_the_release() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;
    eventually(DEADLINE, "all nodes are connected", || {
        fleet
            .proxies()
            .iter()
            .all(|proxy| proxy.open_connections() == 1)
    })
    .await;
    let lease = ask(&locks).acquire().await.expect("free");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 5).await;
    fleet.proxies()[0].set(Mode::Refuse);
    lease.release().await.expect("four answer");
    assert!(fleet.servers()[0].exists("k"), "nobody could tell this one");
    fleet.proxies()[0].set(Mode::Pass);
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn after_the_scripts_were_flushed() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    for _ in 0..2 {
        for server in fleet.servers() {
            let _: String = server.command(&["SCRIPT", "FLUSH"]);
        }
        let lease = ask(&locks).acquire().await.expect("free");
        lease.release().await.expect("the script is sent anew");
        fleet.assert_no_keys("*").await;
    }
    // A node that it was decided without was not sent the text yet.
    eventually_async(DEADLINE, "by its hash again", || async {
        for server in fleet.servers() {
            server.reset_command_stats();
        }
        let lease = ask(&locks).acquire().await.expect("free");
        lease.release().await.expect("held");
        fleet.assert_no_keys("*").await;
        let stats = fleet.servers().iter().map(RedisServer::command_stats);
        let texts = stats.filter(|stats| stats.contains_key("eval")).count();
        if texts == 0 {
            Ok(())
        } else {
            Err(format!("{texts} nodes were sent the text of a script"))
        }
    })
    .await;
    let scripts = if is_before_7() { 2 } else { 1 };
    for server in fleet.servers() {
        let stats = server.command_stats();
        assert_eq!(stats.get("evalsha"), Some(&scripts), "{stats:?}");
    }
}

#[tokio::test]
async fn busy_and_no_quorum_take_nothing() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.ready_manager().await, fleet.ready_manager().await);
    let lease = ask(&ours).acquire().await.expect("free");
    let before = fleet.values("k");
    for _ in 0..20 {
        let error = ask(&theirs).acquire().await.expect_err("held");
        assert!(matches!(error, LockError::Busy { .. }), "{error}");
    }
    assert_eq!(fleet.values("k"), before, "the holder's token is untouched");
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}
