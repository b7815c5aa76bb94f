//! A mutex of the process: the limit of a hot key within it.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Held, Locker, Reply};

/// For one key.
#[derive(Default)]
pub(super) struct TokioMutex(Arc<Mutex<()>>);

impl Locker for TokioMutex {
    fn ask(&self, _key: String) -> Reply<Option<Held>> {
        let guard = Arc::clone(&self.0).try_lock_owned();
        Box::pin(async move { Ok(guard.ok().map(held)) })
    }

    fn wait(&self, _key: String) -> Reply<Held> {
        let guard = Arc::clone(&self.0).lock_owned();
        Box::pin(async move { Ok(held(guard.await)) })
    }
}

fn held(guard: OwnedMutexGuard<()>) -> Held {
    Held::new(|| async move {
        drop(guard);
        Ok(())
    })
}
