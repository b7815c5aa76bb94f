//! `on_busy = skip` needs a value that means "skipped".
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", on_busy = skip)]
async fn number() -> u8 {
    8
}

#[distributed_lock(key = "order", ttl = "8s", on_busy = skip)]
async fn no_empty_value() -> Result<u8, LockError> {
    Ok(8)
}

fn main() {}
