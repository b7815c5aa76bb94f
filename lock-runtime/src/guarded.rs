//! Runs a body under a lease: the one door, for the attribute and for [`LockRequest::run`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::LockError;
use crate::global;
use crate::hold::End;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::request::{LockRequest, OnLost};
use crate::running::{self, Running};

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
    let held = running::find(|lease| !lease.is_lost());
    assert!(
        held.is_some(),
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
    lease: Option<Bound>,
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
        self.with(|request| request.on(&manager.core))
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

    #[must_use]
    pub fn extend(self, extend: bool) -> Self {
        self.with(|request| request.extend(extend))
    }

    #[must_use]
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.with(|request| request.max_hold(max_hold))
    }

    #[must_use]
    pub fn fenced(self, fenced: bool) -> Self {
        self.with(|request| request.fenced(fenced))
    }

    #[must_use]
    pub fn continue_when_lost(self) -> Self {
        self.with(|request| request.on_lost(OnLost::Continue))
    }

    fn with(self, set: impl FnOnce(LockRequest) -> LockRequest) -> Self {
        Self {
            request: set(self.request),
            lease: self.lease,
        }
    }

    /// Acquires the lock and drives the body under it. Releases nothing: the caller drops body and parameters first.
    pub async fn run<F: Future>(&mut self, body: Pin<&mut F>) -> Result<F::Output, LockError> {
        let on_lost = self.request.lost_policy();
        let mut request = self.request.clone();
        if !request.has_nodes() {
            request = request.on(&global::installed()?.core);
        }
        let lease = request.acquire().await?;
        let Bound(lease) = self.lease.insert(Bound::new(lease)?);
        hold(lease, on_lost, body).await
    }

    /// Releases the lock, if there was one.
    pub async fn finish(self) {
        if let Some(Bound(lease)) = &self.lease {
            lease.end().await;
        }
    }
}

/// The lease of a body: over when the body is, even if a clone of it lives on somewhere.
#[derive(Debug)]
struct Bound(Arc<Lease>);

impl Bound {
    fn new(lease: Lease) -> Result<Self, LockError> {
        match lease.hold().bind() {
            Ok(()) => Ok(Self(Arc::new(lease))),
            Err(end) => Err(lease.unused_error(end)),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.end_in_background();
    }
}

impl LockRequest {
    /// Acquires the lock, runs the body under it, and releases it, also when the body panics or the future is dropped.
    ///
    /// The body is made once the lock is held, and the lease is renewed while it runs. When the lease is lost all the same,
    /// the body is dropped where it stands, not polled once more, and the result is [`LockError::Lost`]; with
    /// [`OnLost::Continue`] it runs on. The lease is handed over for looking, and is released when the body has ended, even
    /// if a clone of it lives on.
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
        let on_lost = self.lost_policy();
        let bound = Bound::new(self.acquire().await?)?;
        let lease = &bound.0;
        let outcome = {
            let body = std::pin::pin!(body(Arc::clone(lease)));
            hold(lease, on_lost, body).await
        };
        lease.end().await;
        outcome
    }
}

/// The lease of the innermost guarded body that is being polled on this thread: what `lease = name` binds.
///
/// # Panics
///
/// Outside of a guarded body, where the attribute never calls it.
#[doc(hidden)]
#[must_use]
pub fn running_lease() -> Arc<Lease> {
    match running::find(|_| true) {
        Some(lease) => lease,
        None => unreachable!("the attribute binds the lease inside of the body that it guards"),
    }
}

/// Drives the body while the lease is good. The lease is looked at before the body at every poll, so a process that slept
/// past its deadline does not run one more statement of it.
async fn hold<F: Future>(
    lease: &Arc<Lease>,
    on_lost: OnLost,
    body: Pin<&mut F>,
) -> Result<F::Output, LockError> {
    Driven {
        lease,
        on_lost,
        body,
    }
    .await
}

struct Driven<'a, F> {
    lease: &'a Arc<Lease>,
    on_lost: OnLost,
    body: Pin<&'a mut F>,
}

impl<F: Future> Future for Driven<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let (OnLost::Cancel, Err(end)) = (this.on_lost, this.lease.hold().remaining()) {
            return Poll::Ready(Err(this.stopped(end)));
        }
        let polled = {
            let _running = Running::enter(this.lease);
            this.body.as_mut().poll(cx)
        };
        match (polled, this.on_lost) {
            (Poll::Ready(output), _) => Poll::Ready(Ok(output)),
            (Poll::Pending, OnLost::Continue) => Poll::Pending,
            (Poll::Pending, OnLost::Cancel) => {
                // Asking to be woken comes before looking, or a loss between the two would be missed.
                this.lease.hold().watch(cx);
                match this.lease.hold().remaining() {
                    Ok(_) => Poll::Pending,
                    Err(end) => Poll::Ready(Err(this.stopped(end))),
                }
            }
        }
    }
}

impl<F> Driven<'_, F> {
    fn stopped(&self, end: End) -> LockError {
        let error = self.lease.lost_error(end);
        tracing::error!(name = self.lease.name, %error, "guarded body was stopped");
        error
    }
}
