//! How large a run is.

use std::path::PathBuf;
use std::time::Duration;

/// The product that the example knows; there is little of it, and it is sold out before the end.
pub(crate) const SCARCE: i64 = 9921;
pub(crate) const SCARCE_PIECES: u32 = 10;

/// Of each other product: more than a load can sell.
pub(crate) const PIECES: u32 = 1_000_000;

/// The TTL in the example: so long the locks of a process outlive it.
pub(crate) const TTL: Duration = Duration::from_secs(5);

/// The manager's in the example, which is the default: so long a node that was restarted has no vote.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) vus: u32,
    /// How long all customers are there.
    pub(crate) hold: Duration,
    pub(crate) products: u32,
    pub(crate) chaos: bool,
    /// The services lock nobody but themselves.
    pub(crate) without_locks: bool,
    /// Where the report goes.
    pub(crate) to: PathBuf,
}

impl Setting {
    /// From none to all customers, and back.
    pub(crate) fn ramp(&self) -> Duration {
        (self.hold / 8).clamp(Duration::from_secs(1), Duration::from_secs(30))
    }

    pub(crate) fn whole(&self) -> Duration {
        2 * self.ramp() + self.hold
    }
}
