//! The longest hold is a duration, not shorter than the TTL where both are known when compiling.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "30s", max_hold = "10s")]
async fn shorter_than_the_ttl() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "30s", max_hold = 60)]
async fn without_a_unit() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "30s", max_hold = seconds)]
async fn not_a_duration(seconds: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
