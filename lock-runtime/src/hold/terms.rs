//! What is to be held.

use std::time::Duration;

use crate::key::LockKey;
use crate::queue::Wants;
use crate::telemetry::Named;

/// How locks are to be held.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) named: Named,
    /// At least one; sorted, none twice. Taken in this order by everybody, so that nobody waits in a circle.
    pub(crate) keys: Vec<LockKey>,
    pub(crate) ttl: Duration,
    pub(crate) hold_at_least: Duration,
    pub(crate) extend: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) fenced: bool,
}

impl Terms {
    /// What is wanted of each lock.
    pub(crate) fn wants(&self) -> Wants {
        Wants {
            ttl: self.ttl,
            fenced: self.fenced,
            alone: self.keys.len() == 1,
        }
    }
}
