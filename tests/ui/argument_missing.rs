//! `key` and `ttl` are required; both are reported at once.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock]
async fn nothing() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order")]
async fn no_ttl() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(ttl = "8s", wait = "1s")]
async fn no_key() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
