//! A lease has a name of its own.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", lease = "lease")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", lease = _)]
async fn no_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{order}", ttl = "8s", lease = order)]
async fn name_of_a_parameter(order: u64) -> Result<u64, LockError> {
    Ok(order)
}

fn main() {}
