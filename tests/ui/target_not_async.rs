//! A function that is not async, and has no future to guard either.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
fn plain() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s")]
const fn constant() -> u8 {
    8
}

#[distributed_lock(key = "order", ttl = "8s")]
fn pair() -> (impl Future<Output = Result<(), LockError>>, u8) {
    (async { Ok(()) }, 8)
}

fn main() {
    plain().ok();
    let _ = (constant(), pair());
}
