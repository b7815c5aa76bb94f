//! What is borrowed from a lease does not outlive the body.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", lease = lease)]
async fn key() -> Result<&'static str, LockError> {
    Ok(lease.key())
}

fn main() {}
