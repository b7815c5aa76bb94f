//! A lock that an operator takes from whoever has it: the holder loses it with his next renewal, and nobody runs next to him.

use lock_runtime::{
    ForceRelease, LockError, LockManager, LockManagerBuilder, NodeSpec, Verdict, memory,
};
use lock_tests::{
    DEADLINE, Fleet, Mode, Recorder, dropped_after, eventually, eventually_async, ready,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Renewed every two seconds.
const TTL: Duration = Duration::from_secs(6);

/// A body that would never end, and whether it was dropped.
struct Working {
    call: JoinHandle<Result<(), LockError>>,
    dropped: Arc<AtomicBool>,
}

struct TellsItsEnd(Arc<AtomicBool>);

impl Drop for TellsItsEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Working {
    /// Holds the lock from when this returns.
    async fn start(locks: &LockManager, key: &'static str, ttl: Duration) -> Self {
        let dropped = Arc::new(AtomicBool::new(false));
        let ends = TellsItsEnd(Arc::clone(&dropped));
        let (began, begins) = oneshot::channel();
        let request = locks.lock(key).ttl(ttl).wait(DEADLINE);
        let call = tokio::spawn(request.run(|_| async move {
            let _ends = ends;
            began.send(()).expect("the test waits for it");
            std::future::pending::<()>().await;
        }));
        begins.await.expect("it holds the lock");
        Self { call, dropped }
    }

    /// Waits for the loss of the lock.
    async fn lost(self) {
        let ended = tokio::time::timeout(DEADLINE, self.call)
            .await
            .expect("in time");
        let error = ended.expect("no panic").expect_err("it is lost");
        assert!(matches!(error, LockError::Lost { .. }), "{error}");
        assert!(self.dropped.load(Ordering::SeqCst));
    }
}

async fn force(locks: &LockManager, key: &str) -> ForceRelease {
    let forced = locks.force_release(key).await;
    forced.unwrap_or_else(|error| panic!("{key}: {error}"))
}

/// Long before the TTL is over, and without anybody else in the meantime.
#[tokio::test]
async fn a_holder_who_lives_loses_it_with_his_next_renewal_and_then_it_is_free() {
    for nodes in [1, 3, 5] {
        let fleet = Fleet::start(nodes);
        let (holder, operator) = (fleet.manager(), fleet.manager());
        ready(&operator).await;
        let working = Working::start(&holder, "k", TTL).await;
        let forced = force(&operator, "k").await;
        let at = Instant::now();
        assert!(forced.is_complete() && !forced.was_free(), "{forced}");
        let free_in = forced.free_in().expect("it is complete");
        assert!(free_in > TTL / 2 && free_in <= TTL, "{free_in:?}");

        let error = operator.lock("k").ttl(TTL).acquire().await;
        assert!(error.expect_err("it is not free yet").is_busy());
        assert!(
            !working.dropped.load(Ordering::SeqCst),
            "he does not know it yet"
        );
        let waiting = operator.lock("k").ttl(TTL).wait(DEADLINE).acquire();
        let waiting = tokio::spawn(waiting);

        working.lost().await;
        let lease = waiting.await.expect("no panic").expect("it is free");
        assert!(
            at.elapsed() < free_in,
            "sooner than it would run out: {:?}",
            at.elapsed()
        );
        lease.release().await.expect("released");
        fleet.assert_no_keys("*").await;
    }
}

/// Nobody hears of him, so nobody may run before his time is over; and nobody has to wait for longer.
#[tokio::test]
async fn the_lock_of_a_dead_holder_is_free_when_his_time_is_over() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    ready(&locks).await;
    let written = Instant::now();
    for server in fleet.servers() {
        server.command::<()>(&["SET", "k", "the dead", "PX", "1500"]);
    }
    let forced = force(&locks, "k").await;
    assert!(forced.nodes().iter().all(|node| {
        node.taken_from()
            .is_some_and(|owner| owner.as_bytes() == b"the dead")
    }));
    // Twice is once.
    let again = force(&locks, "k").await;
    assert!(again.nodes().iter().all(|node| {
        node.taken_from()
            .is_some_and(|owner| owner.as_bytes() == b"the dead" && owner.was_forced())
    }));
    assert!(again.free_in() <= forced.free_in());
    let lease = locks.lock("k").ttl(TTL).wait(DEADLINE).acquire().await;
    let waited = written.elapsed();
    assert!(waited >= Duration::from_millis(1400), "{waited:?}");
    lease
        .expect("his time is over")
        .release()
        .await
        .expect("released");
    fleet.assert_no_keys("*").await;
}

/// It was not written as a lock, and would stay for ever.
#[tokio::test]
async fn a_key_that_never_ends_ends_after_the_longest_lease() {
    let fleet = Fleet::start(1);
    let max_ttl = Duration::from_secs(2);
    let locks = fleet.builder().max_ttl(max_ttl).build().unwrap();
    ready(&locks).await;
    fleet.servers()[0].command::<()>(&["SET", "k", "x"]);
    let forced = force(&locks, "k").await;
    assert_eq!(forced.free_in(), Some(max_ttl));
    fleet.assert_no_key_without_ttl();
    fleet.assert_no_keys("k").await;
}

#[tokio::test]
async fn what_is_no_lock_is_left_alone() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    ready(&locks).await;
    let forced = force(&locks, "k").await;
    assert!(forced.is_complete() && forced.was_free());
    assert_eq!(forced.free_in(), Some(Duration::ZERO));
    fleet.assert_no_keys("*").await;

    for server in fleet.servers() {
        server.command::<()>(&["RPUSH", "list", "x"]);
    }
    let forced = force(&locks, "list").await;
    assert!(!forced.is_complete(), "{forced}");
    assert!(
        forced.nodes()[0]
            .error()
            .is_some_and(|error| error.contains("WRONGTYPE"))
    );
    assert_eq!(fleet.servers()[0].command::<usize>(&["LLEN", "list"]), 1);

    for key in ["", " ", "lock-runtime:votes", "{k}:fence"] {
        let error = locks.force_release(key).await.expect_err("no lock");
        assert!(
            matches!(error, LockError::InvalidKey { .. }),
            "{key:?}: {error}"
        );
        let error = locks.inspect(key).await.expect_err("no lock");
        assert!(
            matches!(error, LockError::InvalidKey { .. }),
            "{key:?}: {error}"
        );
    }
    assert!(fleet.servers()[0].exists("lock-runtime:votes"));
}

/// It is his until he hears of it, so his release is one.
#[tokio::test]
async fn who_releases_before_he_has_noticed_frees_it_at_once() {
    let fleet = Fleet::start(3);
    let (holder, operator) = (fleet.manager(), fleet.manager());
    ready(&operator).await;
    let held = holder.lock("k").ttl(TTL).wait(DEADLINE).hold_at_least(TTL);
    let lease = held.acquire().await.expect("free");
    assert!(force(&operator, "k").await.is_complete());
    let waiting = tokio::spawn(operator.lock("k").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "it listens", || fleet.listened_to() > 0).await;
    lease.release().await.expect("it was his");
    let lease = waiting.await.expect("no panic").expect("it is free");
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn later_holders_have_larger_fencing_tokens() {
    let fleet = Fleet::start(3);
    let (holder, operator) = (fleet.manager(), fleet.manager());
    ready(&operator).await;
    let fenced = |locks: &LockManager| {
        locks
            .lock("k")
            .ttl(TTL)
            .fenced(true)
            .wait(DEADLINE)
            .acquire()
    };
    let before = fenced(&holder).await.expect("free");
    assert!(force(&operator, "k").await.is_complete());
    tokio::time::timeout(DEADLINE, before.lost())
        .await
        .expect("it is lost");
    let fence = before.fence();
    drop(before);
    let after = fenced(&operator).await.expect("it is free");
    assert!(after.fence() > fence);
    after.release().await.expect("released");
}

#[tokio::test]
async fn it_needs_a_majority_and_says_so() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let (holder, operator) = (fleet.manager(), fleet.manager());
    ready(&operator).await;
    fleet.servers()[0].kill();
    let working = Working::start(&holder, "k", TTL).await;
    let forced = force(&operator, "k").await;
    assert!(forced.is_complete(), "{forced}");
    assert!(forced.nodes()[0].error().is_some());
    working.lost().await;
    fleet.assert_no_keys("*").await;

    fleet.servers()[1].kill();
    eventually_async(DEADLINE, "one is reached", || async {
        let forced = force(&operator, "k").await;
        let reached = forced.nodes().iter().filter(|node| node.error().is_none());
        if reached.count() == 1 && !forced.is_complete() && forced.free_in().is_none() {
            Ok(())
        } else {
            Err(forced)
        }
    })
    .await;
}

/// One node is out of the operator's reach and another one lacks the lock: there the holder would take it again.
#[tokio::test]
async fn a_holder_does_not_take_it_again_where_it_is_missing() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let direct = fleet.manager();
    let working = Working::start(&direct, "k", TTL).await;
    eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;

    let fleet = fleet.behind_proxies();
    fleet.proxies()[0].set(Mode::Refuse);
    let operator = fleet.manager();
    ready(&operator).await;
    fleet.servers()[1].command::<()>(&["DEL", "k"]);
    let forced = force(&operator, "k").await;
    assert!(forced.is_complete(), "{forced}");
    assert!(forced.nodes()[1].taken_from().is_none());
    assert!(forced.nodes()[1].free_in() > Some(TTL / 2), "{forced}");
    working.lost().await;
    fleet.assert_no_keys("*").await;
}

/// A node that missed the last renewals has the lock for less time than the holder believes in it. It must not be free there before.
#[tokio::test]
async fn a_holder_does_not_take_it_again_where_it_would_have_ended_sooner() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let direct = fleet.manager();
    let request = direct.lock("k").ttl(TTL).extend(false);
    let lease = request.acquire().await.expect("free");
    eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;

    let fleet = fleet.behind_proxies();
    fleet.proxies()[0].set(Mode::Refuse);
    let operator = fleet.manager();
    ready(&operator).await;
    let stale = &fleet.servers()[1];
    // Not sooner than the operator asks for it.
    stale.command::<()>(&["PEXPIRE", "k", "1000"]);
    let forced = force(&operator, "k").await;
    assert!(forced.is_complete(), "{forced}");
    assert!(forced.nodes()[1].free_in() > Some(TTL / 2), "{forced}");
    let left = stale.pttl("k");
    assert!(left > 2000, "{left}");
    lease.extend().await.expect_err("two of three refuse it");
    assert!(lease.is_lost());
    lease.release().await.expect("it ends the marks");
    fleet.assert_no_keys("*").await;
}

/// Whenever the call is dropped: the lock is the holder's, or he loses it, and in the end nothing is there.
#[tokio::test]
async fn a_call_may_be_dropped_at_any_await() {
    let fleet = Fleet::start(3);
    let (holder, operator) = (fleet.manager(), fleet.manager());
    ready(&operator).await;
    let ttl = Duration::from_millis(1500);
    let mut polls = 0;
    loop {
        let working = Working::start(&holder, "k", ttl).await;
        let done = dropped_after(polls, operator.force_release("k")).await;
        if done.is_none() {
            // What was sent may have arrived or not.
            working.call.abort();
        } else {
            working.lost().await;
        }
        fleet.assert_no_keys("*").await;
        if done.is_some() {
            break;
        }
        polls += 1;
    }
    assert!(polls > 0, "it is not ready at once");
}

/// Exactly: he loses it when a third of the TTL is over, and nobody has it meanwhile.
#[tokio::test(start_paused = true)]
async fn on_embedded_nodes_it_is_the_same_to_the_millisecond() {
    let nodes: Vec<NodeSpec> = std::iter::repeat_with(memory).take(5).collect();
    let manager = || {
        let nodes = nodes.iter().cloned();
        nodes
            .fold(LockManager::builder(), LockManagerBuilder::node)
            .build()
            .unwrap()
    };
    let (holder, operator) = (manager(), manager());
    let began = tokio::time::Instant::now();
    let working = Working::start(&holder, "k", TTL).await;
    tokio::time::sleep(TTL / 6).await;
    let forced = force(&operator, "k").await;
    assert_eq!(forced.free_in(), Some(TTL * 5 / 6));
    let verdict = operator.inspect("k").await.expect("a key").verdict();
    assert!(matches!(verdict, Verdict::Forced { .. }), "{verdict}");
    working.lost().await;
    assert_eq!(began.elapsed(), TTL / 3);
    let verdict = operator.inspect("k").await.expect("a key").verdict();
    assert_eq!(verdict, Verdict::Free);
}

/// Time is paused, so whoever is inside at the same moment as another one is.
#[tokio::test(start_paused = true)]
async fn nobody_runs_next_to_another_whenever_it_is_taken_on_embedded_nodes() {
    let nodes: Vec<NodeSpec> = std::iter::repeat_with(memory).take(5).collect();
    let managers: Vec<_> = (0..4)
        .map(|_| {
            let nodes = nodes.iter().cloned();
            nodes
                .fold(LockManager::builder(), LockManagerBuilder::node)
                .build()
                .unwrap()
        })
        .collect();
    let lost = under_force(managers, 3, 200, Duration::from_millis(500)).await;
    assert!(lost > 100, "{lost}");
}

/// Contenders who are inside for a while, from whom the lock is taken again and again. Answers how many have lost it.
async fn under_force(managers: Vec<LockManager>, tasks: usize, rounds: u32, ttl: Duration) -> u32 {
    let record = Recorder::new();
    let lost = Arc::new(AtomicU32::new(0));
    let mut random = fastrand::Rng::with_seed(7);
    let mut running = tokio::task::JoinSet::new();
    let operator = managers[0].clone();
    for (task, locks) in managers
        .iter()
        .cycle()
        .take(managers.len() * tasks)
        .enumerate()
    {
        let (record, lost, locks) = (record.clone(), Arc::clone(&lost), locks.clone());
        let mut random = random.fork();
        running.spawn(async move {
            for _ in 0..rounds / 4 {
                let record = record.clone();
                let stays = Duration::from_millis(random.u64(0..500));
                let request = locks
                    .lock("k")
                    .ttl(ttl)
                    .fenced(random.bool())
                    .wait_forever();
                let outcome = request.run(|_| async move {
                    let inside = record.enter("k", &task.to_string());
                    tokio::time::sleep(stays).await;
                    inside.step("it was inside all the time");
                });
                match outcome.await {
                    Ok(()) => {}
                    Err(LockError::Lost { .. }) => {
                        lost.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    while !running.is_empty() {
        let pause = Duration::from_millis(random.u64(0..300));
        if let Ok(Some(ended)) = tokio::time::timeout(pause, running.join_next()).await {
            ended.expect("no task panics");
            continue;
        }
        let forced = operator.force_release("k").await.expect("a key");
        assert!(forced.is_complete(), "{forced}");
    }
    record.assert_exclusive("k");
    assert!(record.late_steps("k").is_empty());
    lost.load(Ordering::SeqCst)
}

mod heavy {
    use super::*;

    /// The lock goes on when a holder has noticed, which is when his body is gone; so it does not matter how busy the machine is.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_runs_next_to_another_whenever_it_is_taken() {
        let fleet = Fleet::start(5);
        let managers: Vec<_> = (0..3).map(|_| fleet.manager()).collect();
        for manager in &managers {
            ready(manager).await;
        }
        let lost = under_force(managers, 2, 24, Duration::from_millis(900)).await;
        assert!(lost > 0);
        fleet.assert_no_keys("k").await;
    }
}
