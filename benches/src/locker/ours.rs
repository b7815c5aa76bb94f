//! This library, through what it has published.

use std::time::Duration;

use lock_runtime::{Lease, LockError, LockManager, LockManagerBuilder, LockRequest};

use super::{Held, Locker, Reply, TTL};

/// As long as the peers' client waits for an answer, where it is not a node's silence that is measured.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// Longer than any round.
const LONG: Duration = Duration::from_secs(600);

/// A manager, as a service has one.
#[derive(Debug)]
pub struct Ours {
    locks: LockManager,
    ttl: Duration,
    fenced: bool,
}

impl Ours {
    pub(super) async fn connect(urls: &[String]) -> Self {
        Self::with(urls, TTL, |builder| builder.node_timeout(NODE_TIMEOUT)).await
    }

    /// A manager with other settings than usual.
    pub async fn with(
        urls: &[String],
        ttl: Duration,
        settings: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> Self {
        let nodes = urls.iter().map(String::as_str);
        let builder = nodes.fold(LockManager::builder(), LockManagerBuilder::node);
        let locks = settings(builder).build().expect("a manager");
        lock_tests::ready(&locks).await;
        Self {
            locks,
            ttl,
            fenced: false,
        }
    }

    pub(super) fn fenced(self) -> Self {
        Self {
            fenced: true,
            ..self
        }
    }

    fn request(&self, key: String) -> LockRequest {
        self.locks.lock(key).ttl(self.ttl).fenced(self.fenced)
    }
}

impl Locker for Ours {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        let request = self.request(key);
        Box::pin(async move {
            match request.acquire().await {
                Ok(lease) => Ok(Some(held(lease))),
                Err(LockError::Busy { .. }) => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let request = self.request(key).wait(LONG);
        Box::pin(async move {
            let lease = request.acquire().await;
            lease.map(held).map_err(|error| error.to_string())
        })
    }
}

fn held(lease: Lease) -> Held {
    Held::new(|| async move { lease.release().await.map_err(|error| error.to_string()) })
}
