//! A flag is `true`, `false` or an expression of the type `bool`.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", extend = "10s")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", lease = lease, fenced = 1)]
async fn number() -> Result<u64, LockError> {
    Ok(lease.fence())
}

fn main() {}
