//! Where the protocol runs: not in the tasks of the callers.
//!
//! A request that was sent has to be followed up whatever becomes of the caller: its future may be dropped at any await,
//! its runtime may go away, its thread may compute without yielding. So a manager with servers for nodes has a thread of
//! its own, on which its connections live and every attempt, renewal and release runs to its end. It ends with the last
//! handle of the manager. A caller only waits for the result, and pays one wake-up for it, however many nodes answer.
//!
//! Embedded nodes need no connections, and tests that pause tokio's clock need everything on their own runtime. So a
//! manager of embedded nodes works on the runtime of whoever calls, and on a thread of its own only where there is none.

use std::io;
use std::time::Instant;

use once_cell::sync::OnceCell;
use tokio::runtime::{self, Builder, Handle};
use tokio::sync::oneshot;

use crate::clock;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Executor {
    follows_caller: bool,
    own: OnceCell<OwnThread>,
}

impl Executor {
    /// A thread of its own, from now on.
    pub(crate) fn own_thread() -> io::Result<Self> {
        Ok(Self {
            follows_caller: false,
            own: OnceCell::with_value(OwnThread::start()?),
        })
    }

    /// The caller's runtime.
    pub(crate) fn of_caller() -> Self {
        Self {
            follows_caller: true,
            own: OnceCell::new(),
        }
    }

    /// Runs the work to its end, whatever becomes of the caller. Never blocks.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.follows_caller
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
            return;
        }
        match self.own.get_or_try_init(OwnThread::start) {
            // Boxed, as a runtime moves what it runs several times, and these are large.
            Ok(own) => {
                own.runtime.spawn(Box::pin(work));
            }
            // Dropping the work tells whoever waits for it; what it had taken ends with its TTL.
            Err(error) => tracing::error!(%error, "no thread for the lock manager"),
        }
    }

    /// Where work is run that is spawned here: on which of the callers' runtimes, if not on a thread of its own.
    pub(crate) fn place(&self) -> Option<runtime::Id> {
        let runtime = Handle::try_current().ok();
        runtime
            .filter(|_| self.follows_caller)
            .map(|runtime| runtime.id())
    }

    /// How many tasks are alive where work is run that is spawned here: on a runtime of the callers, theirs too.
    pub(crate) fn tasks(&self) -> usize {
        let own = self.own.get().map(|own| own.runtime.clone());
        let callers = Handle::try_current().ok().filter(|_| self.follows_caller);
        let runtimes = own.into_iter().chain(callers);
        runtimes
            .map(|runtime| runtime.metrics().num_alive_tasks())
            .sum()
    }

    /// The clock that leases are measured with, read where the caller is.
    pub(crate) fn now(&self) -> Instant {
        if self.follows_caller {
            clock::now().into_std()
        } else {
            Instant::now()
        }
    }
}

#[derive(Debug)]
struct OwnThread {
    runtime: Handle,
    /// Dropped with the last handle of the manager, which ends the thread.
    _alive: oneshot::Sender<()>,
}

impl OwnThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .global_queue_interval(1)
            .build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("lock-runtime".into())
            .spawn(move || {
                // The sender sends nothing: that it is gone is the message.
                let _ = runtime.block_on(ended);
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            _alive: alive,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn work_runs_where_no_runtime_is_and_the_thread_ends_with_its_executor() {
        for executor in [
            Executor::own_thread().expect("a thread"),
            Executor::of_caller(),
        ] {
            let (done, result) = mpsc::channel();
            let never = done.clone();
            executor.spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _ = done.send(std::thread::current().name().map(str::to_owned));
            });
            let name = result.recv_timeout(SOON).expect("the work ran");
            assert_eq!(name.as_deref(), Some("lock-runtime"));

            executor.spawn(async move {
                std::future::pending::<()>().await;
                drop(never);
            });
            drop(executor);
            assert_eq!(
                result.recv_timeout(SOON),
                Err(mpsc::RecvTimeoutError::Disconnected),
                "what still waits is dropped with the thread's runtime"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn embedded_work_follows_the_clock_of_its_caller() {
        let executor = Executor::of_caller();
        let before = executor.now();
        let (done, result) = oneshot::channel();
        executor.spawn(async move {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let _ = done.send(());
        });
        result.await.expect("the work ran");
        assert!(executor.now() - before >= Duration::from_secs(3600));
    }
}
