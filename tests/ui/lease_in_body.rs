//! A lease can be looked at, in the body and for as long as that runs.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", lease = lease)]
async fn released_by_hand() -> Result<(), LockError> {
    drop(lease.release().await);
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", lease = lease, on_busy = Ok(lease.is_lost()))]
async fn outside_of_the_body() -> Result<bool, LockError> {
    Ok(lease.is_lost())
}

fn main() {}
