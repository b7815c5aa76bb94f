//! What the quorum asks of one node. [`redlock`](crate::redlock) knows this trait and nothing about Redis.

mod address;
mod barrier;
mod cluster;
mod commands;
mod connections;
mod examine;
pub(crate) mod facts;
mod handshake;
mod life;
mod link;
mod listener;
mod listening;
pub(crate) mod memory;
pub(crate) mod names;
mod owner;
mod pool;
pub(crate) mod redis;
pub(crate) mod registry;
mod role;
mod route;
mod script;
pub(crate) mod seizure;
mod sentinel;
mod sibling;
mod target;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod told;
pub(crate) mod trouble;
mod wire;
mod words;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::Cmd;
use tokio::time::Instant;

use crate::clock;

pub(crate) use listener::Listener;
#[cfg(test)]
pub(crate) use listening::{Listening, Subscriptions};
pub(crate) use owner::{Owner, Token};
pub(crate) use seizure::{Kept, Seizure};

/// The answer of a node, on its way. Boxed, as nodes of different kinds vote together. It ends when its [`Limit`] does,
/// which whoever polls it has to see to.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = Result<T, NodeError>> + Send>>;

/// One voter. Every operation is atomic on the node, and owner-checked where it changes a lock.
///
/// Two operations on one key are executed in the order in which they were handed to the node, so that a release always
/// finds what the acquire before it left.
pub(crate) trait Node: Send + Sync + fmt::Debug {
    /// What operators call it: never holds a password.
    fn name(&self) -> &Arc<str>;

    /// Takes the lock if nobody has it. Must not reach the node unless [`Ask::commit`] agrees for the node's position.
    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired>;

    /// Makes the lock live for another TTL if the token owns it, and takes it again if nobody does. Must not reach the node
    /// unless [`Extension::commit`] agrees for the node's position.
    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired>;

    /// Proposes a larger fencing token for a lock that the token owns. Answers what was stored before.
    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64>;

    /// Gives the lock back if the token owns it.
    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released>;

    /// The same, done before this returns, on a node that never has to wait. Works outside any runtime.
    fn release_now(&self, _give_back: &Return) -> Option<Released> {
        None
    }

    /// Who has the lock. Changes nothing.
    fn look(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Option<Holder>>;

    /// Tells of the releases of this lock that happen on this node once this has answered. What was released before may
    /// have to be looked for, and an expiry is never told of.
    fn listen(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Listener>;

    /// Whether it would vote on a request now.
    fn ping(self: Arc<Self>, limit: Limit) -> Reply<()>;

    /// Whether it has a vote, looked up anew where that may have changed.
    fn standing(self: Arc<Self>, limit: Limit) -> Reply<Standing>;

    /// What it keeps of a lock, also without a vote. Changes nothing.
    fn inspect(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Kept>;

    /// Takes the lock from whoever has it, also without a vote: see [`seizure`]. Answers who that was, and for how long the mark
    /// is there.
    fn seize(self: Arc<Self>, seizure: Arc<Seizure>) -> Reply<Option<Holder>>;

    /// What there is to know of its servers, for somebody who looks after the deployment. Leaves everything as it is.
    fn examine(self: Arc<Self>, limit: Limit) -> Reply<Vec<facts::Server>>;

    /// Gives it its vote, as a node of a deployment that is brand-new, if it still is in this life.
    fn admit(self: Arc<Self>, life: Arc<str>, limit: Limit) -> Reply<()>;
}

/// What nodes keep under this key with this prefix, if it is not a lock. Asked for every lock: most keys need not be put
/// together for it.
pub(crate) fn kept_under(key: &str, prefix: &str) -> Option<&'static str> {
    if target::is_marker(key) {
        Some("nodes remember under it that they vote")
    } else if key == target::PROBE {
        Some("a check tries with it what nodes permit")
    } else if sibling::may_end_fence(key) && sibling::is_fence(&format!("{prefix}{key}")) {
        Some("it is the name under which the fencing tokens of another lock are remembered")
    } else {
        None
    }
}

/// A request for a lock, the same to all nodes.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// The fencing token that is proposed, if one is wanted.
    pub(crate) fence: Option<Fence>,
    pub(crate) limit: Limit,
    pub(crate) ledger: Arc<Ledger>,
    /// As servers take it; made by the first node that needs it.
    pub(crate) command: OnceLock<Cmd>,
}

impl Ask {
    /// To be called at the last moment before the request leaves. False: it was decided without this node, which must
    /// not be sent the request any more, as nothing would release it.
    #[must_use]
    pub(crate) fn commit(&self, position: usize) -> bool {
        self.ledger.enter(position)
    }
}

/// A renewal, the same to all nodes.
#[derive(Debug)]
pub(crate) struct Extension {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// The lock's fencing token, if it has one: a node that takes the lock again has to know it.
    pub(crate) fence: Option<Fence>,
    /// The lease that is renewed ends here: afterwards nothing may take the lock again.
    pub(crate) until: Instant,
    pub(crate) limit: Limit,
    pub(crate) ledger: Arc<Ledger>,
    /// As servers take it; made by the first node that needs it.
    pub(crate) command: OnceLock<Cmd>,
}

impl Extension {
    /// To be called at the last moment before the request leaves. False: the lease has ended, or is being released.
    #[must_use]
    pub(crate) fn commit(&self, position: usize) -> bool {
        Instant::now() < self.until && self.ledger.enter(position)
    }
}

/// A fencing token, proposed or settled.
#[derive(Clone, Debug)]
pub(crate) struct Fence {
    /// Where it is remembered.
    pub(crate) key: Arc<str>,
    pub(crate) token: u64,
    /// For how long.
    pub(crate) ttl: Duration,
}

impl Fence {
    /// For a lock by its key on the nodes.
    pub(crate) fn of(lock: &str, token: u64, ttl: Duration) -> Self {
        let key = sibling::fence(lock);
        Self { key, token, ttl }
    }
}

/// A proposal of a larger fencing token, the same to all nodes.
#[derive(Debug)]
pub(crate) struct Raise {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) limit: Limit,
    /// As servers take it; made by the first node that needs it.
    pub(crate) command: OnceLock<Cmd>,
}

/// A release, the same to all nodes.
#[derive(Debug)]
pub(crate) struct Return {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    /// The lock lives on for so long.
    pub(crate) keep: Option<Duration>,
    /// Whoever waits for the lock is told of it, and for how long its holder had waited. Not where nothing that he waits for
    /// has ended.
    pub(crate) aloud: Option<Duration>,
    /// It was sent before and not confirmed. Over a connection that owes answers it need not be sent again: what was sent
    /// first is executed first, or never.
    pub(crate) again: bool,
    pub(crate) limit: Limit,
    /// As servers take it; made by the first node that needs it.
    pub(crate) command: OnceLock<Cmd>,
}

/// How long nodes that are asked together may take to answer. One timer for all of them: whoever waits for the answers
/// has it, and says here when it is over.
#[derive(Clone, Debug)]
pub(crate) struct Limit(Arc<LimitState>);

#[derive(Debug)]
struct LimitState {
    from: Instant,
    allowed: Duration,
    at: Instant,
    over: AtomicBool,
}

impl Limit {
    /// From now on.
    pub(crate) fn within(allowed: Duration) -> Self {
        let now = clock::now();
        Self(Arc::new(LimitState {
            from: now,
            allowed,
            at: now.checked_add(allowed).unwrap_or(now),
            over: AtomicBool::new(false),
        }))
    }

    pub(crate) fn allowed(&self) -> Duration {
        self.0.allowed
    }

    /// Since when they may.
    pub(crate) fn from(&self) -> Instant {
        self.0.from
    }

    pub(crate) fn at(&self) -> Instant {
        self.0.at
    }

    pub(crate) fn end(&self) {
        self.0.over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }
}

/// Which nodes a request was sent to. One word, so that "send it" and "no more of it" cannot cross.
#[derive(Debug, Default)]
pub(crate) struct Ledger(AtomicU64);

impl Ledger {
    const CLOSED: u64 = 1 << 63;

    /// How many nodes fit.
    pub(crate) const CAPACITY: usize = 63;

    fn enter(&self, position: usize) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |sent| {
                (sent & Self::CLOSED == 0).then_some(sent | 1 << position)
            })
            .is_ok()
    }

    /// From now on the request goes to no further node.
    pub(crate) fn close(&self) {
        self.0.fetch_or(Self::CLOSED, Ordering::AcqRel);
    }

    /// The lock is known not to be ours at this node.
    pub(crate) fn strike(&self, position: usize) {
        self.0.fetch_and(!(1 << position), Ordering::AcqRel);
    }

    /// Whether the node may have the lock under our token.
    pub(crate) fn holds(&self, position: usize) -> bool {
        self.0.load(Ordering::Acquire) & (1 << position) != 0
    }
}

/// The answer to a request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// With the fencing token that was stored before, if one was asked for.
    Granted(u64),
    Held(Owner),
}

impl Acquired {
    /// What a node says that found `owner` there. Our own token: an earlier request of this attempt was late, and it counts.
    pub(crate) fn found(owner: &[u8], token: &Token) -> Self {
        if token.is(owner) {
            Self::Granted(0)
        } else {
            Self::Held(Owner(owner.into()))
        }
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Gone, or kept only as long as was asked.
    Done {
        /// How many others were told of it: who waits for the lock elsewhere and listens on this node.
        told: u64,
    },
    /// The token does not own the lock there.
    NotOurs,
}

/// Who has a lock on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) owner: Owner,
    /// `None`: for ever, which no client of this library writes.
    pub(crate) remaining: Option<Duration>,
}

/// Whether a node has a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Votes,
    /// It restarted or was promoted, perhaps without its last writes.
    Abstains {
        /// So much longer.
        for_another: Duration,
        /// It does not know of having been a node of this deployment, and could be admitted in this life.
        unknown: Option<Arc<str>>,
    },
}

/// Why a node did not answer in a usable way, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeError {
    Failed(Failure, Arc<str>),
    /// It restarted or was promoted not long ago, and has no vote for so much longer.
    Abstains(Duration),
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It says no, or what cannot be used, or must not be asked.
    Refused,
    /// No answer in time.
    Silent,
    /// No connection.
    Unreachable,
    /// None: it was decided without it.
    NotAsked,
}

impl Failure {
    /// For an operator.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Silent => "timeout",
            Self::Unreachable => "connection",
            Self::NotAsked => "none",
        }
    }
}

impl NodeError {
    /// The server does not know the hash that a script was called by.
    pub(crate) fn is_noscript(&self) -> bool {
        matches!(self, Self::Failed(_, reason) if reason.starts_with("NOSCRIPT"))
    }

    /// The server takes no writes, as it is a replica. Servers before 7.0 put an error of a script into words of their own.
    pub(crate) fn is_readonly(&self) -> bool {
        matches!(self, Self::Failed(_, reason) if reason.starts_with("READONLY") || reason.contains("-READONLY "))
    }

    /// Of several keys that are on their way to another server of a cluster, some have arrived.
    pub(crate) fn is_tryagain(&self) -> bool {
        matches!(self, Self::Failed(_, reason) if reason.starts_with("TRYAGAIN"))
    }
}

impl NodeError {
    pub(crate) fn unreachable(reason: impl Into<Arc<str>>) -> Self {
        Self::Failed(Failure::Unreachable, reason.into())
    }

    pub(crate) fn silent(reason: impl Into<Arc<str>>) -> Self {
        Self::Failed(Failure::Silent, reason.into())
    }

    pub(crate) fn not_asked(reason: impl Into<Arc<str>>) -> Self {
        Self::Failed(Failure::NotAsked, reason.into())
    }

    /// As part of a sentence.
    pub(crate) fn into_words(self) -> Arc<str> {
        match self {
            Self::Failed(_, reason) => reason,
            Self::Abstains(left) => format!("it has no vote for another {left:.0?}").into(),
        }
    }
}

impl From<&str> for NodeError {
    fn from(reason: &str) -> Self {
        Self::from(Arc::from(reason))
    }
}

impl From<Arc<str>> for NodeError {
    fn from(reason: Arc<str>) -> Self {
        Self::Failed(Failure::Refused, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_ledger_sends_nothing_more_and_remembers_what_was_sent() {
        let ledger = Ledger::default();
        assert!(ledger.enter(0));
        assert!(ledger.enter(62));
        assert!(!ledger.holds(1));
        ledger.close();
        assert!(!ledger.enter(3));
        assert!(!ledger.holds(3));
        assert!(ledger.holds(0) && ledger.holds(62));
        ledger.strike(0);
        assert!(!ledger.holds(0));
    }

    #[test]
    fn a_server_that_takes_no_writes_is_told_by_what_it_says() {
        for said in [
            "READONLY You can't write against a read only replica.",
            "READONLY You can't write against a read only replica. script: 8ebd, on @user_script:9.",
            "ERR Error running script (call to f_8ebd): @user_script:8: @user_script: 8: -READONLY You can't write against \
             a read only replica.",
        ] {
            assert!(NodeError::from(said).is_readonly(), "{said}");
        }
        for said in [
            "ERR READONLY",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert!(!NodeError::from(said).is_readonly(), "{said}");
        }
        assert!(!NodeError::Abstains(Duration::ZERO).is_readonly());
    }
}
