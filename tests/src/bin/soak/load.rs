//! What is done with each key, and who waits meanwhile.

use lock_runtime::{
    Lease, LockError, LockManager, LockManagerBuilder, LockRequest, distributed_lock,
};
use lock_tests::{DEADLINE, Fleet, dropped_after};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// So long that no key goes away by itself before it is looked for.
const TTL: Duration = Duration::from_secs(60);

/// Tasks that use keys.
const WORKERS: usize = 32;

/// Tasks that wait for the busy key, from the beginning to the end.
const WAITERS: usize = 16;

/// Held from the beginning to the end.
const BUSY: &str = "busy";
const STEADY: &str = "steady";
pub(crate) const KEPT: [&str; 2] = [BUSY, STEADY];

/// One in so many keys leaves something behind, where that is wanted.
const LEAKS: usize = 100;

/// So many failures are shown.
const SHOWN: usize = 5;

/// What is left behind on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leak {
    Leases,
    Memory,
    Managers,
    Waiters,
}

impl Leak {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "leases" => Some(Self::Leases),
            "memory" => Some(Self::Memory),
            "managers" => Some(Self::Managers),
            "waiters" => Some(Self::Waiters),
            _ => None,
        }
    }
}

/// Two replicas of a service.
pub(crate) struct Load {
    pub(crate) managers: [LockManager; 2],
    urls: Vec<String>,
    leak: Option<Leak>,
    /// Calls that failed for another reason than the one that was meant.
    pub(crate) failures: AtomicUsize,
}

impl Load {
    pub(crate) fn new(fleet: &Fleet, leak: Option<Leak>) -> Self {
        Self {
            managers: [fleet.manager(), fleet.manager()],
            urls: fleet.urls(),
            leak,
            failures: AtomicUsize::new(0),
        }
    }

    fn ours(&self) -> &LockManager {
        &self.managers[0]
    }

    fn theirs(&self) -> &LockManager {
        &self.managers[1]
    }

    /// A lease of each manager, and those who wait for the one of them until they are dropped.
    pub(crate) async fn waiters(&self) -> (Vec<Lease>, JoinSet<()>) {
        let [ours, theirs] = &self.managers;
        let mut leases = Vec::new();
        for (locks, key) in [(ours, STEADY), (theirs, BUSY)] {
            let lease = locks.lock(key).ttl(TTL).wait(DEADLINE).acquire().await;
            leases.push(lease.expect("nobody else wants it"));
        }
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let request = ours.lock(BUSY).ttl(TTL).wait_forever();
            waiters.spawn(async move {
                let lease = request.acquire().await;
                panic!("it is held by somebody else, and {lease:?} was given");
            });
        }
        (leases, waiters)
    }

    pub(crate) fn acquisitions(&self) -> u64 {
        self.managers
            .iter()
            .map(|locks| locks.stats().acquired)
            .sum()
    }

    /// Uses each of these keys once.
    pub(crate) async fn use_keys(self: &Arc<Self>, keys: Range<usize>) {
        let next = Arc::new(AtomicUsize::new(keys.start));
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let (load, next) = (Arc::clone(self), Arc::clone(&next));
            workers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= keys.end {
                        return;
                    }
                    if let Err(error) = load.use_key(number).await
                        && load.failures.fetch_add(1, Ordering::Relaxed) < SHOWN
                    {
                        println!("failure: {error}");
                    }
                    if number % LEAKS == 0 {
                        load.leak(number).await;
                    }
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.expect("no worker panics");
        }
    }

    async fn use_key(&self, number: usize) -> Result<(), LockError> {
        let key = format!("order:{number}");
        let lock = |locks: &LockManager| locks.lock(&key).ttl(TTL);
        let (ours, theirs) = (lock(self.ours()), lock(self.theirs()));
        match number % 13 {
            0 => release(ours.acquire().await?).await,
            1 => drop(ours.acquire().await?),
            2 => ours.run(|_| tokio::task::yield_now()).await?,
            3 => release(ours.fenced(true).acquire().await?).await,
            4 => guarded(self.ours(), &key).await?,
            5 => {
                let keys = ["a", "b", "c"].map(|part| format!("{key}:{part}"));
                let all = self
                    .ours()
                    .lock_all(&keys)
                    .ttl(TTL)
                    .fenced(number.is_multiple_of(2));
                release(all.acquire().await?).await;
            }
            6 => {
                let polls = fastrand::usize(..6);
                dropped_after(polls, ours.run(|_| tokio::task::yield_now())).await;
            }
            7 => {
                let patience = Duration::from_micros(fastrand::u64(..5_000));
                let call = ours.fenced(true).run(|_| tokio::task::yield_now());
                tokio::time::timeout(patience, call).await.ok();
            }
            8 => {
                let first = ours.acquire().await?;
                let (next, ()) = tokio::join!(theirs.wait(DEADLINE).acquire(), async {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    release(first).await;
                });
                release(next?).await;
            }
            9 => {
                let lease = ours.acquire().await?;
                in_vain(theirs).await?;
                in_vain(lock(self.theirs()).wait(Duration::from_millis(10))).await?;
                release(lease).await;
            }
            10 => {
                let kept = ours.hold_at_least(Duration::from_millis(20));
                kept.run(|_| tokio::task::yield_now()).await?;
            }
            11 => {
                let lease = ours.acquire().await?;
                let patience = Duration::from_millis(fastrand::u64(..20));
                // One of them gets free soon, and the other stays busy.
                let busy = self.ours().lock(BUSY).ttl(TTL);
                for request in [theirs, busy] {
                    let waiting = request.wait_forever().acquire();
                    let waited = tokio::time::timeout(patience, waiting).await;
                    assert!(waited.is_err(), "a lock that is held was given");
                }
                release(lease).await;
            }
            _ => {
                let short = ours.ttl(Duration::from_millis(200)).extend(false);
                short.acquire().await?.lost().await;
            }
        }
        Ok(())
    }

    async fn leak(&self, number: usize) {
        match self.leak {
            Some(Leak::Leases) => {
                let lease = self
                    .ours()
                    .lock(format!("leaked:{number}"))
                    .ttl(TTL)
                    .acquire()
                    .await;
                std::mem::forget(lease);
            }
            Some(Leak::Memory) => std::mem::forget(vec![0_u8; 8192]),
            Some(Leak::Managers) => {
                let nodes = self.urls.iter();
                let another = nodes.fold(LockManager::builder(), LockManagerBuilder::node);
                std::mem::forget(another.build());
            }
            Some(Leak::Waiters) => {
                // In the same line they cost no task of the manager each, but memory.
                for _ in 0..50 {
                    tokio::spawn(self.ours().lock(BUSY).ttl(TTL).wait_forever().acquire());
                }
            }
            None => {}
        }
    }
}

#[distributed_lock(key = "{key}", ttl = "60s", wait = "1s", lease = lease, manager = locks)]
async fn guarded(locks: &LockManager, key: &str) -> Result<(), LockError> {
    assert!(!lease.is_lost(), "a body runs while its lock is held");
    Ok(())
}

/// What cannot be confirmed is told again in the background, which is looked at later.
async fn release(lease: Lease) {
    lease.release().await.ok();
}

/// Asks for a lock that is held.
async fn in_vain(request: LockRequest) -> Result<(), LockError> {
    match request.acquire().await {
        Err(error) if error.is_busy() => Ok(()),
        Err(error) => Err(error),
        Ok(lease) => panic!("{lease:?} was given, and is held"),
    }
}
