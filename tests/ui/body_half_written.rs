//! A body that does not parse is one message, and its function can still be called.
use lock_runtime::{LockError, distributed_lock};

struct Shop {
    open: bool,
}

impl Shop {
    #[distributed_lock(key = "shop", ttl = "8s")]
    async fn half_a_field(&self) -> Result<bool, LockError> {
        let open = self.;
        Ok(open)
    }

    #[distributed_lock(key = "shop", ttl = "8s")]
    async fn half_a_method(&mut self, id: u64) -> Result<u64, LockError> {
        self.open = true;
        self.
    }

    #[distributed_lock(key = "shop:{id", ttl = 8)]
    async fn half_of_everything(&self, id: u64) -> Result<u64, LockError> {
        if let Some(q) = self.
    }
}

async fn calls(shop: &mut Shop) -> Result<(), LockError> {
    let open: bool = shop.half_a_field().await?;
    let id: u64 = shop.half_a_method(1).await?;
    let id: u64 = shop.half_of_everything(id).await?;
    drop((open, id));
    Ok(())
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn a_binding(id: u64) -> Result<u64, LockError> {
    let next = id + 1
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn a_condition(id: u64) -> Result<u64, LockError> {
    if id == 0
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn a_sum(id: u64) -> Result<u64, LockError> {
    id +
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn a_cast(id: u64) -> Result<u64, LockError> {
    id as
}

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn an_attribute(id: u64) -> Result<u64, LockError> {
    #[allow(unused)]
}

fn main() {
    drop(calls(&mut Shop { open: true }));
}
