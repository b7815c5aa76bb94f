//! An argument is written once, and `key` and `keys` exclude one another.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", key = "invoice", ttl = "9s")]
async fn repeated(key: u8) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", keys = ["invoice"], ttl = "8s")]
async fn key_and_keys() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
