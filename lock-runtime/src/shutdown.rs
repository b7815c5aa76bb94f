//! An orderly end: nothing new, time for what is under way, and then what is left is stopped and given back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::redlock::Redlock;
use crate::wait::Core;

/// How long bodies that were stopped may take to be dropped, and then nodes to hear of the releases, beyond what a node may
/// take for an answer.
const LAST: Duration = Duration::from_secs(1);

/// What a [`shutdown`](crate::LockManager::shutdown) could not leave to those who held locks. All zero: they gave back every
/// lock in time, and all nodes know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Leases that were ended because `grace` was over.
    pub stopped: u64,
    /// Locks that may still be on a node: it did not confirm the release, and the TTL will end them, or their body could not
    /// be stopped, and keeps them until it ends.
    pub left: usize,
}

/// See [`LockManager::shutdown`](crate::LockManager::shutdown).
pub(crate) async fn shut_down(core: &Arc<Core>, grace: Duration) -> Shutdown {
    let redlock = &core.redlock;
    let stopped_before = redlock.counters.stopped.get();
    core.refuse();
    let (mut ended, end) = oneshot::channel();
    let work = Arc::clone(core);
    redlock.executor.spawn(async move {
        let ended_itself = {
            let end = pin!(end_everything(&work, grace));
            let nobody_waits = pin!(ended.closed());
            matches!(select(end, nobody_waits).await, Either::Left(_))
        };
        if ended_itself {
            let _ = ended.send(());
        }
    });
    // Where nothing can be run any more, what is left is counted all the same.
    let _ = end.await;
    Shutdown {
        stopped: redlock.counters.stopped.get() - stopped_before,
        left: redlock.census.claims.count() + redlock.census.releases.count(),
    }
}

async fn end_everything(core: &Core, grace: Duration) {
    let Core {
        redlock, keepers, ..
    } = core;
    let Redlock { census, .. } = &**redlock;
    let last = redlock.node_timeout.saturating_add(LAST);
    keepers.end_lost();
    if timeout(grace, census.claims.none()).await.is_err() {
        census.stop();
        keepers.tell_all();
        // A body that does not let itself be stopped keeps its lock: nobody else may run next to it.
        let _ = timeout(last, census.claims.none()).await;
    }
    // What a node does not hear now, it will not hear.
    let _ = timeout(last, census.releases.none()).await;
}
