//! How long a shutdown may take.

use super::*;

#[tokio::test]
async fn a_silent_node_does_not_hold_it_up() {
    let fleet = Fleet::start(3).behind_proxies();
    let locks = fleet.ready_manager().await;
    let body = endless(&locks, "k").await;
    eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;
    fleet.proxies()[0].set(Mode::Blackhole);
    let started = Instant::now();
    let report = locks.shutdown(Duration::ZERO).await;
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    assert_eq!(
        (report.stopped, report.left),
        (1, 1),
        "one node has not confirmed"
    );
    assert_eq!(fleet.nodes_with("k"), 1, "the others have");
    body.await.expect("no panic").expect_err("it was stopped");
}

#[tokio::test]
async fn all_nodes_gone_does_not_hold_it_up_either() {
    let fleet = Fleet::start(3);
    let locks = fleet.ready_manager().await;
    let body = endless(&locks, "k").await;
    for server in fleet.servers() {
        server.kill();
    }
    let started = Instant::now();
    let report = locks.shutdown(Duration::from_millis(20)).await;
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    assert_eq!((report.stopped, report.left), (1, 1));
    body.await.expect("no panic").expect_err("it was stopped");
}

#[tokio::test(start_paused = true)]
async fn grace_is_waited_for_and_no_longer() {
    let locks = LockManager::in_memory();
    let body = endless(&locks, "k").await;
    let grace = Duration::from_secs(25);
    let started = tokio::time::Instant::now();
    let report = locks.shutdown(grace).await;
    let took = started.elapsed();
    assert!(
        (grace..grace + Duration::from_millis(100)).contains(&took),
        "{took:?}"
    );
    assert_eq!((report.stopped, report.left), (1, 0));
    body.await.expect("no panic").expect_err("it was stopped");

    let again = tokio::time::Instant::now();
    locks.shutdown(Duration::MAX).await;
    assert!(again.elapsed() < Duration::from_millis(100));
}

/// Also where a body runs on: `grace`, and twice a second and a `node_timeout`.
#[tokio::test(start_paused = true)]
async fn it_ends_when_the_docs_say_whatever_a_body_does() {
    let locks = LockManager::in_memory();
    let request = ask(&locks, "k").on_lost(OnLost::Continue);
    let (running, runs) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(request.run(|_| async move {
        running.send(()).expect("it is waited for");
        std::future::pending::<()>().await;
    }));
    runs.await.expect("it runs");
    let grace = Duration::from_secs(25);
    let last = Duration::from_secs(2) + 2 * Duration::from_millis(50);
    let started = tokio::time::Instant::now();
    let report = locks.shutdown(grace).await;
    let took = started.elapsed();
    assert!((grace..=grace + last).contains(&took), "{took:?}");
    assert_eq!((report.stopped, report.left), (1, 1));
    body.abort();
}

mod heavy {
    use super::*;

    /// So many that they are released one after the other: the answers of the others are enough to go on.
    #[tokio::test]
    async fn a_silent_node_keeps_nobody_from_being_told_of_many_releases() {
        let fleet = Fleet::start(3).behind_proxies();
        let locks = fleet.ready_manager().await;
        let requests = (0..1000).map(|key| {
            let request = ask(&locks, &format!("k{key}")).wait(LONG);
            tokio::spawn(request.acquire())
        });
        let requests: Vec<_> = requests.collect();
        let mut leases = Vec::new();
        for request in requests {
            leases.push(request.await.expect("no panic").expect("free"));
        }
        fleet.proxies()[0].set(Mode::Blackhole);
        let report = locks.shutdown(Duration::ZERO).await;
        assert_eq!((report.stopped, report.left), (1000, 1000));
        for server in &fleet.servers()[1..] {
            assert_eq!(server.keys("k*"), [""; 0]);
        }
    }

    /// In the middle of everything that a manager does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn under_load_no_key_is_left_when_it_returns() {
        let fleet = Fleet::start(5);
        fleet.found().await;
        for round in 0..60 {
            let locks = fleet.manager();
            lock_tests::ready(&locks).await;
            let entered = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..32)
                .map(|task| {
                    let (locks, entered) = (locks.clone(), Arc::clone(&entered));
                    tokio::spawn(async move {
                        loop {
                            let key = format!("k{}", (task + entered.load(Ordering::Relaxed)) % 8);
                            let request = ask(&locks, &key).wait(LONG).fenced(task % 4 == 0);
                            let pause = Duration::from_millis(fastrand::u64(0..3));
                            let entered = &entered;
                            let ran = request
                                .run(|_| async move {
                                    entered.fetch_add(1, Ordering::Relaxed);
                                    tokio::time::sleep(pause).await;
                                })
                                .await;
                            if let Err(error) = ran {
                                return error;
                            }
                        }
                    })
                })
                .collect();
            eventually(DEADLINE, "they are at it", || {
                entered.load(Ordering::Relaxed) > 30
            })
            .await;
            let grace = Duration::from_millis(round % 3);
            let report = locks.shutdown(grace).await;
            assert_eq!(report.left, 0, "round {round}");
            for key in 0..8 {
                assert_eq!(fleet.nodes_with(&format!("k{key}")), 0, "round {round}");
            }
            for task in tasks {
                let error = task.await.expect("no panic");
                assert!(
                    matches!(
                        error,
                        LockError::ShuttingDown { .. } | LockError::Lost { .. }
                    ),
                    "{error:?}"
                );
            }
        }
    }
}
