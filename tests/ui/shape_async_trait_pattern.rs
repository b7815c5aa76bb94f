//! `#[async_trait]` gives a parameter that is a pattern another name, before the key is made: what the pattern binds is not there.
use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

#[async_trait]
trait Till {
    async fn pay(&self, order: (u64, u64)) -> Result<u64, LockError>;
}

struct Shop;

#[async_trait]
impl Till for Shop {
    #[distributed_lock(key = "order:{id}", ttl = "8s")]
    async fn pay(&self, (id, amount): (u64, u64)) -> Result<u64, LockError> {
        Ok(id + amount)
    }
}

fn main() {}
