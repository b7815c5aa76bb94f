//! `distributed-lock-redis`. It says at once that a lock is busy, also when it is given time to wait; so its caller tries
//! again.

use std::sync::Arc;

use distributed_lock_core::prelude::*;
use distributed_lock_redis::RedisLockProvider;

use super::{Held, Locker, Reply, pause};

/// Its provider with its defaults: 30 s, renewed every 10 s.
#[derive(Clone)]
pub(super) struct DistributedLockRedis(Arc<RedisLockProvider>);

impl DistributedLockRedis {
    pub(super) async fn connect(urls: &[String]) -> Self {
        let provider = RedisLockProvider::builder().urls(urls).build().await;
        Self(Arc::new(provider.expect("all nodes are up")))
    }
}

impl Locker for DistributedLockRedis {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        let Self(provider) = self.clone();
        Box::pin(async move {
            let lock = provider.create_lock(&key);
            let handle = lock.try_acquire().await;
            let handle = handle.map_err(|error| error.to_string())?;
            Ok(handle.map(|handle| {
                Held::new(
                    || async move { handle.release().await.map_err(|error| error.to_string()) },
                )
            }))
        })
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let again = self.clone();
        Box::pin(async move {
            loop {
                if let Some(held) = again.ask(key.clone()).await? {
                    return Ok(held);
                }
                tokio::time::sleep(pause()).await;
            }
        })
    }
}
