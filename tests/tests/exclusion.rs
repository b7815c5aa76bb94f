//! At most one holder at a time: tasks, managers and processes.

use lock_runtime::{LockError, LockManager};
use lock_tests::{DEADLINE, Fleet, Recorder, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

/// Reads, lets others run, and writes back one more: updates are lost unless one does it at a time.
async fn bump(counter: &AtomicU32) {
    let seen = counter.load(Ordering::SeqCst);
    tokio::task::yield_now().await;
    counter.store(seen + 1, Ordering::SeqCst);
}

async fn contend(managers: &[LockManager], tasks: usize, rounds: u32) {
    let record = Recorder::new();
    let counter = Arc::new(AtomicU32::new(0));
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let locks = managers[task % managers.len()].clone();
        let (record, counter) = (record.clone(), Arc::clone(&counter));
        running.spawn(async move {
            for _ in 0..rounds {
                let request = locks.lock("counter").ttl(TTL).wait_forever();
                let (record, counter) = (record.clone(), Arc::clone(&counter));
                let outcome = request.run(|_| async move {
                    let _inside = record.enter("counter", &task.to_string());
                    bump(&counter).await;
                });
                outcome.await.expect("the lock comes sooner or later");
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no task panics");
    }
    let visits = record.assert_exclusive("counter");
    assert_eq!(visits, tasks * rounds as usize);
    assert_eq!(
        counter.load(Ordering::SeqCst),
        u32::try_from(visits).unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_of_one_manager() {
    let fleet = Fleet::start(5);
    contend(&[fleet.manager()], 50, 2).await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_several_managers() {
    let fleet = Fleet::start(5);
    let managers: Vec<_> = (0..4).map(|_| fleet.manager()).collect();
    contend(&managers, 12, 8).await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn tasks_on_one_node_on_one_thread() {
    let fleet = Fleet::start(1);
    contend(&[fleet.manager()], 20, 5).await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test(start_paused = true)]
async fn tasks_on_embedded_nodes() {
    contend(&[LockManager::in_memory()], 50, 10).await;
}

/// Each process reads a file, waits, and writes back one more.
#[tokio::test]
async fn several_processes() {
    const PROCESSES: usize = 4;
    const ROUNDS: usize = 10;
    let fleet = Fleet::start(5);
    let record = Recorder::new();
    let counter = record.path().with_file_name("counter");
    std::fs::write(&counter, "0").unwrap();

    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lock_child"));
            command
                .args(["count", &number.to_string(), &ROUNDS.to_string()])
                .args([record.path(), &counter])
                .env("LOCK_NODES", fleet.lock_nodes());
            lock_tests::processes::Peer::start(command)
        })
        .collect();
    for process in &mut processes {
        let (status, lines) = process.finish().await;
        assert!(status.success(), "{status}: {lines:?}");
    }
    assert_eq!(record.assert_exclusive("counter"), PROCESSES * ROUNDS);
    let sum = std::fs::read_to_string(&counter).unwrap();
    assert_eq!(sum, (PROCESSES * ROUNDS).to_string());
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_held_lock_is_busy_and_says_for_how_long() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.manager(), fleet.manager());
    let lease = ours.lock("k").ttl(TTL).acquire().await.expect("free");
    let error = theirs.lock("k").ttl(TTL).acquire().await.expect_err("held");
    assert!(error.is_busy() && !error.is_outage(), "{error}");
    assert_eq!(error.key(), Some("k"));
    let retry_after = error.retry_after().expect("a busy lock");
    assert!(retry_after <= TTL, "{retry_after:?}");
    assert!(retry_after > TTL / 2, "{retry_after:?}");
    assert!(error.votes().len() >= 3, "{:?}", error.votes());

    lease.release().await.expect("released");
    let lease = theirs
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect("free again");
    lease.release().await.expect("released");
}

#[tokio::test]
async fn two_holders_of_different_ttls_keep_their_own() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    let short = locks
        .lock("short")
        .ttl(TTL / 3)
        .acquire()
        .await
        .expect("free");
    let long = locks.lock("long").ttl(TTL).acquire().await.expect("free");
    for (key, at_most) in [("short", 10_000), ("long", 30_000)] {
        let with = |server: &&lock_tests::RedisServer| server.exists(key);
        let ttls: Vec<_> = fleet
            .servers()
            .iter()
            .filter(with)
            .map(|server| server.pttl(key))
            .collect();
        assert!(ttls.len() >= 3, "{key} is on a majority: {ttls:?}");
        assert!(
            ttls.iter()
                .all(|ttl| (at_most - 5_000..=at_most).contains(ttl)),
            "{key}: {ttls:?}"
        );
    }
    fleet.assert_no_key_without_ttl();
    assert!(short.remaining() < Duration::from_secs(10));
    assert!(long.remaining() < TTL);
    long.release().await.expect("released");
    short.release().await.expect("released");
}

#[tokio::test]
async fn several_keys_are_taken_together_or_not_at_all() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.manager(), fleet.manager());
    let one = ours
        .lock("account:2")
        .ttl(TTL)
        .acquire()
        .await
        .expect("free");
    let both = || {
        theirs
            .lock_all(["account:2", "account:1", "account:2"])
            .ttl(TTL)
    };
    let error = both().acquire().await.expect_err("one is held");
    assert!(matches!(&error, LockError::Busy { key, .. } if key.as_str() == "account:2"));
    fleet.assert_no_keys("account:1").await;

    one.release().await.expect("released");
    let lease = both().acquire().await.expect("both are free");
    for key in ["account:1", "account:2"] {
        assert!(fleet.nodes_with(key) >= 3);
        let error = ours.lock(key).ttl(TTL).acquire().await.expect_err("held");
        assert!(error.is_busy(), "{error}");
    }
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

/// Transfers between the same two accounts in both directions: no circle of waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_keys_do_not_wait_in_a_circle() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    let mut running = tokio::task::JoinSet::new();
    for task in 0..8 {
        let locks = locks.clone();
        running.spawn(async move {
            let keys = if task % 2 == 0 {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            for _ in 0..5 {
                let request = locks.lock_all(keys).ttl(TTL).wait(DEADLINE);
                request
                    .run(|_| tokio::task::yield_now())
                    .await
                    .expect("in time");
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no transfer waits for ever");
    }
    fleet.assert_no_keys("*").await;
}

/// It is in the way until somebody deletes it, and nothing but the error tells.
#[tokio::test]
async fn a_key_that_never_expires_is_busy_and_said_to_be_no_lock() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let locks = fleet.manager();
    ready(&locks).await;
    for server in fleet.servers() {
        let () = server.command(&["SET", "k", "left behind"]);
    }
    let ask = || locks.lock("k").ttl(TTL);
    let error = ask().acquire().await.expect_err("in the way");
    assert!(
        matches!(&error, LockError::Busy { never_expires, .. } if *never_expires),
        "{error:?}"
    );
    assert!(error.to_string().contains("no TTL"), "{error}");

    for server in fleet.servers() {
        let _: u64 = server.command(&["DEL", "k"]);
    }
    let held = ask().acquire().await.expect("free");
    let error = ask().acquire().await.expect_err("held");
    assert!(
        matches!(&error, LockError::Busy { never_expires, .. } if !never_expires),
        "{error:?}"
    );
    held.release().await.expect("released");
}
