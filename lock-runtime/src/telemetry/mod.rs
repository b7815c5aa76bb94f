//! What an operator sees of the locks.
//!
//! The rest of the library says here what happened, in its own words: what that is called elsewhere, and whether anybody
//! wants to know, stands nowhere else. Without the feature `metrics` what is said to a recorder is nothing at all.

mod keyless;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "without_metrics.rs"]
mod metrics;
mod span;
mod stats;
mod words;

pub use stats::Stats;

pub(crate) use keyless::Keyless;
pub(crate) use metrics::{Meters, Named, NodeMeter, attempted, refused, watch};
pub(crate) use span::CallSpan;
pub(crate) use stats::Counters;
pub(crate) use words::{Attempted, NodeState, Outcome, Renewal};
