//! What is no `LockManager` is underlined.
use lock_runtime::{LockError, distributed_lock};

struct Service {
    locks: u8,
}

#[distributed_lock(key = "order", ttl = "8s", manager = 5)]
async fn number() -> Result<(), LockError> {
    Ok(())
}

impl Service {
    #[distributed_lock(key = "order", ttl = "8s", manager = self.locks)]
    async fn of_another_type(&self) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "order", ttl = "8s", manager = self.lock)]
    async fn unknown_field(&self) -> Result<u8, LockError> {
        Ok(self.locks)
    }
}

fn main() {}
