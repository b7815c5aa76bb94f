//! An unknown argument is underlined, with the list of those that exist.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", timeout = "2s", retries)]
async fn unknown() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
