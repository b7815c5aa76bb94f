//! A lease that the body does not look at is an unused variable, unless its name says so.
#![deny(warnings)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", lease = lease)]
async fn unused() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", lease = _lease)]
async fn on_purpose() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    drop(unused());
    drop(on_purpose());
}
