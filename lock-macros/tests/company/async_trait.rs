//! Methods under `#[async_trait]`, which is written on the block and so has gone over it before.

use std::sync::Arc;

use async_trait::async_trait;
use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, holds};

#[async_trait]
trait Payments: Sync {
    async fn pay(&self, id: u64, note: &str) -> Outcome<String>;

    async fn change(&mut self, by: u64) -> Outcome<u64>;

    async fn end(self: Arc<Self>) -> Outcome<u64>;

    fn locks(&self) -> &LockManager;

    #[distributed_lock(key = "default:{id}", ttl = "8s", manager = self.locks())]
    async fn by_default(&self, id: u64) -> Outcome<u64> {
        holds("default:7");
        Ok(id)
    }
}

struct Shop {
    region: String,
    count: u64,
    locks: LockManager,
}

fn shop() -> Shop {
    Shop {
        region: "eu".to_owned(),
        count: 1,
        locks: LockManager::in_memory(),
    }
}

#[async_trait]
impl Payments for Shop {
    #[distributed_lock(key = "{self.region}:{id}", ttl = "8s", lease = lease, manager = self.locks)]
    async fn pay(&self, id: u64, note: &str) -> Outcome<String> {
        tokio::task::yield_now().await;
        holds("eu:7");
        if note.is_empty() {
            return Ok(String::new());
        }
        Ok(format!("{note} under {}", lease.key()))
    }

    #[distributed_lock(key = "{self.region}", ttl = "8s", manager = self.locks)]
    async fn change(&mut self, by: u64) -> Outcome<u64> {
        holds("eu");
        self.count += by;
        Ok(self.count)
    }

    #[distributed_lock(key = "{self.region}", ttl = "8s", manager = self.locks)]
    async fn end(self: Arc<Self>) -> Outcome<u64> {
        holds("eu");
        Ok(self.count)
    }

    fn locks(&self) -> &LockManager {
        &self.locks
    }
}

#[tokio::test]
async fn methods() -> Outcome<()> {
    let mut shop = shop();
    assert_eq!(shop.pay(7, "a").await?, "a under eu:7");
    assert_eq!(shop.pay(7, "").await?, "");
    assert_eq!(shop.change(2).await?, 3);
    assert_eq!(shop.locks.stats().acquired, 3);
    assert_eq!(Arc::new(shop).end().await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_default_body_and_a_trait_object() -> Outcome<()> {
    let shop: Arc<dyn Payments + Send> = Arc::new(shop());
    assert_eq!(shop.by_default(7).await?, 7);
    let spawned = tokio::spawn(async move { shop.pay(7, "b").await });
    let paid = spawned.await.expect("it does not panic")?;
    assert_eq!(paid, "b under eu:7");
    Ok(())
}

#[async_trait(?Send)]
trait Local {
    async fn count(&self, of: std::rc::Rc<u8>) -> Outcome<u8>;
}

#[async_trait(?Send)]
impl Local for Shop {
    #[distributed_lock(key = "{of}", ttl = "8s", manager = self.locks)]
    async fn count(&self, of: std::rc::Rc<u8>) -> Outcome<u8> {
        tokio::task::yield_now().await;
        holds("8");
        Ok(*of)
    }
}

#[tokio::test]
async fn not_send() -> Outcome<()> {
    assert_eq!(shop().count(8.into()).await?, 8);
    Ok(())
}

#[async_trait]
trait Generic<T> {
    async fn first<'a>(&self, of: &'a [T]) -> Outcome<Option<&'a T>>
    where
        T: Sync;
}

#[async_trait]
impl<T: std::fmt::Debug> Generic<T> for Shop {
    #[distributed_lock(key = "{of:?}", ttl = "8s", on_busy = skip, manager = self.locks)]
    async fn first<'a>(&self, of: &'a [T]) -> Outcome<Option<&'a T>>
    where
        T: Sync,
    {
        holds("[8, 9]");
        Ok(of.first())
    }
}

#[tokio::test]
async fn generic_methods() -> Outcome<()> {
    assert_eq!(shop().first(&[8, 9]).await?, Some(&8));
    Ok(())
}
