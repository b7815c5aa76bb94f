//! How a hold ends.

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Lost(Loss),
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It was not renewed in time, or was not to be.
    Expired,
    /// `max_hold` is over.
    HeldTooLong,
    /// Somebody else has the lock on a majority.
    Taken,
    /// Whatever renewed it has ended.
    NobodyRenews,
    /// The manager was shut down, and has waited long enough.
    ShutDown,
}

impl Loss {
    /// For an operator.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::HeldTooLong => "max_hold",
            Self::Taken => "taken",
            Self::NobodyRenews => "renewer",
            Self::ShutDown => "shutdown",
        }
    }
}
