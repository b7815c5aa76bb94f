//! `rslock`.

use std::time::Duration;

use rslock::{Lock, LockError, LockManager};

use super::{Held, Locker, PAUSE, Reply, TTL};

/// Its manager as it comes, and one that tries once. Both have the same connections.
pub(super) struct Rslock {
    locks: LockManager,
    once: LockManager,
}

impl Rslock {
    pub(super) fn new(urls: &[String]) -> Self {
        let locks = LockManager::new(urls.to_vec());
        let mut once = locks.clone();
        // It chooses a pause below this and panics at zero; after the last try there is none.
        once.set_retry(1, Duration::from_millis(1));
        Self { locks, once }
    }

    pub(super) fn quick(mut self) -> Self {
        self.locks.set_retry(u32::MAX, PAUSE);
        self
    }
}

impl Locker for Rslock {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        lock(self.locks.clone(), key)
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let locks = self.locks.clone();
        Box::pin(async move {
            let guard = locks.acquire(key.as_str(), TTL).await;
            guard
                .map(|guard| held(guard.lock))
                .map_err(|error| error.to_string())
        })
    }

    fn try_once(&self, key: String) -> Reply<Option<Held>> {
        lock(self.once.clone(), key)
    }
}

fn lock(locks: LockManager, key: String) -> Reply<Option<Held>> {
    Box::pin(async move {
        match locks.lock(key.as_str(), TTL).await {
            Ok(lock) => Ok(Some(held(lock))),
            // Said of a lock that is busy and of nodes that do not answer.
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    })
}

fn held(lock: Lock) -> Held {
    Held::new(|| async move {
        lock.release().await;
        Ok(())
    })
}
