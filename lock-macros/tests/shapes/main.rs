//! Functions of every shape expand without a warning, run with their lock held, and give back what they did without.
#![deny(warnings, clippy::all, clippy::pedantic)]
// The shapes are what is tested, and some are not how one would write them.
#![allow(
    clippy::expect_used,
    clippy::items_after_statements,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::toplevel_ref_arg,
    clippy::unused_async
)]

mod attributes;
mod futures;
mod generics;
mod keys;
mod leases;
mod macro_made;
mod parameters;
mod receivers;
mod returns;
mod sizes;

use lock_runtime::{LockError, LockManager, assert_held};

type Outcome<T> = Result<T, LockError>;

fn locks() -> LockManager {
    LockManager::in_memory()
}

/// For a body: the lock is held, and under this key.
#[track_caller]
fn holds(key: &str) {
    assert_held();
    assert_eq!(lock_runtime::__private::running_lease().key(), key);
}
