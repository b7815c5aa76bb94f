//! Whatever is dropped, wherever it stands, leaves nothing: no key, no task, no connection; and its manager works on.
//!
//! `nothing_left.rs` has more ways to leave a lock, `runtimes.rs` more places to drop one, and `memory.rs` counts bytes.

use lock_runtime::{LockError, LockManager, distributed_lock};
use lock_tests::{DEADLINE, Site, dropped_after, eventually};
use std::pin::Pin;
use std::time::Duration;
use tokio::task::yield_now;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// A moment for what has to take one: longer than a round trip, and soon over.
const MOMENT: Duration = Duration::from_millis(150);

/// More polls than any operation here takes.
const POLLS: usize = 64;

/// The keys that operations take, and the one that a rival has all the time.
const KEYS: [&str; 3] = ["k1", "k2", "k3"];
const BUSY: &str = "busy";

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that a caller may be in the middle of when he goes away.
struct Operation {
    name: &'static str,
    start: fn(LockManager) -> Running,
    /// Whether the manager takes locks afterwards.
    works_on: bool,
}

const fn operation(name: &'static str, start: fn(LockManager) -> Running) -> Operation {
    Operation {
        name,
        start,
        works_on: true,
    }
}

#[distributed_lock(keys = ["k1", "k2", "k3"], ttl = TTL, wait = DEADLINE, fenced = true, lease = lease, manager = locks)]
async fn by_attribute(locks: &LockManager) -> Result<(), LockError> {
    yield_now().await;
    assert!(lease.fence() > 0);
    yield_now().await;
    Ok(())
}

fn is_busy<T>(outcome: Result<T, LockError>) {
    match outcome {
        Ok(_) => panic!("a rival has it"),
        Err(error) => assert!(error.is_busy(), "{error}"),
    }
}

/// An operation more is a line more.
const OPERATIONS: &[Operation] = &[
    operation("acquire and release", |locks| {
        Box::pin(async move {
            let lease = locks.lock("k1").ttl(TTL).acquire().await.expect("free");
            yield_now().await;
            lease.release().await.expect("released");
        })
    }),
    operation("acquire a busy lock", |locks| {
        Box::pin(async move { is_busy(locks.lock(BUSY).ttl(TTL).acquire().await) })
    }),
    operation("wait for a busy lock in vain", |locks| {
        Box::pin(async move { is_busy(locks.lock(BUSY).ttl(TTL).wait(MOMENT).acquire().await) })
    }),
    operation("wait for a lock that is released", |locks| {
        Box::pin(async move {
            let first = locks.lock("k1").ttl(TTL).acquire().await.expect("free");
            let waiting = locks.lock("k1").ttl(TTL).wait_forever().acquire();
            let (second, first) = tokio::join!(waiting, first.release());
            first.expect("released");
            second.expect("free").release().await.expect("released");
        })
    }),
    operation("run a body", |locks| {
        Box::pin(async move {
            let request = locks.lock("k1").ttl(TTL).wait(DEADLINE);
            let body = |_| async {
                yield_now().await;
                yield_now().await;
            };
            request.run(body).await.expect("free");
        })
    }),
    operation(
        "call a guarded function with several keys and a fence",
        |locks| Box::pin(async move { by_attribute(&locks).await.expect("free") }),
    ),
    operation("renew", |locks| {
        Box::pin(async move {
            let lease = locks.lock("k1").ttl(TTL).acquire().await.expect("free");
            for _ in 0..3 {
                lease.extend().await.expect("still held");
            }
            drop(lease);
        })
    }),
    operation("renew and release several", |locks| {
        Box::pin(async move {
            let request = locks.lock_all(KEYS).ttl(TTL).fenced(true);
            let lease = request.acquire().await.expect("free");
            lease.extend().await.expect("still held");
            lease.release().await.expect("released");
        })
    }),
    operation("take several of which the last is busy", |locks| {
        Box::pin(async move { is_busy(locks.lock_all(["a", "b", BUSY]).ttl(TTL).acquire().await) })
    }),
    operation("keep a lock for a moment after a body", |locks| {
        Box::pin(async move {
            let request = locks.lock("k1").ttl(TTL).hold_at_least(MOMENT);
            request.run(|_| yield_now()).await.expect("free");
        })
    }),
    operation("wait for the end of a lease", |locks| {
        Box::pin(async move {
            let request = locks.lock("k1").ttl(MOMENT).extend(false);
            // On a busy machine it may be over before it is seen.
            if let Ok(lease) = request.acquire().await {
                lease.lost().await;
            }
        })
    }),
    operation("ask whether the nodes are ready", |locks| {
        Box::pin(async move {
            locks.ready().await;
        })
    }),
];

/// Drops each operation after each number of polls, until it ends by itself, and looks at what is left.
async fn dropped_at_every_poll(site: &Site) {
    let rival = site.manager().await;
    let busy = rival.lock(BUSY).ttl(TTL).acquire().await.expect("free");
    let mut all = 0;
    let others = Site::callers_tasks();
    for operation in OPERATIONS {
        let mut dropped = 0;
        for polls in 0..POLLS {
            let clients = site.clients();
            let locks = site.manager().await;
            let connected = site.clients();
            let ended = dropped_after(polls, (operation.start)(locks.clone())).await;
            site.idle(&locks, others).await;
            site.free(&rival, &KEYS).await;
            if operation.works_on {
                lock_tests::cycle(&locks, "k1", TTL).await;
            }
            assert_eq!(site.clients(), connected, "{}: {polls}", operation.name);
            drop(locks);
            eventually(DEADLINE, "its connections and its tasks are gone", || {
                site.clients() == clients && Site::callers_tasks() == others
            })
            .await;
            if ended.is_some() {
                break;
            }
            dropped += 1;
        }
        println!("{}: dropped {dropped} times", operation.name);
        assert!(dropped < POLLS, "{} takes more polls", operation.name);
        all += dropped;
    }
    // Servers may answer before the first poll is over, so not every operation is dropped at each of its awaits each time.
    assert!(all >= 2 * OPERATIONS.len(), "only {all} were dropped");
    assert!(!busy.is_lost(), "the rival's lock was nobody else's");
    busy.release().await.expect("it was never taken");
    site.free(&rival, &[BUSY, "a", "b"]).await;
}

/// The runtime goes away after each number of turns, and with it whatever is at work for the caller on embedded nodes,
/// wherever that stands.
#[test]
fn with_its_runtime_at_every_turn() {
    const TURNS: usize = 40;
    let site = Site::embedded();
    let look = tokio::runtime::Runtime::new().expect("a runtime");
    let rival = look.block_on(site.manager());
    let busy = look.block_on(rival.lock(BUSY).ttl(TTL).acquire());
    let busy = busy.expect("free");
    for operation in OPERATIONS {
        let mut ended = false;
        for turns in 0..TURNS {
            let locks = look.block_on(site.manager());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                // One poll of one task between two turns.
                .event_interval(1)
                .build()
                .expect("a runtime");
            let task = runtime.spawn((operation.start)(locks.clone()));
            runtime.block_on(async {
                for _ in 0..turns {
                    yield_now().await;
                }
            });
            ended = task.is_finished();
            drop(runtime);
            look.block_on(site.free(&rival, &KEYS));
            if operation.works_on {
                look.block_on(lock_tests::cycle(&locks, "k1", TTL));
            }
            if ended {
                println!("{}: {turns} turns", operation.name);
                break;
            }
        }
        let waits = operation.name.starts_with("wait for");
        assert!(ended || waits, "{} takes more turns", operation.name);
    }
    assert!(!busy.is_lost(), "the rival's lock was nobody else's");
    look.block_on(busy.release()).expect("it was never taken");
    look.block_on(site.free(&rival, &[BUSY, "a", "b"]));
}

#[tokio::test]
async fn at_every_poll_on_servers() {
    dropped_at_every_poll(&Site::servers().await).await;
}

#[tokio::test]
async fn at_every_poll_on_embedded_nodes() {
    dropped_at_every_poll(&Site::embedded()).await;
}

mod heavy {
    use super::*;

    /// A manager asks for so many locks at a time; the others wait for their turn in its process.
    const TURNS: usize = 256;

    /// Callers who gave up before it was their turn: nobody is asked for them, and nobody waits behind them.
    #[tokio::test]
    async fn those_who_gave_up_take_no_turn() {
        let fleet = Fleet::start(3).behind_proxies();
        fleet.found().await;
        let patient = fleet.builder().node_timeout(Duration::from_secs(5));
        let locks = patient.build().expect("a manager");
        lock_tests::ready(&locks).await;
        for proxy in fleet.proxies() {
            proxy.set(Mode::Delay {
                requests: MOMENT,
                answers: MOMENT,
            });
        }
        for server in fleet.servers() {
            server.reset_command_stats();
        }
        let mut callers = JoinSet::new();
        for caller in 0..TURNS * 10 {
            callers.spawn(locks.lock(format!("r{caller}")).ttl(TTL).acquire());
        }
        eventually(DEADLINE, "all but the first wait for their turn", || {
            locks.tasks() > TURNS * 8
        })
        .await;
        callers.shutdown().await;
        let last = locks.lock("last").ttl(TTL).acquire().await;
        last.expect("free").release().await.expect("released");
        fleet.assert_no_keys("*").await;
        for server in fleet.servers() {
            let stats = server.command_stats();
            let asked = stats.get("set").copied().unwrap_or(0);
            let most = TURNS as u64 * 4;
            assert!((1..most).contains(&asked), "{asked} were asked for");
        }
    }
    use lock_runtime::LockRequest;
    use lock_tests::{Fleet, Mode};
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;
    use tokio::task::JoinSet;

    const CALLERS: u64 = 64;
    /// Of each caller, in each weather.
    const CALLS: usize = 40;
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
                HashMap::from([(0, cut("SET")), (1, cut("EVALSHA"))]),
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

    /// Calls by many callers, each given up after a random time: while it is asking, waiting, inside, or giving back.
    async fn calls(locks: &LockManager, inside: &Inside, seed: u64) -> usize {
        let given_up = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locks, inside) = (locks.clone(), Arc::clone(inside));
            let given_up = Arc::clone(&given_up);
            let mut random = fastrand::Rng::with_seed(seed * CALLERS + caller);
            callers.spawn(async move {
                for _ in 0..CALLS {
                    let call = call(locks.clone(), Arc::clone(&inside), random.fork());
                    // From a tenth of a millisecond to a hundred, any magnitude as often as any other.
                    let patience = Duration::from_secs_f64(10_f64.powf(random.f64() * 3.0 - 4.0));
                    if tokio::time::timeout(patience, call).await.is_err() {
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_random_cancellations() {
        let fleet = Fleet::start(5).behind_proxies();
        fleet.found().await;
        let builder = fleet.builder().node_timeout(NODE_TIMEOUT);
        let locks = builder.build().expect("a manager");
        lock_tests::ready(&locks).await;
        let inside: Inside = Arc::new((0..40).map(|_| AtomicBool::new(false)).collect());
        let mut all = 0;
        let seed = std::env::var("LOCK_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        for (seed, (weather, modes)) in (seed..).zip(weathers()) {
            for (node, mode) in modes {
                fleet.proxies()[node].set(mode);
            }
            let started = Instant::now();
            let given_up = calls(&locks, &inside, seed).await;
            println!(
                "{weather}, seed {seed}: {given_up} given up in {:?}",
                started.elapsed()
            );
            fleet.assert_no_key_without_ttl();
            for proxy in fleet.proxies() {
                proxy.set(Mode::Pass);
            }
            fleet.assert_no_keys("r*").await;
            all += given_up;
        }
        assert!(all >= 10_000, "only {all} calls were given up");
        println!("{all} given up: {:?}", locks.stats());
        assert_eq!(locks.stats().releases_abandoned, 0, "{:?}", locks.stats());

        eventually(DEADLINE, "each node has one connection", || {
            let mut open = fleet
                .proxies()
                .iter()
                .map(lock_tests::Proxy::open_connections);
            open.all(|connections| connections == 1)
        })
        .await;
        let site = Site::Servers(fleet);
        site.idle(&locks, 0).await;
        lock_tests::cycle(&locks, "r0", TTL).await;
        let handle = tokio::runtime::Handle::current();
        assert_eq!(
            handle.metrics().num_alive_tasks(),
            0,
            "none is on the callers' runtime"
        );
    }
}
