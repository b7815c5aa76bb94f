//! Milliseconds from the start, as a client counts them.

use std::time::Duration;

use tokio::time::Instant;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
}

impl Clock {
    /// The start is now.
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    pub(super) fn now(self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.started);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn at(self, millis: u64) -> Instant {
        self.started + Duration::from_millis(millis)
    }
}
