//! One error for anything that is not a function, which stays as it is.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
struct Order;

#[distributed_lock(key = "order", ttl = "8s")]
impl Order {
    async fn pay(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "order", ttl = "8s")]
mod orders {}

#[distributed_lock(key = "order", ttl = "8s")]
trait Payment {}

#[distributed_lock(key = "order", ttl = "8s")]
const RETRIES: u8 = 8;

trait Job {
    #[distributed_lock(key = "order", ttl = "8s")]
    async fn run(&self) -> Result<(), LockError>;
}

fn main() {
    let _ = Order.pay();
}
