//! Keys that cannot be shown, and expressions that cannot be keys.
use lock_runtime::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:{order}", ttl = "8s")]
async fn not_display(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = order, ttl = "8s")]
async fn not_a_key(order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
