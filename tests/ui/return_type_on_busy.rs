//! What `on_busy` gives must be the return type, and an outage must have a place in it too.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", on_busy = "later")]
async fn value() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", on_busy = |busy| busy.to_string())]
async fn closure() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", on_busy = 0)]
async fn no_place_for_an_outage() -> u8 {
    8
}

fn main() {}
