//! What becomes of a body whose lease is lost is one of two words.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", on_lost = stop)]
async fn unknown_word() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", on_lost = "continue")]
async fn text() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
