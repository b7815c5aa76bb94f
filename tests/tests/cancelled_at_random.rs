//! Callers who give up at any time, by the thousand, while the network does what networks do: nobody is inside together
//! with somebody else, and in the end nothing is left.

use lock_runtime::{LockManager, LockRequest};
use lock_tests::version::acquire_command;
use lock_tests::{DEADLINE, Fleet, Mode, Proxy, Site, cycle, eventually, ready};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, yield_now};

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// How long some of them wait for a busy lock.
const MOMENT: Duration = Duration::from_millis(150);

mod heavy {
    use super::*;

    const CALLERS: u64 = 64;
    /// Of each caller, in each weather.
    const CALLS: usize = 64;
    const NODE_TIMEOUT: Duration = Duration::from_millis(40);

    /// Who is inside of a body, by key.
    type Inside = Arc<Vec<AtomicBool>>;

    /// Inside, until dropped.
    struct Visit(Inside, usize);

    impl Visit {
        fn new(inside: &Inside, key: usize) -> Self {
            let other = inside[key].swap(true, Ordering::SeqCst);
            assert!(!other, "two are inside of r{key}");
            Self(Arc::clone(inside), key)
        }
    }

    impl Drop for Visit {
        fn drop(&mut self) {
            self.0[self.1].store(false, Ordering::SeqCst);
        }
    }

    /// What the network does to a fleet of five while locks are taken and given back.
    fn weathers() -> Vec<(&'static str, HashMap<usize, Mode>)> {
        let late = |millis| Mode::Delay {
            requests: Duration::from_millis(millis),
            answers: Duration::from_millis(millis),
        };
        let cut = |word: &str| Mode::CutAfter {
            word: word.to_owned(),
            times: usize::MAX,
        };
        vec![
            ("fair", HashMap::new()),
            ("two are slow", HashMap::from([(3, late(2)), (4, late(8))])),
            (
                "two are too slow",
                HashMap::from([(0, late(30)), (1, late(60))]),
            ),
            (
                "one holds its answers",
                HashMap::from([(2, Mode::HoldAnswers)]),
            ),
            (
                "two connections break behind requests",
                HashMap::from([(0, cut(acquire_command())), (1, cut("EVALSHA"))]),
            ),
            (
                "one loses its answers and one is away",
                HashMap::from([(1, Mode::DropAnswers), (3, Mode::Refuse)]),
            ),
        ]
    }

    /// One of the ways to use a lock, whatever comes of it.
    async fn call(locks: LockManager, inside: Inside, mut random: fastrand::Rng) {
        let key = random.usize(..inside.len());
        let ask = |locks: &LockManager| -> LockRequest {
            let patience = [Duration::ZERO, MOMENT][key % 2];
            let request = locks.lock(format!("r{key}")).ttl(TTL).wait(patience);
            request.fenced(key.is_multiple_of(4))
        };
        match random.u8(..6) {
            0 => drop(ask(&locks).acquire().await),
            1 => {
                if let Ok(lease) = ask(&locks).acquire().await {
                    let visit = Visit::new(&inside, key);
                    yield_now().await;
                    drop(visit);
                    let _ = lease.release().await;
                }
            }
            2 => {
                if let Ok(lease) = ask(&locks).acquire().await {
                    let _ = lease.extend().await;
                }
            }
            3 => {
                let keys = [key, (key + 1) % inside.len()].map(|key| format!("r{key}"));
                drop(locks.lock_all(keys).ttl(TTL).acquire().await);
            }
            4 => {
                locks.ready().await;
            }
            _ => {
                let body = async |_lease| {
                    let _visit = Visit::new(&inside, key);
                    for _ in 0..4 {
                        yield_now().await;
                    }
                };
                let _ = ask(&locks).run(body).await;
            }
        }
    }

    /// Dropped when its patience is over: from a tenth of a millisecond to a hundred, any magnitude as often as any other.
    async fn dropped_in_time(call: impl Future<Output = ()>, random: &mut fastrand::Rng) -> bool {
        let patience = Duration::from_secs_f64(10_f64.powf(random.f64() * 3.0 - 4.0));
        tokio::time::timeout(patience, call).await.is_err()
    }

    /// Aborted after some turns of its runtime, perhaps from another thread.
    async fn aborted_in_time(
        call: impl Future<Output = ()> + Send + 'static,
        random: &mut fastrand::Rng,
    ) -> bool {
        let call = tokio::spawn(call);
        for _ in 0..random.usize(..4) {
            yield_now().await;
        }
        call.abort();
        match call.await {
            Ok(()) => false,
            Err(ended) if ended.is_cancelled() => true,
            Err(panicked) => panic!("{panicked}"),
        }
    }

    /// Calls by many callers, each given up after a random time: while it is asking, waiting, inside, or giving back. `aborted`: how many of
    /// them are aborted, the others are dropped.
    async fn calls(locks: &LockManager, inside: &Inside, aborted: f64, seed: u64) -> usize {
        let given_up = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locks, inside) = (locks.clone(), Arc::clone(inside));
            let given_up = Arc::clone(&given_up);
            let mut random = fastrand::Rng::with_seed(seed * CALLERS + caller);
            callers.spawn(async move {
                for _ in 0..CALLS {
                    let call = call(locks.clone(), Arc::clone(&inside), random.fork());
                    let gave_up = if random.f64() < aborted {
                        aborted_in_time(call, &mut random).await
                    } else {
                        dropped_in_time(call, &mut random).await
                    };
                    if gave_up {
                        given_up.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.expect("nobody was inside twice");
        }
        given_up.load(Ordering::Relaxed)
    }

    fn nobody() -> Inside {
        Arc::new((0..40).map(|_| AtomicBool::new(false)).collect())
    }

    fn first_seed() -> u64 {
        std::env::var("LOCK_SEED").map_or(1, |seed| seed.parse().expect("a number"))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_on_servers() {
        let fleet = Fleet::start(5).behind_proxies();
        fleet.found().await;
        let builder = fleet.builder().node_timeout(NODE_TIMEOUT);
        let locks = builder.build().expect("a manager");
        ready(&locks).await;
        let inside = nobody();
        let mut all = 0;
        for (seed, (weather, modes)) in (first_seed()..).zip(weathers()) {
            for (node, mode) in modes {
                fleet.proxies()[node].set(mode);
            }
            let started = Instant::now();
            let given_up = calls(&locks, &inside, 0.25, seed).await;
            let took = started.elapsed();
            println!("{weather}, seed {seed}: {given_up} given up in {took:?}");
            fleet.assert_no_key_without_ttl();
            for proxy in fleet.proxies() {
                proxy.set(Mode::Pass);
            }
            fleet.assert_no_keys("r*").await;
            all += given_up;
        }
        println!("{all} given up: {:?}", locks.stats());
        assert!(all >= 10_000, "only {all} calls were given up");
        assert_eq!(locks.stats().releases_abandoned, 0, "{:?}", locks.stats());

        eventually(DEADLINE, "each node has one connection", || {
            let mut open = fleet.proxies().iter().map(Proxy::open_connections);
            open.all(|connections| connections == 1)
        })
        .await;
        let site = Site::Servers(fleet);
        site.idle(&locks, 0).await;
        cycle(&locks, "r0", TTL).await;
        assert_eq!(Site::callers_tasks(), 0, "none is on the callers' runtime");
    }

    /// There the work is done on the threads of the callers, and what is dropped is given back by whoever drops it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_on_embedded_nodes() {
        let site = Site::embedded();
        let locks = site.manager().await;
        let inside = nobody();
        let mut all = 0;
        for seed in (first_seed()..).take(16) {
            all += calls(&locks, &inside, 0.95, seed).await;
            let keys: Vec<_> = (0..inside.len()).map(|key| format!("r{key}")).collect();
            let keys: Vec<_> = keys.iter().map(String::as_str).collect();
            site.free(&site.manager().await, &keys).await;
        }
        println!("{all} given up: {:?}", locks.stats());
        assert!(all >= 10_000, "only {all} calls were given up");
        drop(locks);
        eventually(DEADLINE, "no task is left", || Site::callers_tasks() == 0).await;
    }
}
