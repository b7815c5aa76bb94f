//! What is left of an operation once it is over, whatever way it went: keys, tasks, connections.

use crate::fleet::{Fleet, ready};
use crate::wait::{DEADLINE, eventually, eventually_async};
use lock_runtime::{LockManager, LockManagerBuilder, NodeSpec, memory};
use std::time::Duration;
use tokio::runtime::Handle;

/// Longer than any test looks: what is gone was given back, and has not run out.
const TTL: Duration = Duration::from_secs(60);

/// Nodes, real or embedded, on which many managers come and go.
#[derive(Debug)]
pub enum Site {
    /// Servers that every manager has a connection to.
    Servers(Fleet),
    /// In this process. What is at work for them is on the runtime of the test.
    Embedded(Vec<NodeSpec>),
}

impl Site {
    /// Five servers that have been used before.
    pub async fn servers() -> Self {
        let fleet = Fleet::start(5);
        fleet.found().await;
        Self::Servers(fleet)
    }

    /// Five embedded nodes.
    pub fn embedded() -> Self {
        Self::Embedded(std::iter::repeat_with(memory).take(5).collect())
    }

    /// A manager of the nodes that is connected to all of them.
    pub async fn manager(&self) -> LockManager {
        match self {
            Self::Servers(fleet) => {
                let locks = fleet.manager();
                ready(&locks).await;
                self.idle(&locks, 0).await;
                locks
            }
            Self::Embedded(nodes) => {
                let builder = nodes.iter().cloned();
                let builder = builder.fold(LockManager::builder(), LockManagerBuilder::node);
                builder.build().expect("embedded nodes can be used")
            }
        }
    }

    /// How many clients the servers have, all together.
    pub fn clients(&self) -> usize {
        match self {
            Self::Servers(fleet) => fleet
                .servers()
                .iter()
                .map(super::RedisServer::clients)
                .sum(),
            Self::Embedded(_) => 0,
        }
    }

    /// How many tasks the runtime of the test has; at servers none is ours.
    pub fn callers_tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    /// Waits until the manager has nothing to do but to be connected. `others`: tasks of the test on the same runtime.
    ///
    /// Of each node somebody keeps the connection, and somebody tells how it stands (the feature `metrics`). One task more may be
    /// there, the one that renews: it looks once more when the last lease would have been due.
    #[track_caller]
    pub fn idle(&self, locks: &LockManager, others: usize) -> impl Future<Output = ()> {
        const OF_EACH_NODE: usize = 2;
        let expected = match self {
            Self::Servers(fleet) => fleet.servers().len() * OF_EACH_NODE,
            Self::Embedded(_) => others,
        };
        let locks = locks.clone();
        let idle = eventually(DEADLINE, "no task is left", move || {
            let tasks = lock_runtime::__private::tasks(&locks);
            if (expected..=expected + 1).contains(&tasks) {
                Ok(())
            } else {
                Err(format!("{tasks} tasks, where {expected} are expected"))
            }
        });
        async move {
            idle.await;
            if let Self::Servers(fleet) = self {
                fleet.assert_nobody_listens().await;
            }
        }
    }

    /// Waits until nobody has any of the locks: on servers there is no such key, and whoever asks is given it.
    pub async fn free(&self, rival: &LockManager, keys: &[&str]) {
        if let Self::Servers(fleet) = self {
            for key in keys {
                fleet.assert_no_keys(key).await;
            }
        }
        for key in keys {
            let what = format!("{key} is free");
            eventually_async(DEADLINE, &what, || async {
                let lease = rival.lock(*key).ttl(TTL).acquire().await?;
                lease
                    .release()
                    .await
                    .expect("nothing is wrong with the nodes");
                Ok::<_, lock_runtime::LockError>(())
            })
            .await;
        }
    }
}
