//! What the compiler has to say about a guarded function it says: if this crate were clean, the check would be none.

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
async fn forgotten() -> Result<(), LockError> {
    Ok(())
}

/// A shop.
#[derive(Debug)]
pub struct Shop;

impl Shop {
    #[distributed_lock(key = "order", ttl = "8s")]
    async fn forgotten_too(&self) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
pub async fn undocumented(id: u64, unused: u64, mut unchanged: u64) -> Result<u64, LockError> {
    std::future::ready(id).await;
    Ok(unchanged)
}
