//! A fencing token is read from the lease, so it needs one.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", fenced = true)]
async fn out_of_reach() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
