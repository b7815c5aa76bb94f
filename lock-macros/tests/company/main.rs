//! The attribute next to those of others, in both orders where both can work.
#![deny(warnings, clippy::all, clippy::pedantic)]
#![allow(clippy::expect_used)]

mod async_trait;
mod axum;
mod instrument;
mod memoized;

use lock_runtime::{LockError, LockManager, assert_held};

type Outcome<T> = Result<T, LockError>;

/// For a body: the lock is held, and under this key.
#[track_caller]
fn holds(key: &str) {
    assert_held();
    assert_eq!(lock_runtime::__private::running_lease().key(), key);
}
