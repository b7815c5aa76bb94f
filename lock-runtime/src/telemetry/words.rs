//! What can be said. Each of these is a closed set, as every word of it becomes a series of its own for each name or node.

use crate::error::LockError;

/// How a call ended that wanted a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired,
    Busy,
    NoQuorum,
    /// It was not tried, or is not tried any more: what was asked for cannot be had, or the manager shuts down.
    Refused,
    /// Its caller went away.
    Cancelled,
}

impl Outcome {
    pub(crate) fn of<T>(taken: &Result<T, LockError>) -> Self {
        match taken {
            Ok(_) => Self::Acquired,
            Err(LockError::Busy { .. }) => Self::Busy,
            Err(LockError::NoQuorum { .. }) => Self::NoQuorum,
            Err(_) => Self::Refused,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Busy => "busy",
            Self::NoQuorum => "no_quorum",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What the nodes said to one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempted {
    Granted,
    Busy,
    /// Enough of them answered, and nobody got a majority until the attempt was given up.
    Split,
    Failed,
}

impl Attempted {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 4] = [Self::Granted, Self::Busy, Self::Split, Self::Failed];
}

/// What came of one renewal of one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    /// Too few answers to tell. It is asked again while time is left.
    Inconclusive,
    Lost,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeState {
    /// It is connected, and owes no answer.
    pub(crate) up: bool,
    /// And its vote counts.
    pub(crate) votes: bool,
}
