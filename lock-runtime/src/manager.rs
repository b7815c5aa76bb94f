//! The manager: the handle to the nodes that a process keeps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::check::{Report, check};
use crate::config::{LockManagerBuilder, memory};
use crate::error::{ConfigError, LockError};
use crate::key::LockKey;
use crate::operator::{self, ForceRelease, Inspection};
use crate::request::LockRequest;
use crate::shutdown::{Shutdown, shut_down};
use crate::telemetry::Stats;
use crate::wait::Core;

/// Locks on a set of nodes. Cheap to clone; all clones are one manager.
///
/// Make one for the process, and [`install`](crate::install) it for the attribute. It connects in the background and stays
/// connected; nodes may be down when it is built and later. When the last clone and the last lease are dropped, its
/// connections are closed.
///
/// It can be used from any runtime, from several at once, and after the one that it was made in has gone. See
/// [`in_memory`](Self::in_memory) for the exception.
#[derive(Clone)]
pub struct LockManager {
    pub(crate) core: Arc<Core>,
}

impl LockManager {
    /// Sets up a manager.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_runtime::LockManager;
    ///
    /// let locks = LockManager::builder()
    ///     .node("redis://10.0.0.1:6379")
    ///     .node("redis://10.0.0.2:6379")
    ///     .node("redis://10.0.0.3:6379")
    ///     .prefix("shop:")
    ///     .max_ttl(Duration::from_secs(60))
    ///     .node_timeout(Duration::from_millis(50))
    ///     .build()?;
    /// # Ok::<(), lock_runtime::ConfigError>(())
    /// ```
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::new()
    }

    /// A manager of five embedded nodes: locks within this process, with the semantics of the real thing. For a first try
    /// and for unit tests; its clock is tokio's, so tests may pause it.
    ///
    /// A manager of embedded nodes only works on the tokio runtime that calls it, and its leases are for tasks of that
    /// runtime. That runtime needs its timer, as those of `#[tokio::main]` and `#[tokio::test]` have it.
    #[must_use]
    pub fn in_memory() -> Self {
        let nodes = std::iter::repeat_with(memory).take(5);
        let built = nodes
            .fold(Self::builder(), LockManagerBuilder::node)
            .build();
        match built {
            Ok(manager) => manager,
            Err(error) => unreachable!("five embedded nodes are always a valid manager: {error}"),
        }
    }

    /// A manager of the nodes that the environment variable `LOCK_NODES` lists, separated by commas, with the builder's
    /// defaults. For other settings give the list to [`LockManagerBuilder::nodes`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::NoNodes`] when the variable is not set or empty, another [`ConfigError`] when it cannot be used.
    pub fn from_env() -> Result<Self, ConfigError> {
        let nodes = std::env::var("LOCK_NODES").unwrap_or_default();
        Self::builder().nodes(&nodes).build()
    }

    /// Asks for a lock: give it a TTL, and [`acquire`](LockRequest::acquire) it, or [`run`](LockRequest::run) a
    /// body under it.
    pub fn lock(&self, key: impl Into<LockKey>) -> LockRequest {
        LockRequest::new(Some(Arc::clone(&self.core)), vec![key.into()])
    }

    /// Asks for several locks together: all or none. Order and repetition do not matter, and two callers with
    /// overlapping keys never wait for each other in a circle.
    pub fn lock_all<K: Into<LockKey>>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        LockRequest::new(
            Some(Arc::clone(&self.core)),
            keys.into_iter().map(Into::into).collect(),
        )
    }

    /// Whether a majority of the nodes would vote now, for a readiness probe. A Redis Cluster would if servers with more than half
    /// of its slots would, and a node that waits for [replicas](crate::NodeSpec::replicas) if so many are connected to it.
    ///
    /// Takes up to `node_timeout`, and a few times that while a new deployment is found to be one.
    ///
    /// No lock is touched by it, and dropping the future is safe.
    pub async fn ready(&self) -> bool {
        let (answer, result) = oneshot::channel();
        let redlock = Arc::clone(&self.core.redlock);
        self.core.redlock.executor.spawn(async move {
            let _ = answer.send(redlock.votes().await);
        });
        result.await.unwrap_or(false)
    }

    /// Looks at the nodes: whether they answer and vote, and what about them makes locks unsafe or will keep people from them.
    /// A person reads the [`Report`] as text, a program asks it for its [`findings`](Report::findings):
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let locks = lock_runtime::LockManager::in_memory();
    /// let report = locks.check().await;
    /// println!("{report}");
    /// assert!(report.is_safe());
    /// # }
    /// ```
    ///
    /// It answers in ten `node_timeout`s or two seconds, whichever is longer, whatever the nodes do. Locks go on meanwhile:
    /// each node is sent some thirty short commands over a connection that it has already. They change nothing there; what
    /// the user is not permitted is tried with commands on a key that there never is, and stands in the node's `ACL LOG`
    /// afterwards. A node that is down or refused is reported with the reason.
    ///
    /// Dropping the future is safe. What was begun ends by itself in the same time.
    pub async fn check(&self) -> Report {
        check(&self.core.redlock, self.core.max_ttl).await
    }

    /// Looks at who has a lock, on each node: the owner, for how much longer, and the last fencing token. Works for locks of
    /// clients in other languages too. Changes nothing.
    ///
    /// ```
    /// # use lock_runtime::{LockManager, Verdict};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_runtime::LockError> {
    /// # let locks = LockManager::in_memory();
    /// let inspection = locks.inspect("order:1").await?;
    /// println!("{inspection}");
    /// assert_eq!(inspection.verdict(), Verdict::Free);
    /// # Ok(()) }
    /// ```
    ///
    /// What is under the key is read whole, however long it is, and of what is much too long for an owner the beginning is shown.
    ///
    /// Nodes that have no vote are asked as well. Takes four `node_timeout`s at the most, or one second if that is longer;
    /// dropping the future is safe.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`](crate::LockError::InvalidKey): there can be no such lock. That nodes do not answer is no error: it is what
    /// they say.
    pub async fn inspect(&self, key: impl Into<LockKey>) -> Result<Inspection, LockError> {
        operator::inspect(&self.core.redlock, key.into()).await
    }

    /// Takes a lock from whoever has it, in this process or another one, for an operator who knows that its holder should not
    /// go on.
    ///
    /// The holder loses it with his next renewal, when a third of his TTL has passed: his body is stopped, his release
    /// frees the lock, and who waits is told. A holder who is not heard from, or does not renew, may believe in the lock until
    /// the time is over that he was granted, so it stays for that long, and nobody runs next to him:
    /// [`free_in`](ForceRelease::free_in) says how long that is at the most. No wait is made longer by it than the TTL
    /// that the lock has. A key without a TTL, which is no lock of this library, ends after `max_ttl`.
    ///
    /// Any string under the key is taken for a lock, and is lost with it: [`inspect`](Self::inspect) shows what is there. Values of
    /// other types are left alone, and the node says so. A token that begins with `forced:`, which no library we know writes, is
    /// taken for the mark of an earlier call.
    ///
    /// Nodes that have no vote are told as well. Replicas are not waited for, also where
    /// [locks are](crate::NodeSpec::replicas): after a failover in that moment whoever had the lock may have it again, alone.
    /// Fencing tokens are kept, so that later holders have larger ones. Clients in
    /// other languages find another owner in the lock when they renew it, and when they release it; then it is free when
    /// its TTL has run out. Versions of this library that do not know of it do the same.
    ///
    /// Takes four `node_timeout`s at the most, or one second if that is longer, and twice that if a node lacks the lock
    /// or would have it for less time than the others.
    /// Dropping the future does not stop it. Calling it again does no harm, and is what to do where
    /// [too few nodes](ForceRelease::is_complete) were reached.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`](crate::LockError::InvalidKey): there can be no such lock.
    pub async fn force_release(&self, key: impl Into<LockKey>) -> Result<ForceRelease, LockError> {
        operator::force_release(&self.core.redlock, key.into(), self.core.max_ttl).await
    }

    /// Ends the use of locks, for a process that is about to exit: from now on, and for good, new locks are refused with
    /// [`LockError::ShuttingDown`](crate::LockError::ShuttingDown), also to those who wait for one, and
    /// [`ready`](Self::ready) is false. What is held has `grace` to be released by whoever holds it. Then every lease ends
    /// as if it had been lost: bodies are dropped and their locks released; a lease that was acquired by hand is released
    /// under its holder, whom [`Lease::lost`](crate::Lease::lost) tells.
    ///
    /// Returns as soon as nothing is held and all nodes know of it; at the latest two seconds and two `node_timeout`s after
    /// `grace`. A body that cannot be dropped by then, because it computes without yielding or runs on with
    /// [`OnLost::Continue`](crate::OnLost::Continue), keeps its lock, renewed as before, for as long as it runs. A node
    /// that cannot be reached keeps it until its TTL has run out. [`Shutdown`] counts both. `hold_at_least` is kept: such a
    /// lock stays on the nodes for the rest of it.
    ///
    /// Called from a guarded body it would wait for that body, for all of `grace`.
    ///
    /// Dropping the future stops nothing of what is held, but new locks stay refused; calling it again goes on. A process
    /// that exits without this leaves to their TTL the locks that it held, and those whose lease was dropped right before.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # async fn stop(locks: lock_runtime::LockManager) {
    /// // Kubernetes sends SIGTERM, and kills after `terminationGracePeriodSeconds`, by default 30.
    /// let shutdown = locks.shutdown(Duration::from_secs(25)).await;
    /// if shutdown.stopped > 0 {
    ///     eprintln!("{} guarded calls did not end in time", shutdown.stopped);
    /// }
    /// # }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        shut_down(&self.core, grace).await
    }

    /// What was counted since the manager was built.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.redlock.counters.read()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("nodes", &self.core.redlock.node_names())
            .field("max_ttl", &self.core.max_ttl)
            .finish_non_exhaustive()
    }
}

impl LockManagerBuilder {
    /// Builds the manager and starts connecting in the background. Does not wait for the nodes, and does not fail
    /// because one is down. Needs no runtime around it.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] says which node or number cannot be used, and never shows a password.
    pub fn build(self) -> Result<LockManager, ConfigError> {
        let (redlock, max_ttl) = self.connect()?;
        Ok(LockManager {
            core: Arc::new(Core::new(redlock, max_ttl)),
        })
    }
}
