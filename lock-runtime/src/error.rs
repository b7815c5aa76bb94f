//! What can go wrong, in the words of whoever has to act on it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::key::LockKey;
use crate::node::NodeError;
use crate::shown::{Rounded, Visible};

/// What one node said to a request or a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// It granted the lock.
    Granted,
    /// Another owner has the lock there.
    Busy,
    /// It released the lock.
    Released,
    /// The lock was not this owner's there when it was released.
    NotOurs,
    /// It did not answer in a usable way, and why.
    Failed(Arc<str>),
    /// It restarted or was promoted not long ago, and has no vote for so much longer: until no lease can be left that it
    /// may have forgotten.
    Abstains(Duration),
}

impl From<&NodeError> for Vote {
    fn from(error: &NodeError) -> Self {
        match error {
            NodeError::Failed(_, reason) => Self::Failed(Arc::clone(reason)),
            NodeError::Abstains(for_another) => Self::Abstains(*for_another),
        }
    }
}

/// The vote of a node, by the node's address. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVote {
    pub(crate) node: Arc<str>,
    pub(crate) vote: Vote,
}

impl NodeVote {
    /// The node, as `host:port`, the path of its socket, `sentinel:port/group`, or `memory`.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What it said.
    #[must_use]
    pub fn vote(&self) -> &Vote {
        &self.vote
    }
}

impl fmt::Display for NodeVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        f.write_str(match &self.vote {
            Vote::Granted => "granted",
            Vote::Busy => "held by another owner",
            Vote::Released => "released",
            Vote::NotOurs => "not ours",
            Vote::Failed(reason) => reason,
            Vote::Abstains(left) => {
                return write!(
                    f,
                    "started or was promoted less than max_ttl ago, and has no vote for another {}",
                    Rounded(*left)
                );
            }
        })
    }
}

/// Why a lock was not taken, or was lost.
///
/// Whatever the variant, the guarded body did not run, with one exception: [`Lost`](Self::Lost) says that it was
/// stopped on the way. `key` is the key as it was asked for; where several were asked for together, the one that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else holds the lock.
    #[error(
        "lock `{}` is busy (tried for {elapsed:.1?}; {})",
        Visible(key.as_str()),
        Ends(*retry_after, *never_expires)
    )]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: LockKey,
        /// How long this call has tried.
        elapsed: Duration,
        /// When the holder's lease ends if it is not renewed, as a node reported it; this call's own TTL if none did.
        retry_after: Duration,
        /// The key has no TTL: it was not written as a lock, and stays until somebody deletes it.
        never_expires: bool,
        /// The last vote of each node; none where it is this process that has the lock, and no node was asked.
        votes: Vec<NodeVote>,
    },

    /// Too few nodes answered in time for anybody to have the lock: an outage, not a rival.
    #[error(
        "no quorum for lock `{}` after {elapsed:.1?}: {reason}{}",
        Visible(key.as_str()),
        Listed(votes)
    )]
    #[non_exhaustive]
    NoQuorum {
        /// The lock.
        key: LockKey,
        /// How long this call has tried.
        elapsed: Duration,
        /// What was missing.
        reason: Arc<str>,
        /// The last vote of each node.
        votes: Vec<NodeVote>,
    },

    /// The lease ended while the body was running, and the body was stopped. What it did before stays done.
    #[error(
        "lock `{}` was lost after {elapsed:.1?}: {reason}{}",
        Visible(key.as_str()),
        Listed(votes)
    )]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: LockKey,
        /// How long it had been held.
        elapsed: Duration,
        /// How it ended.
        reason: Arc<str>,
        /// What the nodes said to the last renewal, where it was not renewed because of them.
        votes: Vec<NodeVote>,
    },

    /// This task holds the lock already, further up in the call, and would wait for itself.
    #[error(
        "lock `{}` is held by this task already, in the body of `{by}`, and would wait for itself",
        Visible(key.as_str())
    )]
    #[non_exhaustive]
    AlreadyHeld {
        /// The lock.
        key: LockKey,
        /// The name of the call that holds it.
        by: &'static str,
    },

    /// The key cannot be locked.
    #[error("lock key {} is not valid: {reason}", Shortened(key))]
    #[non_exhaustive]
    InvalidKey {
        /// The key.
        key: LockKey,
        /// What is wrong with it.
        reason: Arc<str>,
    },

    /// The TTL, or `hold_at_least`, cannot be kept.
    #[error("lock `{}` cannot be held like this: {reason}", Visible(key.as_str()))]
    #[non_exhaustive]
    InvalidTtl {
        /// The lock.
        key: LockKey,
        /// What is wrong with it.
        reason: Arc<str>,
    },

    /// The manager was [shut down](crate::LockManager::shutdown): this process is about to end.
    #[error("lock `{}` was not taken: the lock manager is shutting down", Visible(key.as_str()))]
    #[non_exhaustive]
    ShuttingDown {
        /// The lock.
        key: LockKey,
        /// How long this call has tried.
        elapsed: Duration,
    },

    /// No [`LockManager`](crate::LockManager) was installed, and `LOCK_NODES` does not name the nodes of one.
    #[error("no lock manager is configured: {reason}")]
    #[non_exhaustive]
    NotConfigured {
        /// What was looked for.
        reason: Arc<str>,
    },
}

impl LockError {
    /// Somebody else holds the lock: waiting, skipping or a 429 is the answer.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// The lock service cannot answer: a 503 is the answer, and somebody should look at it. Not so when this process is about
    /// to end, [`ShuttingDown`](Self::ShuttingDown), which nobody needs to look at.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::NoQuorum { .. } | Self::NotConfigured { .. })
    }

    /// The lock that was asked for, where the call came so far.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Busy { key, .. }
            | Self::NoQuorum { key, .. }
            | Self::Lost { key, .. }
            | Self::AlreadyHeld { key, .. }
            | Self::InvalidKey { key, .. }
            | Self::InvalidTtl { key, .. }
            | Self::ShuttingDown { key, .. } => Some(key.as_str()),
            Self::NotConfigured { .. } => None,
        }
    }

    /// How long the call had tried, or the lock had been held. Zero where nothing was tried.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match self {
            Self::Busy { elapsed, .. }
            | Self::NoQuorum { elapsed, .. }
            | Self::Lost { elapsed, .. }
            | Self::ShuttingDown { elapsed, .. } => *elapsed,
            Self::AlreadyHeld { .. }
            | Self::InvalidKey { .. }
            | Self::InvalidTtl { .. }
            | Self::NotConfigured { .. } => Duration::ZERO,
        }
    }

    /// When it is worth asking again, for a lock that is busy.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The last vote of each node, where nodes were asked.
    #[must_use]
    pub fn votes(&self) -> &[NodeVote] {
        match self {
            Self::Busy { votes, .. } | Self::NoQuorum { votes, .. } | Self::Lost { votes, .. } => {
                votes
            }
            _ => &[],
        }
    }
}

/// So that a guarded function may return `io::Result`.
impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        let kind = match error {
            LockError::Busy { .. } => io::ErrorKind::WouldBlock,
            LockError::Lost { .. } => io::ErrorKind::TimedOut,
            LockError::AlreadyHeld { .. } => io::ErrorKind::Deadlock,
            LockError::InvalidKey { .. } | LockError::InvalidTtl { .. } => {
                io::ErrorKind::InvalidInput
            }
            LockError::NoQuorum { .. }
            | LockError::NotConfigured { .. }
            | LockError::ShuttingDown { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Why a release could not be confirmed. The lease is over for its holder in every case.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had run out before it was released, and another owner may have held the lock since.
    #[error("lease on `{}` had expired before it was released", Visible(key.as_str()))]
    #[non_exhaustive]
    Expired {
        /// The lock.
        key: LockKey,
    },

    /// A majority of the nodes no longer had this owner's lock, although its lease had not run out.
    #[error(
        "lock `{}` was no longer ours when it was released{}",
        Visible(key.as_str()),
        Listed(votes)
    )]
    #[non_exhaustive]
    NotOwner {
        /// The lock.
        key: LockKey,
        /// What each node said.
        votes: Vec<NodeVote>,
    },

    /// Too few nodes confirmed in time. The release is repeated in the background until the lease has run out.
    #[error(
        "release of `{}` was not confirmed by a majority{}",
        Visible(key.as_str()),
        Listed(votes)
    )]
    #[non_exhaustive]
    Unreachable {
        /// The lock.
        key: LockKey,
        /// What each node said.
        votes: Vec<NodeVote>,
    },
}

/// Why a manager could not be built. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No node was named.
    #[error(
        "no node is configured: name one with `.node(\"redis://…\")`, or list them in LOCK_NODES, separated by commas"
    )]
    NoNodes,

    /// More nodes than the votes of one request can be counted for.
    #[error("{0} nodes are configured; {max} are the most, and five are usual", max = crate::node::Ledger::CAPACITY)]
    TooManyNodes(usize),

    /// A node cannot be understood or reached with what is compiled in.
    #[error("node {position} (`{node}`): {reason}")]
    #[non_exhaustive]
    Node {
        /// Its place in the list, from 1.
        position: usize,
        /// What was written, without user and password.
        node: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The same server is listed twice: its vote would count twice, and two clients could both have a majority.
    #[error("node {position} (`{node}`) is listed twice: its vote would count twice")]
    #[non_exhaustive]
    DuplicateNode {
        /// The place of the second one, from 1.
        position: usize,
        /// The server.
        node: String,
    },

    /// A number is out of range.
    #[error("{0}")]
    OutOfRange(String),

    /// The operating system gave no thread for the manager to work on.
    #[error("no thread could be started for the lock manager: {0}")]
    Thread(String),
}

/// [`install`](crate::install) was called although a manager was installed already, or had been made from `LOCK_NODES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lock manager is installed already: call install() once, before the first guarded call")]
pub struct AlreadyInstalled;

/// When a lock that is busy ends, as part of a sentence.
pub(crate) struct Ends(pub(crate) Duration, pub(crate) bool);

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(left, never) = self;
        if *never {
            f.write_str("its key has no TTL: it was not written as a lock, and stays until somebody deletes it")
        } else {
            let left = Rounded(*left);
            write!(f, "its holder has at most {left} left unless it renews")
        }
    }
}

/// The beginning of a key that may be a payload by mistake.
struct Shortened<'a>(&'a LockKey);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 64;
        let key = self.0.as_str();
        match key.char_indices().nth(MOST) {
            Some((end, _)) => write!(f, "{:?}…", &key[..end]),
            None => write!(f, "{key:?}"),
        }
    }
}

/// Votes as the tail of a sentence.
pub(crate) struct Listed<'a>(pub(crate) &'a [NodeVote]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, vote) in self.0.iter().enumerate() {
            let separator = if position == 0 { ": " } else { "; " };
            write!(f, "{separator}{vote}")?;
        }
        Ok(())
    }
}

/// 429 with `Retry-After` for a busy lock, 503 for anything else: a lock that could not be asked for is never a reason
/// to go ahead. What it was is logged here, as the response does not say it.
#[cfg(feature = "axum")]
impl axum_core::response::IntoResponse for LockError {
    fn into_response(self) -> axum_core::response::Response {
        use crate::telemetry::Keyless;
        use http::{StatusCode, header};

        // The response says nothing of it, and nobody else may.
        match self {
            Self::Busy { .. } | Self::ShuttingDown { .. } => {
                tracing::debug!(error = %self, "answered for a lock");
            }
            _ => tracing::error!(error = %Keyless(&self), "answered for a lock"),
        }
        match self.retry_after() {
            Some(retry_after) => {
                let seconds = retry_after.as_millis().div_ceil(1000).max(1);
                (
                    StatusCode::TOO_MANY_REQUESTS,
                    [(header::RETRY_AFTER, seconds.to_string())],
                    "busy, try again\n",
                )
                    .into_response()
            }
            None => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the lock service is not available\n",
            )
                .into_response(),
        }
    }
}
