//! An expression for a duration is underlined when it is not a `Duration`.
use lock_runtime::{LockError, distributed_lock};

const TTL: u64 = 8;

#[distributed_lock(key = "order", ttl = TTL)]
async fn not_a_duration() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", max_hold = seconds)]
async fn seconds(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
