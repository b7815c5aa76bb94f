//! Tasks of one process that want the same lock: first come, first served, at a cost for the nodes that does not grow with
//! them, and nothing left when they have gone.

use lock_runtime::{LockError, LockManager};
use lock_tests::version::is_before_7;
use lock_tests::{DEADLINE, Fleet, Recorder, Site, eventually, eventually_async};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, timeout};

const TTL: Duration = Duration::from_secs(60);

/// Lets everything run that can, on a paused clock.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let request = locks.lock("k").ttl(TTL).wait_forever();
        let order = Arc::clone(&order);
        tasks.spawn(async move {
            let lease = request.acquire().await.expect("it is released");
            order.lock().unwrap().push(number);
            lease.release().await.expect("released");
        });
        settle().await;
    }
    first.release().await.expect("released");
    tasks.join_all().await;
    let expected: Vec<_> = (0..100).collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

/// Every way of leaving: dropped before, in the middle, or with the lock just given to it.
#[tokio::test(start_paused = true)]
async fn whoever_leaves_is_in_nobodys_way() {
    let site = Site::embedded();
    let locks = site.manager().await;
    for round in 0..50 {
        let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let request = locks.lock("k").ttl(TTL).wait_forever();
            tasks.push(tokio::spawn(
                async move { request.acquire().await.map(drop) },
            ));
            settle().await;
        }
        for (index, task) in tasks.iter().enumerate() {
            if index % 2 == round % 2 {
                task.abort();
            }
        }
        // Some are aborted with the lock already in their hands.
        drop(first);
        tasks[4 + round % 2].abort();
        for task in tasks {
            match task.await {
                Ok(taken) => taken.expect("it is passed on"),
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
        site.free(&locks, &["k"]).await;
    }
    site.idle(&locks, Site::callers_tasks()).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_when_it_is_over() {
    let locks = LockManager::in_memory();
    let _held = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let mut tasks = JoinSet::new();
    for millis in [1, 3, 5, 10, 50, 99, 100, 101, 500, 1_000, 2_500, 30_000] {
        let wait = Duration::from_millis(millis);
        let request = locks.lock("k").ttl(TTL).wait(wait);
        tasks.spawn(async move {
            let asked = Instant::now();
            let error = request.acquire().await.expect_err("held");
            assert!(error.is_busy(), "{error}");
            let took = asked.elapsed();
            assert!(
                took >= wait && took <= wait + Duration::from_millis(1),
                "{wait:?}: {took:?}"
            );
        });
    }
    assert_eq!(tasks.join_all().await.len(), 12);
}

/// The wait is over on the manager's thread: callers need no timer, and no tokio.
#[test]
fn a_wait_is_over_without_a_runtime_too() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    let wait = Duration::from_millis(200);
    let _held = futures_executor::block_on(locks.lock("k").ttl(TTL).wait_forever().acquire())
        .expect("free");
    let asked = std::time::Instant::now();
    let error = futures_executor::block_on(locks.lock("k").ttl(TTL).wait(wait).acquire())
        .expect_err("held");
    assert!(error.is_busy(), "{error}");
    assert!(asked.elapsed() >= wait, "{:?}", asked.elapsed());
}

/// What a busy lock says when it is this process that has it.
#[tokio::test]
async fn busy_says_how_long_the_holder_here_has_it() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    let _held = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("free");
    for server in fleet.servers() {
        server.reset_command_stats();
    }
    let refused = locks.lock("k").ttl(Duration::from_secs(1)).acquire().await;
    match refused {
        Err(LockError::Busy {
            retry_after,
            never_expires: false,
            ..
        }) => {
            assert!(
                retry_after > TTL / 2 && retry_after <= TTL,
                "{retry_after:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    for server in fleet.servers() {
        let stats = server.command_stats();
        assert!(
            !stats.contains_key("set") && !stats.contains_key("get"),
            "{stats:?}"
        );
    }
}

/// Commands that clients have sent since, over all servers: those that scripts call are theirs.
fn sent(fleet: &Fleet) -> u64 {
    let of_client = ["evalsha", "eval", "subscribe", "unsubscribe"];
    let acquires = (!is_before_7()).then_some("set");
    let of_client = of_client.into_iter().chain(acquires);
    let looks = ["pttl"];
    let servers = fleet.servers().iter();
    servers
        .map(|server| {
            let stats = server.command_stats();
            let count = |name: &str| stats.get(name).copied().unwrap_or(0);
            let looks: u64 = looks.iter().map(|name| 2 * count(name)).sum();
            looks + of_client.clone().map(count).sum::<u64>()
        })
        .sum()
}

fn reset(fleet: &Fleet) {
    for server in fleet.servers() {
        server.reset_command_stats();
    }
}

/// Waits until the nodes have been told that they vote, which nobody waits for: then a lock takes ten commands and no more.
async fn nothing_else_is_sent(fleet: &Fleet, locks: &LockManager) {
    eventually_async(DEADLINE, "nothing else is sent", || async {
        for _ in 0..3 {
            reset(fleet);
            let lease = locks.lock("quiet").ttl(TTL).acquire().await;
            lease.expect("free").release().await.expect("released");
            eventually(DEADLINE, "all nodes are told", || {
                fleet.nodes_with("quiet") == 0
            })
            .await;
            let sent = sent(fleet);
            if sent != 10 {
                return Err(sent);
            }
        }
        Ok(())
    })
    .await;
}

/// The cron tick and the flash sale: a hundred ask once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_who_try_once_one_wins_and_the_nodes_hardly_notice() {
    let fleet = Fleet::start(5);
    let locks = fleet.patient_manager().await;
    nothing_else_is_sent(&fleet, &locks).await;
    for round in 0..30 {
        reset(&fleet);
        let start = Arc::new(tokio::sync::Barrier::new(100));
        let mut tries = JoinSet::new();
        for _ in 0..100 {
            let request = locks.lock(format!("tick:{round}")).ttl(TTL);
            let start = Arc::clone(&start);
            tries.spawn(async move {
                start.wait().await;
                request.acquire().await
            });
        }
        let mut leases = Vec::new();
        for outcome in tries.join_all().await {
            match outcome {
                Ok(lease) => leases.push(lease),
                Err(error) => assert!(error.is_busy(), "{error}"),
            }
        }
        assert_eq!(leases.len(), 1, "winners in round {round}");
        for lease in leases {
            lease.release().await.expect("released");
        }
        eventually(DEADLINE, "all nodes are told", || {
            fleet.nodes_with(&format!("tick:{round}")) == 0
        })
        .await;
        let sent = sent(&fleet);
        assert!(
            (10..=15).contains(&sent),
            "{sent} commands in round {round}"
        );
    }
}

/// The same when somebody else has it: the nodes are asked once or twice for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_who_try_once_ask_once_who_else_has_it() {
    let fleet = Fleet::start(5);
    let rival = fleet.patient_manager().await;
    let locks = fleet.patient_manager().await;
    let _held = rival.lock("k").ttl(TTL).acquire().await.expect("free");
    nothing_else_is_sent(&fleet, &locks).await;
    reset(&fleet);
    let mut tries = JoinSet::new();
    let start = Arc::new(tokio::sync::Barrier::new(100));
    for _ in 0..100 {
        let request = locks.lock("k").ttl(TTL);
        let start = Arc::clone(&start);
        tries.spawn(async move {
            start.wait().await;
            request.acquire().await
        });
    }
    for outcome in tries.join_all().await {
        assert!(outcome.is_err_and(|error| error.is_busy()));
    }
    assert_eq!(locks.stats().busy, 100);
    // Five for each time that they are asked, and two to learn how long it takes.
    let sent = sent(&fleet);
    assert!((7..=28).contains(&sent), "{sent} commands");
}

/// A line of tasks costs the nodes less than a command for each, and is served evenly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_do_not_grow_with_those_who_wait() {
    const ROUNDS: usize = 100;
    let mut per_hundred = Vec::new();
    for tasks in [4, 64] {
        let fleet = Fleet::start(5);
        let locks = fleet.patient_manager().await;
        let recorder = Recorder::new();
        reset(&fleet);
        let mut work = JoinSet::new();
        for task in 0..tasks {
            let (locks, recorder) = (locks.clone(), recorder.clone());
            work.spawn(async move {
                for _ in 0..ROUNDS {
                    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
                    let lease = request.acquire().await.expect("its turn comes");
                    drop(recorder.enter("k", &format!("task {task}")));
                    lease.release().await.expect("released");
                }
            });
        }
        work.join_all().await;
        eventually(DEADLINE, "all nodes are told", || {
            fleet.nodes_with("k") == 0
        })
        .await;
        assert_eq!(recorder.assert_exclusive("k"), tasks * ROUNDS);
        assert_eq!(locks.stats().acquired, (tasks * ROUNDS) as u64);
        let commands = sent(&fleet);
        assert!(commands >= 10, "{commands}");
        per_hundred.push(commands * 100 / (tasks * ROUNDS) as u64);
    }
    // Of four on a machine that is busy there is not always one in line: then each asks all five nodes, and tells them.
    assert!(
        per_hundred[0] <= 1_050 && per_hundred[1] <= 100,
        "commands for a hundred acquisitions: {per_hundred:?}"
    );
}

/// With one who runs long there is nobody to hand over to in time, and it goes on all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_follow_one_another_in_order() {
    let fleet = Fleet::start(3);
    let locks = fleet.patient_manager().await;
    let recorder = Recorder::new();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let started = Arc::new(AtomicUsize::new(0));
    let mut work = JoinSet::new();
    for task in 0..5 {
        let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
        let (recorder, started) = (recorder.clone(), Arc::clone(&started));
        work.spawn(async move {
            let run = request.run(|_| async {
                let _inside = recorder.enter("k", "task");
                assert_eq!(started.fetch_add(1, Ordering::SeqCst), task);
                // Longer than a lock may be handed over.
                tokio::time::sleep(Duration::from_millis(120)).await;
            });
            run.await.expect("its turn comes");
        });
        // In line before the next one comes.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    drop(first);
    work.join_all().await;
    assert_eq!(recorder.assert_exclusive("k"), 5);
}

/// Several locks at once, next to those who want one of them: both get on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wants_several_gets_on_among_those_who_want_one() {
    let fleet = Fleet::start(3);
    let locks = fleet.patient_manager().await;
    let recorder = Recorder::new();
    let mut work = JoinSet::new();
    for task in 0..12 {
        let (locks, recorder) = (locks.clone(), recorder.clone());
        work.spawn(async move {
            let keys: &[&str] = match task % 4 {
                0 => &["a"],
                1 => &["b"],
                2 => &["a", "b"],
                _ => &["b", "a"],
            };
            for _ in 0..20 {
                let request = locks.lock_all(keys.iter().copied()).ttl(TTL).wait(DEADLINE);
                let lease = request.acquire().await.expect("its turn comes");
                let inside: Vec<_> = keys
                    .iter()
                    .map(|key| recorder.enter(key, &format!("task {task}")))
                    .collect();
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(inside);
                lease.release().await.expect("released");
            }
        });
    }
    timeout(DEADLINE, work.join_all())
        .await
        .expect("nobody waits for ever");
    assert_eq!(recorder.assert_exclusive("a"), 9 * 20);
    assert_eq!(recorder.assert_exclusive("b"), 9 * 20);
}

/// One lock is free, and nobody waits long for it because somebody else waits for another one as well.
#[tokio::test]
async fn who_waits_for_several_is_not_waited_for() {
    let fleet = Fleet::start(3);
    let rival = fleet.patient_manager().await;
    let locks = fleet.patient_manager().await;
    let _busy = rival.lock("b").ttl(TTL).acquire().await.expect("free");
    let both = locks.lock_all(["a", "b"]).ttl(TTL).wait(DEADLINE);
    let both = tokio::spawn(both.acquire());
    for _ in 0..20 {
        let request = locks.lock("a").ttl(TTL).wait(DEADLINE / 4);
        request
            .acquire()
            .await
            .expect("free now and then")
            .release()
            .await
            .expect("released");
    }
    both.abort();
}

/// The lines are never empty, and take longer than anybody is waited for who has not waited long himself.
#[tokio::test(start_paused = true)]
async fn who_wants_several_gets_on_where_lines_are_long() {
    for (body, rivals) in [(50, 2), (150, 3), (2_000, 2)] {
        let body = Duration::from_millis(body);
        let locks = LockManager::in_memory();
        let mut work = JoinSet::new();
        for key in ["a", "b", "c"] {
            for _ in 0..rivals {
                let locks = locks.clone();
                work.spawn(async move {
                    loop {
                        let request = locks.lock(key).ttl(TTL).wait_forever();
                        let run = request.run(|_| tokio::time::sleep(body)).await;
                        run.expect("its turn comes");
                    }
                });
                // The lines do not move at the same instant.
                tokio::time::sleep(body * 2 / 7).await;
            }
        }
        for _ in 0..20 {
            let asked = Instant::now();
            let all = locks.lock_all(["a", "b", "c"]).ttl(TTL).wait_forever();
            let all = timeout(DEADLINE * 60, all.acquire()).await;
            drop(all.expect("its turn comes").expect("its turn comes"));
            assert!(
                asked.elapsed() < body * rivals * 60,
                "{body:?}: {:?}",
                asked.elapsed()
            );
        }
    }
}

/// Somebody keeps a call that he does not go on with, and makes another one in the meantime: that ends when it is to.
#[tokio::test(start_paused = true)]
async fn a_wait_is_over_behind_a_call_that_is_kept_too() {
    // Handed over to it, and not.
    for ttl in [TTL, TTL / 2] {
        let site = Site::embedded();
        let locks = site.manager().await;
        let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
        let mut kept = Box::pin(locks.lock("k").ttl(ttl).wait_forever().acquire());
        assert!(futures_util::poll!(&mut kept).is_pending());
        first.release().await.expect("released");
        for wait in [0, 10, 1_000, 30_000].map(Duration::from_millis) {
            let asked = Instant::now();
            let request = locks.lock("k").ttl(TTL).wait(wait);
            let refused = timeout(TTL * 10, request.acquire()).await;
            let refused = refused.expect("an answer").expect_err("it is not its turn");
            assert!(refused.is_busy(), "{refused}");
            let late = asked.elapsed().saturating_sub(wait);
            assert!(late <= Duration::from_millis(2_100), "{wait:?}: {late:?}");
        }
        let patient = locks.lock("k").ttl(TTL).wait_forever();
        let patient = tokio::spawn(async move { patient.acquire().await.map(drop) });
        settle().await;
        drop(kept);
        patient.await.expect("no panic").expect("its turn comes");
        site.free(&locks, &["k"]).await;
        site.idle(&locks, Site::callers_tasks()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn try_once_for_several_does_not_wait_for_each_other() {
    let locks = LockManager::in_memory();
    for _ in 0..200 {
        let mut tries = JoinSet::new();
        for keys in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] {
            let request = locks.lock_all(keys).ttl(TTL);
            tries.spawn(request.acquire());
        }
        let outcomes = timeout(Duration::from_secs(5), tries.join_all())
            .await
            .expect("an answer");
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(won >= 1, "{outcomes:?}");
    }
}
