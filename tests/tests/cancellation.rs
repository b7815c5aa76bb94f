//! Whatever is dropped, wherever it stands, leaves nothing: no key, no task, no connection; and its manager works on.
//!
//! `cancelled_at_random.rs` does it at any time, `nothing_left.rs` has more ways to leave a lock, `runtimes.rs` more places
//! to drop one, and `memory.rs` counts bytes.

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
    operation("wait for ever for a busy lock, for a moment", |locks| {
        Box::pin(async move {
            let waiting = locks.lock(BUSY).ttl(TTL).wait_forever().acquire();
            let waited = tokio::time::timeout(MOMENT, waiting).await;
            assert!(waited.is_err(), "a rival has it");
        })
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
    Operation {
        name: "wait for the end of a body, and shut down without it",
        start: |locks| {
            Box::pin(async move {
                let body = locks.lock("k1").ttl(TTL).run(|_| std::future::pending());
                let end = async {
                    yield_now().await;
                    locks.shutdown(MOMENT).await
                };
                let (body, end): (Result<(), _>, _) = tokio::join!(body, end);
                body.expect_err("it never ends by itself");
                assert_eq!(end.left, 0);
            })
        },
        works_on: false,
    },
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
    use lock_tests::{Fleet, Mode};
    use tokio::task::JoinSet;

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
            lock_runtime::__private::tasks(&locks) > TURNS * 8
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
}
