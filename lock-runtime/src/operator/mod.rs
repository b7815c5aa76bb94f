//! Looking at single locks, and taking them from whoever has them: for an operator.

mod force_release;
mod inspection;
mod owner;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::LockError;
use crate::key::LockKey;
use crate::node::NodeError;
use crate::redlock::Redlock;

pub use force_release::{ForceRelease, NodeRelease};
pub use inspection::{Holding, Inspection, NodeInspection, Verdict};
pub use owner::LockOwner;

/// See [`LockManager::inspect`](crate::LockManager::inspect).
pub(crate) async fn inspect(redlock: &Arc<Redlock>, key: LockKey) -> Result<Inspection, LockError> {
    check_key(redlock, &key)?;
    let (its, wanted) = (Arc::clone(redlock), key.clone());
    let answers = answers(redlock, async move { its.inspect(&wanted).await }).await;
    Ok(Inspection::new(key, redlock.majority(), answers))
}

/// See [`LockManager::force_release`](crate::LockManager::force_release).
pub(crate) async fn force_release(
    redlock: &Arc<Redlock>,
    key: LockKey,
    max_ttl: Duration,
) -> Result<ForceRelease, LockError> {
    check_key(redlock, &key)?;
    let (its, wanted) = (Arc::clone(redlock), key.clone());
    // It is done, and so it is logged, also for a caller who has gone.
    let work = async move {
        let seized = its.seize(&wanted, max_ttl).await;
        let reached = seized.iter().filter(|seized| seized.is_ok()).count();
        tracing::debug!(key = wanted.as_str(), "the lock that is taken by force");
        tracing::warn!(nodes = reached, "lock taken by force");
        seized
    };
    let answers = answers(redlock, work).await;
    Ok(ForceRelease::new(key, redlock.majority(), answers))
}

fn check_key(redlock: &Redlock, key: &LockKey) -> Result<(), LockError> {
    match key.fault().or_else(|| redlock.reserved(key)) {
        None => Ok(()),
        Some(reason) => Err(LockError::InvalidKey {
            key: key.clone(),
            reason: reason.into(),
        }),
    }
}

/// The answer of each node, by its name. The work is done to its end, whatever becomes of the caller.
async fn answers<T: Send + 'static>(
    redlock: &Arc<Redlock>,
    work: impl Future<Output = Vec<Result<T, NodeError>>> + Send + 'static,
) -> Vec<(Arc<str>, Result<T, NodeError>)> {
    let (answer, result) = oneshot::channel();
    redlock.executor.spawn(async move {
        let _ = answer.send(work.await);
    });
    let mut answers = result.await.unwrap_or_default().into_iter();
    let mut next = || {
        answers
            .next()
            .unwrap_or_else(|| Err("the lock manager has ended".into()))
    };
    redlock
        .names()
        .map(|node| (Arc::clone(node), next()))
        .collect()
}
