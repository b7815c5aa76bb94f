//! A client: a process that takes locks, several at a time, and says on record what it does with them.

use crate::history::good_until;
use crate::setting::{KEYS, MAX_TTL, NODE_TIMEOUT, SHORTEST_TTL};
use futures_util::future::join_all;
use lock_runtime::{Lease, LockError, LockManager, distributed_lock};
use lock_tests::Recorder;
use lock_tests::recorder::Inside;
use rustix::time::{ClockId, clock_gettime};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// How many calls a client makes next to one another.
const AT_A_TIME: usize = 6;

/// Between two steps of a body.
const PACE: Duration = Duration::from_millis(15);

/// Set when standard input has ended.
static ENDS: AtomicBool = AtomicBool::new(false);

struct Client {
    name: String,
    record: Recorder,
    locks: LockManager,
    taken: AtomicU32,
}

/// Takes locks until its standard input ends. `clock` is how many milliseconds its wall clock is ahead.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn live(name: &str, record: &str, clock: i64) {
    let nodes = std::env::var("LOCK_NODES").expect("LOCK_NODES lists the nodes");
    let locks = LockManager::builder()
        .nodes(&nodes)
        .max_ttl(MAX_TTL)
        .node_timeout(NODE_TIMEOUT)
        .wall_clock(move || skewed(clock))
        .build()
        .expect("LOCK_NODES lists the nodes");
    std::thread::spawn(|| {
        std::io::stdin().lock().lines().for_each(drop);
        ENDS.store(true, Ordering::SeqCst);
    });
    let client = Client {
        name: name.to_owned(),
        record: Recorder::open(record),
        locks,
        taken: AtomicU32::new(0),
    };
    join_all((0..AT_A_TIME).map(|_| client.take_many())).await;
}

impl Client {
    async fn take_many(&self) {
        while !ENDS.load(Ordering::SeqCst) {
            match self.take_one().await {
                Ok(())
                | Err(
                    LockError::Busy { .. } | LockError::NoQuorum { .. } | LockError::Lost { .. },
                ) => {}
                Err(error) => panic!("{}: {error}", self.name),
            }
        }
    }

    /// In one of three ways: a body under a request, a function under the attribute, or a lease that is looked at by hand.
    async fn take_one(&self) -> Result<(), LockError> {
        let key = KEYS[fastrand::usize(..KEYS.len())];
        let wait = Duration::from_millis(fastrand::u64(..2000));
        let length = length();
        let request = self.locks.lock(key).fenced(true).wait(wait);
        // Often the same as somebody else's: only then is a lock handed over.
        let ttl = if fastrand::bool() {
            MAX_TTL
        } else {
            MAX_TTL.mul_f64(fastrand::f64()).max(SHORTEST_TTL)
        };
        match fastrand::u8(..3) {
            0 => {
                request
                    .ttl(ttl)
                    .run(|lease| async move { self.work(key, &lease, length).await })
                    .await
            }
            1 => {
                guarded(&self.locks.clone(), key, wait, async |lease| {
                    self.work(key, lease, length).await;
                })
                .await
            }
            _ => {
                let lease = request.ttl(ttl).acquire().await?;
                self.work(key, &lease, length).await;
                if fastrand::bool() {
                    // A release that cannot be confirmed is left to the TTL.
                    lease.release().await.ok();
                }
                Ok(())
            }
        }
    }

    /// Looks at the lease before every step, which the guarded ways do by themselves.
    async fn work(&self, key: &str, lease: &Lease, length: Duration) {
        if lease.is_lost() {
            return;
        }
        let number = self.taken.fetch_add(1, Ordering::SeqCst);
        let owner = format!("{}#{number}@{}", self.name, lease.fence());
        let inside = self.record.enter(key, &owner);
        tokio::task::yield_now().await;
        let start = tokio::time::Instant::now();
        while !lease.is_lost() {
            step(&inside, lease);
            if start.elapsed() >= length {
                break;
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

#[distributed_lock(key = "{key}", ttl = "800ms", wait = wait, fenced = true, lease = lease, manager = locks)]
async fn guarded(
    locks: &LockManager,
    key: &str,
    wait: Duration,
    body: impl AsyncFnOnce(&Lease),
) -> Result<(), LockError> {
    body(lease).await;
    Ok(())
}

/// The clock is read first, so the lease is good for at least as long as is said.
fn step(inside: &Inside, lease: &Lease) {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(
        u64::try_from(now.tv_sec).expect("the clock counts from the start of the machine"),
        u32::try_from(now.tv_nsec).expect("less than a second"),
    );
    inside.step(&good_until(now + lease.remaining()));
}

/// Most bodies are short, so that locks are handed over, and some are renewed several times.
fn length() -> Duration {
    let longest = match fastrand::u8(..10) {
        0..4 => 5,
        4..6 => 40,
        6..9 => 600,
        _ => 4000,
    };
    Duration::from_millis(fastrand::u64(..longest))
}

fn skewed(ahead: i64) -> SystemTime {
    let offset = Duration::from_millis(ahead.unsigned_abs());
    if ahead < 0 {
        SystemTime::now() - offset
    } else {
        SystemTime::now() + offset
    }
}
