//! Templates that cannot be read.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "", ttl = "8s")]
async fn empty() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "  ", ttl = "8s")]
async fn blank() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{}", ttl = "8s")]
async fn no_name(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{0}", ttl = "8s")]
async fn position(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id", ttl = "8s")]
async fn unclosed(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:id}", ttl = "8s")]
async fn unopened(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id:5d}", ttl = "8s")]
async fn spec(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id + 1}", ttl = "8s")]
async fn expression(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["", "order:{id}", "{}"], ttl = "8s")]
async fn in_a_list(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = [], ttl = "8s")]
async fn no_keys() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = "order", ttl = "8s")]
async fn not_a_list() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["order:{id}".to_string(), concat!("order:", "{id}")], ttl = "8s")]
async fn no_templates(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "{id + 1}:{next(id)}", ttl = "8s")]
async fn two_expressions(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
