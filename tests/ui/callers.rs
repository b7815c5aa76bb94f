//! A function whose attribute is wrong is still there for the rest of the crate: one message for each mistake here, and
//! one for the call that does not fit.
#![deny(warnings)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = )]
async fn half_typed_key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{id}", ttl = 8)]
async fn only_the_key_needs_it(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:{}", ttl = "8s", lease = lease, fenced = true)]
async fn lease_in_body() -> Result<u64, LockError> {
    Ok(lease.fence())
}

#[distributed_lock(key = "order:{id", ttl = "8s")]
async fn unclosed(id: u64) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn returns_nothing() {}

struct Shop;

impl Shop {
    #[distributed_lock(key = "order", ttl = "8s", retries = 3)]
    async fn unknown_argument(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[distributed_lock(key = "order", ttl = "8s")]
    fn not_async(&self, id: u64) -> u64 {
        id
    }
}

async fn calls() -> Result<(), LockError> {
    let id: u64 = half_typed_key(1).await?;
    only_the_key_needs_it(id).await?;
    let fence: u64 = lease_in_body().await?;
    unclosed(fence).await?;
    returns_nothing().await;
    let id: u64 = Shop.unknown_argument(Shop.not_async(2)).await?;
    half_typed_key("three").await?;
    drop(id);
    Ok(())
}

fn main() {
    drop(calls());
}
