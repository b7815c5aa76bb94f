//! Runs a body under a lease: the one door, for the attribute and for [`LockRequest::run`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::error::LockError;
use crate::hold::End;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::request::{LockRequest, OnLost};
use crate::running::{self, Running};
use crate::telemetry::{CallSpan, Keyless};

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
    span: CallSpan,
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
            span: CallSpan::default(),
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
            span: self.span,
        }
    }

    /// Acquires the lock and drives the body under it. Releases nothing: the caller drops body and parameters first.
    pub fn run<'a, F: Future>(&'a mut self, body: Pin<&'a mut F>) -> Run<'a, F> {
        Run {
            acquiring: Some(self.acquire()),
            guard: self,
            body,
        }
    }

    fn acquire(&mut self) -> Acquiring {
        self.span = self.request.span();
        Box::pin(self.request.clone().acquire_counting())
    }

    /// Releases the lock, if there was one.
    #[must_use]
    pub fn finish(self) -> Boxed<()> {
        Box::pin(async move {
            if let Some(Bound(lease)) = &self.lease {
                let mut end = pin!(lease.end());
                poll_fn(|context| {
                    let _inside = self.span.enter();
                    end.as_mut().poll(context)
                })
                .await;
            }
        })
    }

    /// Before each poll of the body: there must be a lease by now, and a good one, so a process that slept past its
    /// deadline does not run one more statement. What this gives marks the body as running.
    fn enter(
        &mut self,
        acquiring: &mut Option<Acquiring>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Running, LockError>> {
        if let Some(asked) = acquiring {
            let (lease, attempts) = ready!(asked.as_mut().poll(cx));
            *acquiring = None;
            let lease = lease.and_then(Bound::new);
            self.span.waited(&lease, attempts);
            self.lease = Some(lease?);
        }
        let Some(Bound(lease)) = &self.lease else {
            unreachable!("a future is not polled after its end");
        };
        match (self.request.lost_policy(), lease.hold().remaining()) {
            (OnLost::Cancel, Err(end)) => Poll::Ready(Err(self.stopped(lease, end))),
            _ => Poll::Ready(Ok(Running::enter(lease))),
        }
    }

    /// After a poll that was not the body's last: wakes the task when the lease is lost, or says that it is.
    fn watch(&self, cx: &mut Context<'_>) -> Poll<LockError> {
        let Some(Bound(lease)) = &self.lease else {
            return Poll::Pending;
        };
        if self.request.lost_policy() == OnLost::Continue {
            return Poll::Pending;
        }
        // Asking to be woken comes before looking, or a loss between the two would be missed.
        lease.hold().watch(cx);
        match lease.hold().remaining() {
            Ok(_) => Poll::Pending,
            Err(end) => Poll::Ready(self.stopped(lease, end)),
        }
    }

    fn stopped(&self, lease: &Lease, end: End) -> LockError {
        let error = lease.lost_error(end);
        let name = lease.hold().named.name();
        tracing::error!(name, error = %Keyless(&error), "guarded body was stopped");
        self.span.lost();
        error
    }
}

/// Boxed, so that it is compiled once, in this crate: an `async fn` would be compiled again in every crate with a guarded
/// function, and what it needs would be part of every guarded function's future.
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

/// With how often the nodes were asked.
type Acquiring = Boxed<(Result<Lease, LockError>, u32)>;

/// A guarded body at work. Only this is compiled anew for each body, so there is little of it.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "it has no name outside")]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Run<'a, F> {
    guard: &'a mut Guard,
    acquiring: Option<Acquiring>,
    body: Pin<&'a mut F>,
}

impl<F: Future> Future for Run<'_, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let span = this.guard.span.clone();
        let _inside = span.enter();
        let running = match this.guard.enter(&mut this.acquiring, cx) {
            Poll::Ready(Ok(running)) => running,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let polled = this.body.as_mut().poll(cx);
        drop(running);
        match polled {
            Poll::Ready(output) => {
                span.done();
                Poll::Ready(Ok(output))
            }
            Poll::Pending => this.guard.watch(cx).map(Err),
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
        let mut guard = Guard {
            request: self,
            lease: None,
            span: CallSpan::default(),
        };
        let outcome = {
            let body = pin!(async { body(running_lease()).await });
            guard.run(body).await
        };
        guard.finish().await;
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
