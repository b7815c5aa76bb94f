//! A lifetime that cannot be elided: the compiler's own message and suggestion, once.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "{one}:{other}", ttl = "8s")]
async fn longer(one: &str, other: &str) -> Result<&str, LockError> {
    Ok(if one.len() > other.len() { one } else { other })
}

fn main() {}
