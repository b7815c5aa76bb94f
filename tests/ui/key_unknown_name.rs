//! A name that is not there: the compiler's own message, inside the literal where it can be.
use lock_runtime::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{idd}", ttl = "8s")]
async fn parameter(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{order.idd}", ttl = "8s")]
async fn field(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = "order:{ordr.id}", ttl = "8s")]
async fn root(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = "order:{order.number()}", ttl = "8s")]
async fn method(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

fn main() {}
