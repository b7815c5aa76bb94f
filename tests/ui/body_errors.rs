//! Errors in the body point at the body.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
async fn wrong_tail() -> Result<u8, LockError> {
    "eight"
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn no_tail() -> Result<u8, LockError> {
    let _eight = 8;
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn wrong_return(early: bool) -> Result<u8, LockError> {
    if early {
        return 8;
    }
    Ok(8)
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn question_mark() -> Result<u8, LockError> {
    Ok("8".parse::<u8>()?)
}

#[distributed_lock(key = "order", ttl = "8s", on_busy = skip)]
async fn not_unit() {
    8
}

struct Order {
    id: String,
}

#[distributed_lock(key = "order:{order.id}", ttl = "8s")]
async fn moved(order: Order) -> Result<String, LockError> {
    drop(order);
    Ok(order.id)
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn no_await(id: String) -> Result<String, LockError> {
    moved(Order { id })
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn unknown_name(id: u64) -> Result<u64, LockError> {
    Ok(idd)
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn not_mutable(id: String) -> Result<String, LockError> {
    id.push('8');
    Ok(id)
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn too_short(id: &str) -> Result<&'static str, LockError> {
    Ok(id)
}

fn main() {}
