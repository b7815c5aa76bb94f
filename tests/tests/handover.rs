//! A lock that goes from one task to the next of its process without the nodes: it must be as good as a fresh one, and other
//! processes must get their turn.

use futures_util::poll;
use lock_runtime::{LockManager, LockRequest};
use lock_tests::{DEADLINE, Fleet, Mode, Recorder, Site, eventually};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(20);

type Acquired = Result<lock_runtime::Lease, lock_runtime::LockError>;

/// In line by the time that this returns.
async fn in_line(request: LockRequest) -> JoinHandle<Acquired> {
    let task = tokio::spawn(request.wait_forever().acquire());
    for _ in 0..50 {
        yield_now().await;
    }
    task
}

async fn got(task: JoinHandle<Acquired>) -> lock_runtime::Lease {
    task.await.expect("no panic").expect("its turn comes")
}

#[tokio::test(start_paused = true)]
async fn it_is_as_good_as_a_fresh_one() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let next = in_line(locks.lock("k").ttl(TTL)).await;
    sleep(Duration::from_millis(40)).await;
    first.release().await.expect("released");
    let next = got(next).await;
    assert_eq!(locks.stats().handed_over, 1);
    assert_eq!(locks.stats().acquired, 2);
    assert!(next.remaining() >= TTL * 9 / 10, "{:?}", next.remaining());
    // It is renewed from then on.
    sleep(TTL * 3).await;
    assert!(!next.is_lost());
    next.release().await.expect("it was still ours");
}

#[tokio::test(start_paused = true)]
async fn not_where_another_ttl_is_wanted() {
    for ttl in [TTL / 2, TTL * 2] {
        let locks = LockManager::in_memory();
        let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
        let next = in_line(locks.lock("k").ttl(ttl).extend(false)).await;
        first.release().await.expect("released");
        let next = got(next).await;
        assert_eq!(locks.stats().handed_over, 0);
        assert!(next.remaining() <= ttl && next.remaining() > ttl * 9 / 10);
    }
}

/// It is handed over for itself, and to who wants nothing with it.
#[tokio::test(start_paused = true)]
async fn not_where_several_are_wanted_together() {
    for (has, wants) in [
        (&["a", "b"][..], &["a"][..]),
        (&["a"], &["a", "b"]),
        (&["a", "b"], &["a", "b"]),
    ] {
        let locks = LockManager::in_memory();
        let request = |keys: &[&str]| locks.lock_all(keys.iter().copied()).ttl(TTL);
        let first = request(has).acquire().await.expect("free");
        let next = in_line(request(wants)).await;
        first.release().await.expect("released");
        got(next).await.release().await.expect("released");
        assert_eq!(locks.stats().handed_over, 0, "{has:?} {wants:?}");
        assert_eq!(locks.stats().acquired, 2, "{has:?} {wants:?}");
    }
}

/// Of a short TTL not much is left soon.
#[tokio::test(start_paused = true)]
async fn not_once_it_has_aged() {
    let locks = LockManager::in_memory();
    let ttl = Duration::from_millis(400);
    for (age, handed_over) in [(15, 1), (25, 0)] {
        let before = locks.stats().handed_over;
        let request = || locks.lock("k").ttl(ttl).extend(false);
        let first = request().acquire().await.expect("free");
        let next = in_line(request()).await;
        sleep(Duration::from_millis(age)).await;
        first.release().await.expect("released");
        let next = got(next).await;
        assert_eq!(locks.stats().handed_over - before, handed_over, "{age} ms");
        assert!(next.remaining() > ttl * 9 / 10, "{:?}", next.remaining());
        next.release().await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn not_while_it_is_to_be_kept() {
    let keep = Duration::from_secs(5);
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).hold_at_least(keep);
    let first = first.acquire().await.expect("free");
    let began = Instant::now();
    let next = in_line(locks.lock("k").ttl(TTL)).await;
    first.release().await.expect("released");
    let next = got(next).await;
    assert!(began.elapsed() >= keep, "{:?}", began.elapsed());
    // And by poll, at the latest, soon after.
    assert!(
        began.elapsed() < keep + Duration::from_millis(300),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(locks.stats().handed_over, 0);
    drop(next);
}

/// Who is handed the lock keeps it for as long as he wants it kept, from then on.
#[tokio::test(start_paused = true)]
async fn what_the_next_one_wants_counts_from_his_turn() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let keep = Duration::from_secs(10);
    let wanted = || locks.lock("k").ttl(TTL).hold_at_least(keep);
    let next = in_line(wanted().max_hold(TTL)).await;
    let last = in_line(locks.lock("k").ttl(TTL)).await;
    sleep(Duration::from_millis(20)).await;
    drop(first);
    let next = got(next).await;
    assert_eq!(locks.stats().handed_over, 1);
    let began = Instant::now();
    next.release().await.expect("released");
    drop(got(last).await);
    assert!(began.elapsed() >= keep, "{:?}", began.elapsed());

    let first = locks
        .lock("k")
        .ttl(TTL)
        .wait_forever()
        .acquire()
        .await
        .expect("free");
    let next = in_line(locks.lock("k").ttl(TTL).max_hold(TTL * 2)).await;
    sleep(Duration::from_millis(30)).await;
    drop(first);
    let next = got(next).await;
    assert_eq!(locks.stats().handed_over, 2);
    let began = Instant::now();
    next.lost().await;
    let held = began.elapsed();
    assert!(
        held >= TTL * 2 && held < TTL * 2 + Duration::from_millis(10),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_is_not_handed_over() {
    let locks = LockManager::in_memory();
    let request = || locks.lock("k").ttl(TTL).extend(false);
    let first = request().acquire().await.expect("free");
    let next = in_line(request()).await;
    let began = Instant::now();
    // Held by hand, and never given back: the line goes on all the same, when the nodes let it.
    first.lost().await;
    let next = got(next).await;
    assert!(began.elapsed() >= TTL * 9 / 10 && began.elapsed() < TTL + Duration::from_secs(1));
    assert_eq!(locks.stats().handed_over, 0);
    assert!(first.is_lost() && !next.is_lost());
    drop(first);
    assert!(
        !next.is_lost(),
        "the release of what was lost touches nobody"
    );
    assert!(locks.lock("k").ttl(TTL).acquire().await.is_err());
}

/// Each holder's token is larger than the one before, whoever hands it to whom, and whoever comes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fences_grow_from_hand_to_hand_and_between_processes() {
    let fleet = Fleet::start(3);
    let recorder = Recorder::new();
    let last = Arc::new(AtomicU64::new(0));
    let mut work = JoinSet::new();
    let mut managers = Vec::new();
    for process in 0..3 {
        let locks = fleet.patient_manager().await;
        managers.push(locks.clone());
        for task in 0..6 {
            let (locks, recorder, last) = (locks.clone(), recorder.clone(), Arc::clone(&last));
            work.spawn(async move {
                for round in 0..150 {
                    let wants_fence = (task + round) % 3 != 0;
                    let request = locks.lock("k").ttl(TTL).wait(DEADLINE).fenced(wants_fence);
                    let lease = request.acquire().await.expect("its turn comes");
                    let inside = recorder.enter("k", &format!("{process}.{task}"));
                    if wants_fence {
                        let before = last.swap(lease.fence(), Ordering::SeqCst);
                        assert!(lease.fence() > before, "{} after {before}", lease.fence());
                    } else {
                        assert_eq!(lease.fence(), 0);
                    }
                    drop(inside);
                    lease.release().await.expect("released");
                }
            });
        }
    }
    work.join_all().await;
    assert_eq!(recorder.assert_exclusive("k"), 3 * 6 * 150);
    for locks in &managers {
        let stats = locks.stats();
        assert!(stats.handed_over > stats.acquired / 4, "{stats:?}");
    }
    eventually(DEADLINE, "nothing is left", || fleet.nodes_with("k") == 0).await;
}

/// Many in line here, and one there: he waits for no more than the time for which a lock is handed over, and a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_processes_get_their_turn() {
    let fleet = Fleet::start(3);
    let busy = fleet.patient_manager().await;
    let other = fleet.patient_manager().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut work = JoinSet::new();
    for _ in 0..32 {
        let (locks, stop) = (busy.clone(), Arc::clone(&stop));
        work.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let request = locks.lock("k").ttl(TTL).wait_forever();
                request.run(|_| yield_now()).await.expect("its turn comes");
            }
        });
    }
    eventually(DEADLINE, "locks are handed over", || {
        busy.stats().handed_over > 1_000
    })
    .await;
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let asked = Instant::now();
        let request = other.lock("k").ttl(TTL).wait(DEADLINE);
        let lease = request.acquire().await.expect("its turn comes");
        longest = longest.max(asked.elapsed());
        lease.release().await.expect("released");
    }
    // Fifty milliseconds, and much more for a machine that is busy.
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    stop.store(true, Ordering::SeqCst);
    work.join_all().await;
}

/// The node that says that somebody waits is the last to answer: it is waited for, or the line would take the lock again before
/// he has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_processes_get_their_turn_whichever_node_they_listen_to() {
    let fleet = Fleet::start(3).behind_proxies();
    let busy = fleet.patient_manager().await;
    let other = fleet.patient_manager().await;
    let held = busy.lock("k").ttl(TTL).acquire().await.expect("free");
    let waiting = tokio::spawn(other.lock("k").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "it listens", || fleet.listened_to() == 1).await;
    let listens = |server: &&lock_tests::RedisServer| {
        let channels: Vec<String> = server.command(&["PUBSUB", "CHANNELS", "*"]);
        !channels.is_empty()
    };
    let servers = fleet.servers().iter().zip(fleet.proxies());
    for (_, proxy) in servers.filter(|(server, _)| listens(server)) {
        proxy.set(Mode::Delay {
            requests: Duration::ZERO,
            answers: Duration::from_millis(4),
        });
    }
    held.release().await.expect("released");
    drop(waiting.await.expect("no panic").expect("released"));

    let stop = Arc::new(AtomicBool::new(false));
    let mut work = JoinSet::new();
    for _ in 0..8 {
        let (locks, stop) = (busy.clone(), Arc::clone(&stop));
        work.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let request = locks.lock("k").ttl(TTL).wait_forever();
                request.run(|_| yield_now()).await.expect("its turn comes");
            }
        });
    }
    let taken_from_nodes = || {
        let stats = busy.stats();
        stats.acquired - stats.handed_over
    };
    let mut passed_over = Vec::new();
    for _ in 0..21 {
        let before = taken_from_nodes();
        let request = other.lock("k").ttl(TTL).wait(DEADLINE);
        let lease = request.acquire().await.expect("its turn comes");
        passed_over.push(taken_from_nodes() - before);
        lease.release().await.expect("released");
    }
    passed_over.sort_unstable();
    assert!(passed_over[10] <= 2, "{passed_over:?}");
    stop.store(true, Ordering::SeqCst);
    work.join_all().await;
}

/// Nothing is handed over any more once a shutdown has begun.
#[tokio::test(start_paused = true)]
async fn not_while_shutting_down() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let next = in_line(locks.lock("k").ttl(TTL)).await;
    let shutdown = tokio::spawn({
        let locks = locks.clone();
        async move { locks.shutdown(Duration::from_secs(5)).await }
    });
    let refused = next.await.expect("no panic").expect_err("refused");
    assert!(
        matches!(refused, lock_runtime::LockError::ShuttingDown { .. }),
        "{refused}"
    );
    drop(first);
    let shutdown = shutdown.await.expect("no panic");
    assert_eq!((shutdown.stopped, shutdown.left), (0, 0));
    assert_eq!(locks.stats().handed_over, 0);
}

/// Nor is it taken up, if it was handed over just before.
#[tokio::test(start_paused = true)]
async fn not_to_who_takes_it_up_only_then() {
    let site = Site::embedded();
    let (locks, rival) = (site.manager().await, site.manager().await);
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let mut next = pin!(locks.lock("k").ttl(TTL).wait_forever().acquire());
    assert!(poll!(&mut next).is_pending());
    first.release().await.expect("handed over");
    let mut shutdown = pin!(locks.shutdown(Duration::from_secs(5)));
    assert!(poll!(&mut shutdown).is_pending(), "it is held still");
    let refused = next.await.expect_err("refused");
    assert!(
        matches!(refused, lock_runtime::LockError::ShuttingDown { .. }),
        "{refused}"
    );
    let shutdown = shutdown.await;
    assert_eq!((shutdown.stopped, shutdown.left), (0, 0));
    site.free(&rival, &["k"]).await;
}

/// Whoever was handed the lock leaves before he looks: it is the next one's, who does not have to ask for it either.
#[tokio::test(start_paused = true)]
async fn it_goes_on_where_nobody_takes_it_up() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let mut leaves = Box::pin(locks.lock("k").ttl(TTL).wait_forever().acquire());
    assert!(poll!(&mut leaves).is_pending());
    let next = in_line(locks.lock("k").ttl(TTL)).await;
    first.release().await.expect("handed over");
    drop(leaves);
    drop(got(next).await);
    assert_eq!(locks.stats().handed_over, 1);
}

/// Between being handed the lock and looking there may be any time: then the lock is asked for.
#[tokio::test(start_paused = true)]
async fn not_once_its_time_is_over() {
    let locks = LockManager::in_memory();
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let mut next = pin!(locks.lock("k").ttl(TTL).wait_forever().acquire());
    assert!(poll!(&mut next).is_pending());
    first.release().await.expect("handed over");
    sleep(TTL * 2).await;
    let next = next.await.expect("asked for");
    assert!(next.remaining() > TTL * 9 / 10, "{:?}", next.remaining());
    assert_eq!(locks.stats().handed_over, 0);
    next.release().await.expect("it was ours");
}

/// Somebody waits in another process, and many in this one, who hold it for so long each. How many of them go before him?
async fn before_the_other(body: Duration) -> usize {
    let site = Site::embedded();
    let (locks, other) = (site.manager().await, site.manager().await);
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let waits = in_line(other.lock("k").ttl(TTL)).await;
    let mut line = JoinSet::new();
    for _ in 0..2_500 {
        let request = locks.lock("k").ttl(TTL).wait_forever();
        line.spawn(async move { request.run(|_| sleep(body)).await.expect("its turn comes") });
        yield_now().await;
    }
    first.release().await.expect("handed over");
    drop(got(waits).await);
    let before = usize::try_from(locks.stats().acquired).expect("a few");
    line.join_all().await;
    before
}

#[tokio::test(start_paused = true)]
async fn for_fifty_milliseconds() {
    let before = before_the_other(Duration::from_millis(5)).await;
    assert!((10..=13).contains(&before), "{before}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_times() {
    let before = before_the_other(Duration::ZERO).await;
    assert_eq!(before, 1_000);
}

/// Who does not get it handed over asks the nodes when they have been told, so all of them grant it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_next_comes_behind_the_release() {
    let fleet = Fleet::start(5);
    let locks = fleet.patient_manager().await;
    for server in fleet.servers() {
        server.reset_command_stats();
    }
    let mut work = JoinSet::new();
    for task in 0..4 {
        let locks = locks.clone();
        work.spawn(async move {
            for _ in 0..100 {
                let request = locks.lock("k").ttl(TTL * (task + 1) / 4).wait(DEADLINE);
                let lease = request.acquire().await.expect("its turn comes");
                drop(lease);
            }
        });
    }
    work.join_all().await;
    eventually(DEADLINE, "nothing is left", || fleet.nodes_with("k") == 0).await;
    assert_eq!(locks.stats().handed_over, 0);
    for server in fleet.servers() {
        // A server may be told now that it votes.
        let sets = server.command_stats()["set"];
        assert!((400..=401).contains(&sets), "{sets}");
    }
}

/// The nodes did not say that it is still ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_while_there_are_doubts() {
    let fleet = Fleet::start(3).behind_proxies();
    let locks = fleet.patient_manager().await;
    let first = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let next = in_line(locks.lock("k").ttl(TTL)).await;
    for proxy in fleet.proxies() {
        proxy.set(Mode::Refuse);
    }
    let doubts = first.extend().await.expect_err("nobody answers");
    for proxy in fleet.proxies() {
        proxy.set(Mode::Pass);
    }
    let released = first.release();
    assert_eq!(locks.stats().handed_over, 0, "{doubts}");
    let _ = released.await;
    drop(got(next).await);
    assert_eq!(locks.stats().handed_over, 0, "{doubts}");
}
