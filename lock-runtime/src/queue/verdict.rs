//! What is known of a lock that is not to be had: found out once, and told to all who wanted to know.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{LockError, NodeVote};
use crate::key::LockKey;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Busy {
        key: LockKey,
        /// As far as is known.
        retry_after: Option<Duration>,
        never_expires: bool,
        votes: Vec<NodeVote>,
    },
    NoQuorum {
        key: LockKey,
        reason: Arc<str>,
        votes: Vec<NodeVote>,
    },
    ShuttingDown,
}

impl Verdict {
    /// Somebody in this process has it, for so long, or is asking for it. The nodes were not asked.
    pub(super) fn held_here(key: &LockKey, left: Option<Duration>) -> Self {
        Self::Busy {
            key: key.clone(),
            retry_after: left,
            never_expires: false,
            votes: Vec::new(),
        }
    }

    /// What has to run for it does not.
    pub(crate) fn nothing_works(key: &LockKey) -> Self {
        Self::NoQuorum {
            key: key.clone(),
            reason: "the thread or runtime of the lock manager has ended, or has no timer".into(),
            votes: Vec::new(),
        }
    }

    /// In the words of a caller who wanted `wanted` for such a TTL, and has tried for so long.
    pub(crate) fn into_error(
        self,
        wanted: &LockKey,
        ttl: Duration,
        elapsed: Duration,
    ) -> LockError {
        match self {
            Self::Busy {
                key,
                retry_after,
                never_expires,
                votes,
            } => LockError::Busy {
                key,
                elapsed,
                retry_after: retry_after.unwrap_or(ttl),
                never_expires,
                votes,
            },
            Self::NoQuorum { key, reason, votes } => LockError::NoQuorum {
                key,
                elapsed,
                reason,
                votes,
            },
            Self::ShuttingDown => LockError::ShuttingDown {
                key: wanted.clone(),
                elapsed,
            },
        }
    }
}
