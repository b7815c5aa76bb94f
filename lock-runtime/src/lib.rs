//! Distributed locks for async Rust, on independent Redis nodes.
//!
//! `#[distributed_lock]` on an async function makes its body run while the caller holds a lock that every replica of the
//! service respects:
//!
//! ```
//! use lock_runtime::{LockError, LockManager, distributed_lock, install};
//!
//! #[distributed_lock(key = "order:{id}", ttl = "8s", wait = "2s")]
//! async fn pay(id: u64) -> Result<u64, LockError> {
//!     Ok(id)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a service: a manager of its nodes, from `LockManager::builder()`, or none and `LOCK_NODES` set.
//! install(LockManager::in_memory())?;
//! assert_eq!(pay(7).await?, 7);
//! # Ok(()) }
//! ```
//!
//! - [`LockManager`] holds the nodes; [`LockManager::lock`] asks for a lock without the attribute.
//! - [`Lease`] is a lock that is held. [`LockError`] says why it is not.
//! - [`LockManager::check`] looks at the nodes, and says what to change about them;
//!   [`LockManager::inspect`] at who has a lock, and [`LockManager::force_release`] takes it from him.
//! - [`assert_held`] is for functions that must never run unguarded.
//!
//! The README says what is promised and what is not, and how to run the nodes.
//!
//! # Features
//!
//! - `macros` (default): the attribute.
//! - `axum`: [`LockError`] is a response, 429 with `Retry-After` or 503.
//! - `metrics`: what is measured goes to the recorder that the service installs for the `metrics` facade.
//! - `tls`: nodes behind TLS, `rediss://`, and the type `Tls` for certificates of one's own.

#[cfg(feature = "macros")]
pub use lock_macros::distributed_lock;

pub use check::{DownCause, Finding, FindingKind, Report, ServerReport, ServerState, Severity};
pub use config::{LockManagerBuilder, NodeSpec, memory};
pub use error::{AlreadyInstalled, ConfigError, LockError, NodeVote, ReleaseError, Vote};
pub use global::{install, installed};
pub use guarded::assert_held;
pub use key::LockKey;
pub use lease::Lease;
pub use manager::LockManager;
#[cfg(feature = "tls")]
pub use node::tls::Tls;
pub use operator::{
    ForceRelease, Holding, Inspection, LockOwner, NodeInspection, NodeRelease, Verdict,
};
pub use request::{LockRequest, OnLost};
pub use shutdown::Shutdown;
pub use telemetry::Stats;

mod backoff;
mod check;
mod clock;
mod config;
mod error;
mod executor;
/// For the expansion of the attribute only, as `__private` is; here because messages name the traits by their path.
#[doc(hidden)]
pub mod fallback;
mod global;
mod guarded;
mod hold;
mod key;
mod lease;
mod manager;
mod node;
mod operator;
mod queue;
mod redlock;
mod request;
mod running;
mod shown;
mod shutdown;
#[cfg(test)]
mod simulation;
mod table;
mod telemetry;
mod wait;

/// For the expansion of the attribute and for our own tests only: it may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use ::core;
    pub use ::core::option::Option::{None, Some};
    pub use ::core::pin::pin;
    pub use ::core::result::Result::{Err, Ok};
    pub use ::core::{concat, module_path};
    pub use ::std;
    pub use ::std::format;
    pub use ::std::time::Duration;

    pub use crate::guarded::{Guard, Keys, running_lease};
    pub use crate::key::IntoKey;
    pub use crate::manager::LockManager;

    /// How many tasks are at work for a manager: one for each connection, one that renews while something is held and until
    /// it would have been due, and one for each request that is not over.
    #[must_use]
    pub fn tasks(manager: &LockManager) -> usize {
        manager.core.redlock.executor.tasks()
    }
}
