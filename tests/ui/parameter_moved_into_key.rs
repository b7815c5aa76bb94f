//! A key that takes a parameter away: the body cannot use it any more.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = id, ttl = "8s")]
async fn moved(id: String) -> Result<String, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", ttl = "8s", on_busy = |_| Ok(id))]
async fn gone_when_busy(id: String) -> Result<String, LockError> {
    Ok(id)
}

fn main() {}
