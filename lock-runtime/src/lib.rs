//! Distributed locks for async Rust: [`distributed_lock`](macro@distributed_lock) on a function, [`LockManager`] under it.

#[cfg(feature = "macros")]
pub use lock_macros::distributed_lock;

pub use config::{LockManagerBuilder, NodeSpec, memory};
pub use error::{AlreadyInstalled, ConfigError, LockError, NodeVote, ReleaseError, Vote};
pub use global::{install, installed};
pub use guarded::assert_held;
pub use key::LockKey;
pub use lease::Lease;
pub use manager::LockManager;
pub use request::LockRequest;
pub use telemetry::Stats;

mod backoff;
mod config;
mod error;
mod executor;
mod fallback;
mod global;
mod guarded;
mod key;
mod lease;
mod manager;
mod node;
mod redlock;
mod request;
mod telemetry;
mod wait;

/// For the expansion of the attribute only: it may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use ::core;
    pub use ::std;
    pub use ::std::format;
    pub use ::std::time::Duration;

    pub use crate::fallback::{busy_or, fail, skip};
    pub use crate::guarded::{Guard, Keys};
    pub use crate::key::LockKey;
    pub use crate::manager::LockManager;
}
