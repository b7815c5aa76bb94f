//! An expression for a flag is underlined when it is not a `bool`.
use lock_runtime::{LockError, distributed_lock};

const EXTEND: u8 = 1;

#[distributed_lock(key = "order", ttl = "8s", extend = EXTEND)]
async fn extend() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", fenced = fenced)]
async fn fence(fenced: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
