//! Where callers run is their own affair: any runtime, several, none, one without a timer, one that is going away.

use futures_executor as executor;
use lock_runtime::{LockError, LockManager, LockRequest, OnLost, distributed_lock};
use lock_tests::{DEADLINE, Fleet, Mode, Site, eventually_blocking};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);

/// Soon over, and renewed several times in a body that lasts.
const SHORT: Duration = Duration::from_millis(1_500);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// A tokio runtime whose timer was not enabled.
fn without_a_timer() -> Runtime {
    Builder::new_current_thread().enable_io().build().unwrap()
}

fn without_anything() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

/// Ends after so long, woken by a thread of its own: needs no runtime.
async fn pass(time: Duration) {
    let (done, passed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(time);
        let _ = done.send(());
    });
    passed.await.expect("it is told");
}

async fn is_free(locks: &LockManager, key: &str) {
    let asked = Instant::now();
    loop {
        match locks.lock(key).ttl(TTL).acquire().await {
            Ok(lease) => return lease.release().await.expect("released"),
            Err(error) => assert!(asked.elapsed() < DEADLINE, "{key} is not free: {error}"),
        }
        pass(Duration::from_millis(5)).await;
    }
}

#[distributed_lock(key = key, ttl = TTL, wait = DEADLINE, lease = lease, manager = locks)]
async fn guarded(
    locks: &LockManager,
    key: &str,
    not_send: Rc<RefCell<u32>>,
) -> Result<u32, LockError> {
    pass(Duration::from_millis(1)).await;
    assert!(!lease.is_lost());
    *not_send.borrow_mut() += 1;
    Ok(*not_send.borrow())
}

/// Everything that a caller can do, in one future that may be polled anywhere.
async fn everything(locks: LockManager, key: &str) {
    let asked = Instant::now();
    while !locks.ready().await {
        assert!(asked.elapsed() < DEADLINE, "the nodes do not answer");
    }
    let ask = || locks.lock(key).ttl(TTL);
    let lease = ask().wait(DEADLINE).acquire().await.expect("free");
    assert!(ask().acquire().await.expect_err("held").is_busy());
    let patience = Duration::from_millis(60);
    let error = ask().wait(patience).acquire().await.expect_err("held");
    assert!(error.is_busy() && error.elapsed() >= patience, "{error}");
    lease.extend().await.expect("held");
    lease.release().await.expect("released");

    // A body that is not `Send`.
    let count = Rc::new(RefCell::new(0));
    for calls in 1..=3 {
        let counted = guarded(&locks, key, Rc::clone(&count)).await;
        assert_eq!(counted.expect("free"), calls);
    }

    // Renewed over several TTLs, without anything of the caller's that could do it.
    let request = locks.lock(key).ttl(SHORT).wait(DEADLINE);
    let renewed = request.run(|lease| async move {
        pass(SHORT * 2).await;
        lease.is_lost()
    });
    assert!(!renewed.await.expect("never lost"));

    // Stopped when it is lost, without a timer of the caller's that would wake it.
    let short = || locks.lock(key).ttl(SHORT).wait(DEADLINE).extend(false);
    let lost = short().run(|_| std::future::pending::<()>()).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    let request = short().on_lost(OnLost::Continue);
    let told = request.run(|lease| async move { lease.lost().await });
    told.await.expect("it runs on");

    let other = format!("{key}, another one");
    let request = locks.lock_all([key, &other]).ttl(TTL).fenced(true);
    let lease = request.wait(DEADLINE).acquire().await.expect("free");
    assert!(lease.fence() > 0);
    drop(lease);
    let kept = ask()
        .wait(DEADLINE)
        .hold_at_least(Duration::from_millis(20));
    drop(kept.acquire().await.expect("free"));
    is_free(&locks, key).await;
    is_free(&locks, &other).await;
}

/// Anything that polls a future to its end.
type Executor = (&'static str, fn(Pin<Box<dyn Future<Output = ()>>>));

const EXECUTORS: [Executor; 4] = [
    ("one thread", |work| one_thread().block_on(work)),
    ("several threads", |work| two_threads().block_on(work)),
    ("LocalSet", |work| {
        LocalSet::new().block_on(&one_thread(), work);
    }),
    ("not tokio", executor::block_on),
];

const WITHOUT_A_TIMER: [Executor; 2] = [
    ("no timer", |work| without_a_timer().block_on(work)),
    ("no drivers", |work| without_anything().block_on(work)),
];

/// Its clock jumps to whatever it waits for. What servers do takes its time all the same.
fn paused(work: Pin<Box<dyn Future<Output = ()>>>) {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(work);
}

/// One manager in several runtimes at once, and then in others: those before have gone.
fn serves(locks: &LockManager, executors: &[Executor]) {
    for _ in 0..2 {
        std::thread::scope(|threads| {
            for (name, execute) in executors {
                threads.spawn(|| execute(Box::pin(everything(locks.clone(), name))));
            }
        });
    }
}

/// As a process has it that runs many a `#[tokio::test]`.
#[test]
fn a_manager_of_servers_serves_whatever_polls() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    serves(
        &locks,
        &[&EXECUTORS[..], &WITHOUT_A_TIMER, &[("paused", paused)]].concat(),
    );
    let looking = one_thread();
    // Fencing tokens are remembered.
    looking.block_on(fleet.assert_no_keys("[^{]*"));
}

#[test]
fn a_manager_of_embedded_nodes_serves_whatever_has_a_timer() {
    serves(&LockManager::in_memory(), &EXECUTORS);
}

/// They work on the runtime of whoever calls, so that its clock may be paused. Without a timer there nothing is held.
#[test]
fn embedded_nodes_on_a_runtime_without_a_timer_give_errors() {
    let locks = LockManager::in_memory();
    for (name, execute) in WITHOUT_A_TIMER {
        let held = executor::block_on(locks.lock(name).ttl(TTL).acquire()).expect("free");
        let locks = locks.clone();
        execute(Box::pin(async move {
            let waiting = locks.lock(name).ttl(TTL).wait(DEADLINE);
            let error = waiting.acquire().await.expect_err("it cannot wait");
            assert!(error.is_outage(), "{name}: {error}");
            assert!(error.to_string().contains("timer"), "{name}: {error}");

            let request = locks.lock("free").ttl(TTL);
            let outcome = request.run(|_| std::future::pending::<()>()).await;
            let error = outcome.expect_err("nobody renews it");
            assert!(matches!(error, LockError::Lost { .. }), "{name}: {error}");
            assert!(!held.is_lost(), "{name}: it is another runtime's");
        }));
    }
    executor::block_on(is_free(&locks, "free"));
}

/// A manager, and a look at whether it was left with nothing, from another one.
struct Case {
    site: Site,
    locks: LockManager,
    rival: LockManager,
}

impl Case {
    fn both() -> [Self; 2] {
        let runtime = one_thread();
        let sites = [runtime.block_on(Site::servers()), Site::embedded()];
        sites.map(|site| {
            let (locks, rival) =
                runtime.block_on(async { (site.manager().await, site.manager().await) });
            Self { site, locks, rival }
        })
    }

    fn assert_free(&self, keys: &[&str]) {
        one_thread().block_on(self.site.free(&self.rival, keys));
    }

    /// What may be dropped in the middle of things, all of it without a runtime: the key, and what is dropped.
    fn leftovers(&self) -> Vec<(&'static str, Leftover)> {
        Self::leftovers_of(&self.locks)
    }

    fn leftovers_of(locks: &LockManager) -> Vec<(&'static str, Leftover)> {
        let ask = |key| locks.lock(key).ttl(TTL);
        let take = |request: LockRequest| executor::block_on(request.acquire());
        let kept = ask("kept").hold_at_least(Duration::from_millis(50));
        let runs = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&runs);
        let mut body = Box::pin(ask("body").run(move |_| {
            inside.store(true, Ordering::SeqCst);
            std::future::pending::<()>()
        }));
        poll_until(body.as_mut(), || runs.load(Ordering::SeqCst));
        let mut release = Box::pin(take(ask("release")).expect("free").release());
        poll_until(release.as_mut(), || true);
        let mut acquire = Box::pin(ask("acquire").wait_forever().acquire());
        poll_until(acquire.as_mut(), || true);
        let lease = Arc::new(take(ask("extend")).expect("free"));
        let mut extend = Box::pin(async move { lease.extend().await });
        poll_until(extend.as_mut(), || true);
        vec![
            ("lease", Box::new(take(ask("lease")).expect("free"))),
            ("kept", Box::new(take(kept).expect("free"))),
            ("body", Box::new(body)),
            ("release", Box::new(release)),
            ("acquire", Box::new(acquire)),
            ("extend", Box::new(extend)),
        ]
    }
}

const KEYS: [&str; 6] = ["lease", "kept", "body", "release", "acquire", "extend"];

/// Only to be dropped.
trait Anything: Send {}
impl<T: Send> Anything for T {}
type Leftover = Box<dyn Anything>;

/// Polls once, and again until the condition holds, on this thread and without a runtime.
fn poll_until<T>(mut future: Pin<&mut impl Future<Output = T>>, mut holds: impl FnMut() -> bool) {
    eventually_blocking(DEADLINE, "it has come so far", || {
        executor::block_on(std::future::poll_fn(|context| {
            let _ = future.as_mut().poll(context).is_ready();
            Poll::Ready(())
        }));
        holds()
    });
}

#[test]
fn dropped_outside_of_any_runtime() {
    for case in Case::both() {
        for (key, leftover) in case.leftovers() {
            std::thread::spawn(move || drop(leftover))
                .join()
                .expect("no panic");
            case.assert_free(&[key]);
        }
    }
}

#[test]
fn dropped_while_a_panic_unwinds() {
    for case in Case::both() {
        for inside in [true, false] {
            let leftovers = case.leftovers();
            let unwind = || {
                let _leftovers = leftovers;
                panic!("on purpose");
            };
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                if inside {
                    one_thread().block_on(async { unwind() });
                } else {
                    unwind();
                }
            }));
            unwound.expect_err("it panicked");
            case.assert_free(&KEYS);
        }
    }
}

thread_local! {
    /// Dropped when the thread ends.
    static KEPT: RefCell<Vec<Leftover>> = const { RefCell::new(Vec::new()) };
}

/// Thread-locals are dropped one after the other, so those of tokio are gone before or after this one. A panic there would
/// end the process.
#[test]
fn dropped_with_the_thread_locals() {
    // Once a clock was paused, tokio looks for the runtime whose clock it is.
    one_thread().block_on(async { tokio::time::pause() });
    for case in Case::both() {
        for tokio_first in [true, false] {
            let leftovers = case.leftovers();
            let use_tokio = || one_thread().block_on(tokio::task::yield_now());
            let thread = std::thread::spawn(move || {
                if tokio_first {
                    use_tokio();
                }
                KEPT.with_borrow_mut(|kept| {
                    kept.extend(leftovers.into_iter().map(|(_, leftover)| leftover));
                });
                use_tokio();
            });
            thread.join().expect("no panic");
            case.assert_free(&KEYS);
        }
    }
}

/// However a runtime ends, it drops its tasks, on whatever thread and in whatever order.
#[test]
fn dropped_while_a_runtime_ends() {
    let ends: [fn(Runtime); 3] = [drop, Runtime::shutdown_background, |runtime| {
        runtime.shutdown_timeout(Duration::ZERO);
    }];
    for case in Case::both() {
        for make in [one_thread, two_threads, without_a_timer, without_anything] {
            for end in ends {
                let runtime = make();
                let (started, mut tasks) = tokio::sync::mpsc::channel(KEYS.len());
                for (key, leftover) in case.leftovers() {
                    let started = started.clone();
                    runtime.spawn(async move {
                        let _leftover = leftover;
                        started.send(key).await.expect("it is waited for");
                        std::future::pending::<()>().await;
                    });
                }
                for _ in KEYS {
                    runtime.block_on(tasks.recv()).expect("it runs");
                }
                end(runtime);
                case.assert_free(&KEYS);
            }
        }
    }
}

/// The release is sent by the manager's own thread: whoever drops a lease may compute without ever yielding.
#[test]
fn what_is_dropped_is_given_back_without_its_callers_runtime() {
    let [case, _] = Case::both();
    let Site::Servers(fleet) = &case.site else {
        panic!("servers come first");
    };
    one_thread().block_on(async {
        for (key, leftover) in case.leftovers() {
            drop(leftover);
            eventually_blocking(DEADLINE, "it is given back", || fleet.nodes_with(key) == 0);
        }
    });
}

/// Nodes that are silent must not be waited for where something is dropped.
#[test]
fn no_drop_blocks() {
    const TRIES: usize = 5;
    const AT_ONCE: Duration = Duration::from_millis(50);
    let fleet = Fleet::start(3).behind_proxies();
    let looking = one_thread();
    looking.block_on(fleet.found());
    let site = Site::Servers(fleet);
    let Site::Servers(fleet) = &site else {
        unreachable!()
    };
    // The shortest of several, as a thread may not be run for a while.
    let mut shortest = std::collections::BTreeMap::new();
    for _ in 0..TRIES {
        let locks = looking.block_on(site.manager());
        let leftovers = Case::leftovers_of(&locks);
        for proxy in fleet.proxies() {
            proxy.set(Mode::Blackhole);
        }
        let mut time = |what: &'static str, dropping: &mut dyn FnMut()| {
            let began = Instant::now();
            dropping();
            let took = began.elapsed();
            let least = shortest.entry(what).or_insert(took);
            *least = took.min(*least);
        };
        for (key, leftover) in leftovers {
            let mut leftover = Some(leftover);
            time(key, &mut || drop(leftover.take()));
        }
        let mut locks = Some(locks);
        time("manager", &mut || drop(locks.take()));
        for proxy in fleet.proxies() {
            proxy.set(Mode::Pass);
        }
        looking.block_on(fleet.assert_no_keys("*"));
    }
    println!("{shortest:?}");
    assert_eq!(shortest.len(), KEYS.len() + 1);
    assert!(
        shortest.values().all(|least| *least < AT_ONCE),
        "{shortest:?}"
    );
}
