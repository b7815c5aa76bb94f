//! This library and its peers behind one trait, each used as its documentation says.

mod distributed_lock_redis;
mod ours;
mod raw;
mod redlock;
mod rslock;
mod tokio_mutex;

pub use ours::Ours;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// For how long every contender asks for a lock. The default of the peer that has one.
pub const TTL: Duration = Duration::from_secs(30);

/// Between two tries of a peer that leaves trying again to its caller, and of raw commands: less than this, at random.
const PAUSE: Duration = Duration::from_millis(10);

/// What a contender answers; the error says what went wrong.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// A lock that is held. Dropping it does what dropping the contender's own handle does.
#[must_use]
pub struct Held(Box<dyn FnOnce() -> Reply<()> + Send>);

impl Held {
    fn new<F>(release: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(release())))
    }

    /// Gives the lock back.
    pub fn release(self) -> Reply<()> {
        (self.0)()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// One way to lock.
pub trait Locker: Send + Sync {
    /// One call with the contender's own defaults, some of which try more than once. `None`: not taken.
    fn ask(&self, key: String) -> Reply<Option<Held>>;

    /// Waits for the lock, however long it takes.
    fn wait(&self, key: String) -> Reply<Held>;

    /// Tries once.
    fn try_once(&self, key: String) -> Reply<Option<Held>> {
        self.ask(key)
    }

    /// Returns when nothing is at work any more that was dropped before.
    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// Which contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// This library.
    Ours,
    /// The same, with fencing tokens.
    OursFenced,
    /// The commands alone; every answer is waited for.
    RawAll,
    /// The commands alone; goes on at a majority and leaves the other answers, and keys, to themselves.
    RawQuorum,
    /// The commands alone, behind a queue of the process, so that one task of it contends.
    RawQueued,
    /// `rslock` with its default of three tries within 200 ms each.
    Rslock,
    /// `rslock` told to try again within 10 ms.
    RslockQuick,
    /// `redlock`, a blocking client, on tokio's threads for such.
    Redlock,
    /// `distributed-lock-redis`, whose caller tries again within 10 ms.
    DistributedLockRedis,
    /// A mutex of this process.
    TokioMutex,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Ours,
        Self::OursFenced,
        Self::RawAll,
        Self::RawQuorum,
        Self::RawQueued,
        Self::Rslock,
        Self::RslockQuick,
        Self::Redlock,
        Self::DistributedLockRedis,
        Self::TokioMutex,
    ];

    /// As it stands in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "lock-runtime",
            Self::OursFenced => "lock-runtime, fenced",
            Self::RawAll => "raw, waiting for all",
            Self::RawQuorum => "raw, at quorum",
            Self::RawQueued => "raw behind a local queue",
            Self::Rslock => "rslock",
            Self::RslockQuick => "rslock, 10 ms",
            Self::Redlock => "redlock",
            Self::DistributedLockRedis => "distributed-lock-redis",
            Self::TokioMutex => "tokio Mutex",
        }
    }

    /// The contender of that name, for a process that is told what to be.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Connects to the nodes. All must be up.
    pub async fn connect(self, urls: &[String]) -> Arc<dyn Locker> {
        match self {
            Self::Ours => Arc::new(Ours::connect(urls).await),
            Self::OursFenced => Arc::new(Ours::connect(urls).await.fenced()),
            Self::RawAll => Arc::new(raw::Raw::connect(urls).await.waiting_for_all()),
            Self::RawQuorum => Arc::new(raw::Raw::connect(urls).await),
            Self::RawQueued => Arc::new(raw::Queued::connect(urls).await),
            Self::Rslock => Arc::new(rslock::Rslock::new(urls)),
            Self::RslockQuick => Arc::new(rslock::Rslock::new(urls).quick()),
            Self::Redlock => Arc::new(redlock::Redlock::new(urls)),
            Self::DistributedLockRedis => {
                Arc::new(distributed_lock_redis::DistributedLockRedis::connect(urls).await)
            }
            Self::TokioMutex => Arc::new(tokio_mutex::TokioMutex::default()),
        }
    }
}

/// Some time below [`PAUSE`].
fn pause() -> Duration {
    PAUSE.mul_f64(fastrand::f64())
}
