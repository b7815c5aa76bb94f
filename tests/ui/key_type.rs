//! Keys that cannot be shown, and expressions that cannot be keys.
use lock_runtime::{LockError, distributed_lock};

struct Order {
    id: u64,
    buyer: Buyer,
}

struct Buyer;

#[distributed_lock(key = "order:{order}", ttl = "8s")]
async fn not_display(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = "order:{order.id}:{order.buyer}", ttl = "8s")]
async fn a_part_is_not_display(order: Order) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = order, ttl = "8s")]
async fn not_a_key(order: Order) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(keys = ["stock", order], ttl = "8s")]
async fn one_is_not_a_key(order: Order) -> Result<Buyer, LockError> {
    Ok(order.buyer)
}

#[distributed_lock(key = 8.5, ttl = "8s")]
async fn not_a_whole_number() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
