//! Runs a body under a lease: the one door, for the attribute and for [`LockRequest::run`].

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::error::LockError;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::request::LockRequest;

thread_local! {
    /// The leases of the bodies that are being polled on this thread, the innermost last.
    static RUNNING: RefCell<Vec<Arc<Lease>>> = const { RefCell::new(Vec::new()) };
}

/// Panics unless the running code is inside a guarded body whose lease is good: for a function that must never run
/// unguarded, to say so.
///
/// Inside means: in the body of a function under `#[distributed_lock]` or of [`LockRequest::run`],
/// or in what that body awaits or joins. A task that the body spawns is outside, as it may outlive the lock; so is code
/// that holds a [`Lease`] it acquired by hand.
///
/// # Panics
///
/// That is what it is for.
///
/// ```
/// use std::time::Duration;
/// use lock_runtime::{LockManager, assert_held};
///
/// async fn write_balance() {
///     assert_held();
///     // …
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_runtime::LockError> {
/// let locks = LockManager::in_memory();
/// locks.lock("account:1").ttl(Duration::from_secs(8)).run(|_| write_balance()).await?;
/// # Ok(()) }
/// ```
#[track_caller]
pub fn assert_held() {
    let held = RUNNING.with_borrow(|leases| leases.iter().any(|lease| !lease.is_lost()));
    assert!(
        held,
        "this code must only run under a distributed lock, and runs without a valid one: call it from the body of a \
         function under #[distributed_lock] or of LockRequest::run, not from a task that the body spawned"
    );
}

/// One call of a guarded function; what the attribute expands to.
///
/// It is declared before everything else in the function, so it is dropped after everything else: whatever way the
/// function is left, body and parameters are gone before the lock is.
#[derive(Debug)]
pub struct Guard {
    request: LockRequest,
    lease: Option<Arc<Lease>>,
}

/// The keys of a guarded function.
#[derive(Debug)]
pub struct Keys(Vec<LockKey>);

impl Keys {
    /// `key = …`
    pub fn one(key: impl Into<LockKey>) -> Self {
        Self(vec![key.into()])
    }

    /// `keys = […]`
    pub fn all(keys: impl Into<Vec<LockKey>>) -> Self {
        Self(keys.into())
    }
}

#[doc(hidden)]
impl Guard {
    #[must_use]
    pub fn new(name: &'static str, keys: Keys) -> Self {
        Self {
            request: LockRequest::new(None, keys.0).name(name),
            lease: None,
        }
    }

    #[must_use]
    pub fn manager(self, manager: &LockManager) -> Self {
        self.with(|request| request.manager(manager))
    }

    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|request| request.ttl(ttl))
    }

    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|request| request.wait(wait))
    }

    #[must_use]
    pub fn wait_forever(self) -> Self {
        self.with(LockRequest::wait_forever)
    }

    #[must_use]
    pub fn hold_at_least(self, hold_at_least: Duration) -> Self {
        self.with(|request| request.hold_at_least(hold_at_least))
    }

    fn with(self, set: impl FnOnce(LockRequest) -> LockRequest) -> Self {
        Self {
            request: set(self.request),
            lease: self.lease,
        }
    }

    /// Acquires the lock and drives the body under it. Releases nothing: the caller drops body and parameters first.
    pub async fn run<F: Future>(&mut self, body: Pin<&mut F>) -> Result<F::Output, LockError> {
        let lease = self.request.clone().acquire().await?;
        hold(self.lease.insert(Arc::new(lease)), body).await
    }

    /// Releases the lock, if there was one.
    pub async fn finish(self) {
        if let Some(lease) = self.lease {
            lease.end().await;
        }
    }
}

impl LockRequest {
    /// Acquires the lock, runs the body under it, and releases it, also when the body panics or the future is dropped.
    ///
    /// The body is made once the lock is held. When the lease runs out first, the body is dropped where it stands, not
    /// polled once more, and the result is [`LockError::Lost`]. The lease is handed over for looking, and is released when
    /// the body has ended, even if a clone of it lives on.
    ///
    /// A body, not an async closure: those would cost `Send`.
    ///
    /// # Errors
    ///
    /// [`LockError`] says why the body did not run, or was stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_runtime::LockManager;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_runtime::LockError> {
    /// let locks = LockManager::in_memory();
    /// let left = locks
    ///     .lock("order:1")
    ///     .ttl(Duration::from_secs(8))
    ///     .run(|lease| async move { lease.remaining() })
    ///     .await?;
    /// assert!(left > Duration::from_secs(7));
    /// # Ok(()) }
    /// ```
    pub async fn run<F, Fut>(self, body: F) -> Result<Fut::Output, LockError>
    where
        F: FnOnce(Arc<Lease>) -> Fut,
        Fut: Future,
    {
        let lease = Arc::new(self.acquire().await?);
        let outcome = {
            let body = std::pin::pin!(body(Arc::clone(&lease)));
            hold(&lease, body).await
        };
        lease.end().await;
        outcome
    }
}

/// Drives the body while the lease is good. The deadline is looked at before the body at every poll, so a process that
/// slept past its lease does not run one more statement of it.
pub(crate) async fn hold<F: Future>(
    lease: &Arc<Lease>,
    body: Pin<&mut F>,
) -> Result<F::Output, LockError> {
    Hold {
        lease,
        body,
        alarm: None,
    }
    .await
}

struct Hold<'a, F> {
    lease: &'a Arc<Lease>,
    body: Pin<&'a mut F>,
    /// Set when the body first waits: one that never does costs no timer.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Hold<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.lease.is_lost() {
            return Poll::Ready(Err(this.lease.lost()));
        }
        let polled = {
            let _running = Running::enter(this.lease);
            this.body.as_mut().poll(cx)
        };
        if let Poll::Ready(output) = polled {
            return Poll::Ready(Ok(output));
        }
        let left = this.lease.remaining();
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep(left)));
        while alarm.as_mut().poll(cx).is_ready() {
            let left = this.lease.remaining();
            if left.is_zero() {
                return Poll::Ready(Err(this.lease.lost()));
            }
            // A test's paused clock ran ahead of the one that the lease is measured with.
            alarm.set(sleep(left));
        }
        Poll::Pending
    }
}

/// Marks the lease as running on this thread, until dropped; by a panic too.
struct Running;

impl Running {
    fn enter(lease: &Arc<Lease>) -> Self {
        RUNNING.with_borrow_mut(|leases| leases.push(Arc::clone(lease)));
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = RUNNING.with_borrow_mut(Vec::pop);
        drop(ended);
    }
}
