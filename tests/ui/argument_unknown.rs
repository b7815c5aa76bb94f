//! An unknown argument is underlined, with what was meant or else with the list of those that exist.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", timeout = "2s", retries = 3)]
async fn unknown() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(kye = "order", TTL = "8s", hold_atleast = "2s")]
async fn misspelt() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
