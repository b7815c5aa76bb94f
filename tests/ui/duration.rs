//! Durations as text: every message says which units exist.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = 8)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8")]
async fn no_unit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "0s")]
async fn zero() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "2ms")]
async fn shorter_than_the_drift() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "-1s")]
async fn negative() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8S", wait = "2 s", hold_at_least = "500us")]
async fn units() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "9999999999999999h", wait = -1, hold_at_least = true)]
async fn extremes() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
