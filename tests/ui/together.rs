//! Arguments that contradict one another, where both are known when compiling.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "30s", max_hold = "10s")]
async fn shorter_than_the_ttl() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "30s", max_hold = "1h", extend = false)]
async fn never_reached() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "30s", max_hold = "1m", hold_at_least = "2m")]
async fn kept_for_longer_than_it_may_be() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
