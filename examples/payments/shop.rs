//! Selling: read, wait, write. Only right while nobody else does the same, which is what the lock is for.

use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;

use crate::store::Store;

/// Sells what the store has.
pub(crate) struct Shop {
    pub(crate) locks: LockManager,
    pub(crate) store: Store,
}

/// Why nothing was sold.
#[derive(Debug)]
pub(crate) enum Refusal {
    NoSuchProduct,
    SoldOut,
    Lock(LockError),
    Database(sqlx::Error),
}

impl Shop {
    /// Sells one piece, and returns how many are left.
    ///
    /// Every statement stands alone, with no transaction and no row lock, and the pause is there for others to come in
    /// between. A real shop would rather let the database do what a database can; the lock is for what reaches further,
    /// such as the payment provider that the pause stands for.
    #[distributed_lock(
        key = "product:{product_id}",
        ttl = "5s",
        wait = "2s",
        manager = self.locks
    )]
    pub(crate) async fn checkout(&self, product_id: i64, user_id: i64) -> Result<i64, Refusal> {
        let stock = self.store.stock(product_id).await?;
        let stock = stock.ok_or(Refusal::NoSuchProduct)?;
        if stock <= 0 {
            return Err(Refusal::SoldOut);
        }
        sleep(Duration::from_millis(20)).await;
        let left = stock - 1;
        self.store.write_stock(product_id, left).await?;
        self.store.write_sale(product_id, user_id, left).await?;
        Ok(left)
    }
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}
