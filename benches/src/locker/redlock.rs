//! `redlock`, a blocking client: each call is on a thread of tokio's for such, as it must not be on one that runs tasks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock::{RedLock, RedLockGuard};

use super::{Held, Locker, Reply, TTL};

/// Its guard borrows the manager, so there is one for as long as the process lives.
pub(super) struct Redlock {
    locks: &'static RedLock,
    once: &'static RedLock,
    at_work: Arc<()>,
}

impl Redlock {
    pub(super) fn new(urls: &[String]) -> Self {
        let locks = RedLock::new(urls.to_vec());
        let mut once = locks.clone();
        // It chooses a pause below this and panics at zero.
        once.set_retry(1, 1);
        Self {
            locks: Box::leak(Box::new(locks)),
            once: Box::leak(Box::new(once)),
            at_work: Arc::default(),
        }
    }

    fn lock(&self, locks: &'static RedLock, key: String) -> Reply<Option<Held>> {
        let at_work = Arc::clone(&self.at_work);
        Box::pin(async move {
            let locking = tokio::task::spawn_blocking(move || {
                let ttl = usize::try_from(TTL.as_millis()).unwrap_or(usize::MAX);
                let lock = locks.lock(key.as_bytes(), ttl);
                // In the order in which they are dropped if nobody waits for the answer any more.
                lock.map(|lock| lock.map(|lock| (RedLockGuard { lock }, at_work)))
            });
            match locking.await.map_err(|error| error.to_string())? {
                Ok(guard) => Ok(guard.map(held)),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

fn held((guard, at_work): (RedLockGuard<'static>, Arc<()>)) -> Held {
    Held::new(|| async move {
        let releasing = tokio::task::spawn_blocking(move || {
            drop(guard);
            drop(at_work);
        });
        releasing.await.map_err(|error| error.to_string())
    })
}

impl Locker for Redlock {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        self.lock(self.locks, key)
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let lock = {
            let (locks, once, at_work) = (self.locks, self.once, Arc::clone(&self.at_work));
            let again = Self {
                locks,
                once,
                at_work,
            };
            move || again.ask(key.clone())
        };
        // As its documentation has it: again until it is there.
        Box::pin(async move {
            loop {
                if let Some(held) = lock().await? {
                    return Ok(held);
                }
            }
        })
    }

    fn try_once(&self, key: String) -> Reply<Option<Held>> {
        self.lock(self.once, key)
    }

    fn settled(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let at_work = Arc::downgrade(&self.at_work);
        Box::pin(async move {
            let patience = Instant::now() + Duration::from_secs(5);
            while at_work.strong_count() > 1 && Instant::now() < patience {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }
}
