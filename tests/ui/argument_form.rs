//! `name = value`, separated by commas.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock("order", ttl = "8s")]
async fn no_name() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key("order"), ttl = "8s")]
async fn parentheses() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key: "order", ttl == "8s", wait => "2s")]
async fn other_signs() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = , ttl = )]
async fn no_values() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order" ttl = "8s")]
async fn no_comma() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", on_busy, lease = )]
async fn half_typed() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", wait = *)]
async fn not_an_expression() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", name = "", crate = "lock_runtime")]
async fn name_and_crate() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock("order:{id}", "order", "8s")]
async fn no_names(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = order:{id}, ttl = 8s)]
async fn no_quotes(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
