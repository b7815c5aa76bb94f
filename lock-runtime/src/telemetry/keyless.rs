//! Errors in words without their keys, as they are logged above debug level: a key may be somebody's name or account.

use std::fmt;

use crate::error::{Ends, Listed, LockError, ReleaseError};

/// See the [module](self).
pub(crate) struct Keyless<'a, E>(pub(crate) &'a E);

impl fmt::Display for Keyless<'_, LockError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LockError::Busy {
                elapsed,
                retry_after,
                never_expires,
                ..
            } => write!(
                f,
                "busy (tried for {elapsed:.1?}; {})",
                Ends(*retry_after, *never_expires)
            ),
            LockError::NoQuorum {
                elapsed,
                reason,
                votes,
                ..
            } => write!(
                f,
                "no quorum after {elapsed:.1?}: {reason}{}",
                Listed(votes)
            ),
            LockError::Lost {
                elapsed,
                reason,
                votes,
                ..
            } => write!(f, "lost after {elapsed:.1?}: {reason}{}", Listed(votes)),
            LockError::AlreadyHeld { by, .. } => write!(
                f,
                "held by this task already, in the body of `{by}`, and would wait for itself"
            ),
            LockError::InvalidKey { reason, .. } => write!(f, "the key is not valid: {reason}"),
            LockError::InvalidTtl { reason, .. } => {
                write!(f, "it cannot be held like this: {reason}")
            }
            LockError::ShuttingDown { .. } => {
                f.write_str("not taken: the lock manager is shutting down")
            }
            error @ LockError::NotConfigured { .. } => error.fmt(f),
        }
    }
}

impl fmt::Display for Keyless<'_, ReleaseError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ReleaseError::Expired { .. } => f.write_str("it had expired before it was released"),
            ReleaseError::NotOwner { votes, .. } => {
                write!(f, "it was no longer ours{}", Listed(votes))
            }
            ReleaseError::Unreachable { votes, .. } => {
                write!(f, "not confirmed by a majority{}", Listed(votes))
            }
        }
    }
}
