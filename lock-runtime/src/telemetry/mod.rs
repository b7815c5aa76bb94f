//! What an operator sees of the locks.
//!
//! The rest of the library says here what happened, in its own words: what that is called elsewhere, and whether anybody
//! wants to know, stands nowhere else. Without the feature `metrics` what is said to a recorder is nothing at all.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "without_metrics.rs"]
mod metrics;
mod stats;
mod words;

pub use stats::Stats;

pub(crate) use metrics::{
    Call, Described, NodeMeter, attempted, handed_over, held, lost, release_failed, renewed, watch,
};
pub(crate) use stats::Counters;
pub(crate) use words::{Attempted, NodeState, Outcome, Renewal};
