//! Asking for a lock: what is wanted, checked once, before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LockError;
use crate::global;
use crate::hold::Terms;
use crate::key::LockKey;
use crate::lease::Lease;
use crate::redlock::validity;
use crate::running;
use crate::telemetry::{self, CallSpan, Keyless, Named, Outcome};
use crate::wait::{self, Core, Order, Patience, Taken};

/// A lock that is being asked for. Made by [`LockManager::lock`](crate::LockManager::lock) and
/// [`LockManager::lock_all`](crate::LockManager::lock_all).
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is acquired or run"]
pub struct LockRequest {
    core: Option<Arc<Core>>,
    keys: Vec<LockKey>,
    ttl: Option<Duration>,
    patience: Patience,
    hold_at_least: Duration,
    extend: bool,
    max_hold: Option<Duration>,
    on_lost: OnLost,
    fenced: bool,
    name: &'static str,
}

/// What becomes of a body whose lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// It is dropped where it stands, and the call gives [`LockError::Lost`].
    #[default]
    Cancel,
    /// It runs on to its end, and its result is that of the call. [`Lease::is_lost`] and [`Lease::lost`] tell.
    Continue,
}

impl LockRequest {
    pub(crate) fn new(core: Option<Arc<Core>>, keys: Vec<LockKey>) -> Self {
        Self {
            core,
            keys,
            ttl: None,
            patience: Patience::For(Duration::ZERO),
            hold_at_least: Duration::ZERO,
            extend: true,
            max_hold: None,
            on_lost: OnLost::Cancel,
            fenced: false,
            name: "unnamed",
        }
    }

    /// Asks these nodes.
    pub(crate) fn on(mut self, core: &Arc<Core>) -> Self {
        self.core = Some(Arc::clone(core));
        self
    }

    /// For how long the nodes keep the lock if nothing more is heard from this process. Required; at most the manager's
    /// `max_ttl`. Whole milliseconds count.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for a lock that is busy, or for nodes that do not answer. Default: one try.
    ///
    /// Calls of one manager stand in line for a key, first come, first served, and only the first of them asks the nodes. It
    /// makes a last try when its time is over, so its answer may come later: by one `node_timeout`, or where votes are split
    /// by up to twelve. The others are told at that moment what is known by then; if the nodes have not said anything since
    /// they came, as soon as they do.
    ///
    /// Whoever asks for several keys waits until he is first in the line of each, and lets those who want one of them go first
    /// while he waits for another.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.patience = Patience::For(wait);
        self
    }

    /// Waits until the lock is there, through outages too.
    pub fn wait_forever(mut self) -> Self {
        self.patience = Patience::Forever;
        self
    }

    /// A release sooner than this after the acquisition leaves the lock in place until then. This is what keeps a short
    /// job from running twice on replicas whose clocks differ. At most the manager's `max_ttl`; a process that dies
    /// meanwhile keeps the lock for its TTL only.
    pub fn hold_at_least(mut self, hold_at_least: Duration) -> Self {
        self.hold_at_least = hold_at_least;
        self
    }

    /// Whether the lease is renewed while it is held, whenever a third of the TTL has passed. Default: yes.
    pub fn extend(mut self, extend: bool) -> Self {
        self.extend = extend;
        self
    }

    /// The end of the whole hold, renewals included: then the lease is lost. At least the TTL, and `hold_at_least`.
    /// Default: none.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// What becomes of the body of [`run`](Self::run) when the lease is lost. Default: it is stopped.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    pub(crate) fn lost_policy(&self) -> OnLost {
        self.on_lost
    }

    /// Asks for a fencing token, [`Lease::fence`]. Default: no, as it makes the servers work three times as much.
    pub fn fenced(mut self, fenced: bool) -> Self {
        self.fenced = fenced;
        self
    }

    /// A label for logs and metrics. Give it to each place in the code that asks for locks, and never a key: each name makes time
    /// series of its own. Default: `unnamed`.
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Acquires the lock. The lease releases it when it is dropped.
    ///
    /// Dropping the future at any point leaves nothing behind: what was or will be granted is released in the background, or
    /// goes to the next in line. A future that is neither dropped nor polled once its turn has come keeps the calls behind it
    /// waiting, as with any fair mutex.
    ///
    /// # Errors
    ///
    /// [`LockError`] says why the lock is not ours.
    pub async fn acquire(self) -> Result<Lease, LockError> {
        self.acquire_counting().await.0
    }

    /// The same, and how often the nodes were asked for it.
    pub(crate) async fn acquire_counting(self) -> (Result<Lease, LockError>, u32) {
        let core = match &self.core {
            Some(core) => Arc::clone(core),
            None => match global::installed() {
                Ok(manager) => manager.core,
                Err(error) => {
                    telemetry::refused(self.name);
                    return (Err(error), 0);
                }
            },
        };
        let name = self.name;
        let named = core.meters.of(name);
        let call = named.call();
        let Taken { held, attempts } = match self.order(&core, named) {
            Ok(order) => wait::acquire(&core, order).await,
            Err(error) => error.into(),
        };
        call.ended(Outcome::of(&held));
        let lease = held.map(Lease::new).and_then(|lease| {
            match lease.hold().remaining() {
                Ok(_) => Ok(lease),
                // It came in time, and this task was not run until it was over.
                Err(end) => Err(lease.unused_error(end)),
            }
        });
        tell(name, &lease, attempts);
        (lease, attempts)
    }

    /// For a guarded call.
    pub(crate) fn span(&self) -> CallSpan {
        CallSpan::open(self.name, &self.keys)
    }

    /// What is asked for, if this task can have it.
    fn order(self, core: &Arc<Core>, named: Named) -> Result<Order, LockError> {
        let order = self.checked(core.max_ttl, named)?;
        for key in &order.terms.keys {
            if let Some(reason) = core.redlock.reserved(key) {
                return Err(LockError::InvalidKey {
                    key: key.clone(),
                    reason: reason.into(),
                });
            }
            if let Some(lease) = running::find(|lease| lease.hold().is_of(&core.redlock, key)) {
                return Err(LockError::AlreadyHeld {
                    key: key.clone(),
                    by: lease.hold().named.name(),
                });
            }
        }
        Ok(order)
    }

    /// What is asked for, if it can be.
    fn checked(mut self, max_ttl: Duration, named: Named) -> Result<Order, LockError> {
        self.keys.sort_unstable();
        self.keys.dedup();
        let Some(first) = self.keys.first() else {
            return Err(LockError::InvalidKey {
                key: "".into(),
                reason: "no key was given".into(),
            });
        };
        for key in &self.keys {
            if let Some(reason) = key.fault() {
                return Err(LockError::InvalidKey {
                    key: key.clone(),
                    reason: reason.into(),
                });
            }
        }
        let invalid_ttl = |reason: String| LockError::InvalidTtl {
            key: first.clone(),
            reason: reason.into(),
        };
        let Some(asked) = self.ttl else {
            return Err(invalid_ttl("no TTL was given".to_owned()));
        };
        if asked > max_ttl {
            return Err(invalid_ttl(format!(
                "a TTL of {asked:?} is longer than max_ttl, {max_ttl:?}, which the manager's builder sets"
            )));
        }
        let ttl = Duration::from_millis(u64::try_from(asked.as_millis()).unwrap_or(u64::MAX));
        if validity::usable(ttl).is_none() {
            return Err(invalid_ttl(format!(
                "a TTL of {asked:?} is used up by the clock drift that is allowed for, {:?}",
                validity::drift(ttl)
            )));
        }
        if self.hold_at_least > max_ttl {
            return Err(invalid_ttl(format!(
                "hold_at_least of {:?} is longer than max_ttl, {max_ttl:?}, which the manager's builder sets",
                self.hold_at_least
            )));
        }
        if let Some(max_hold) = self.max_hold.filter(|&max_hold| max_hold < ttl) {
            return Err(invalid_ttl(format!(
                "max_hold of {max_hold:?} is shorter than the TTL, {asked:?}"
            )));
        }
        if let Some(max_hold) = self.max_hold.filter(|&most| most < self.hold_at_least) {
            return Err(invalid_ttl(format!(
                "hold_at_least of {:?} is longer than max_hold, {max_hold:?}",
                self.hold_at_least
            )));
        }
        Ok(Order {
            terms: Terms {
                named,
                keys: self.keys,
                ttl,
                hold_at_least: self.hold_at_least,
                extend: self.extend,
                max_hold: self.max_hold,
                fenced: self.fenced,
            },
            patience: self.patience,
        })
    }
}

/// That somebody else has it is no trouble, and what else stands in the way the caller is told. But an outage is not his doing.
fn tell(name: &'static str, lease: &Result<Lease, LockError>, attempts: u32) {
    match lease {
        Ok(lease) => tracing::debug!(name, key = lease.key(), attempts, "lock acquired"),
        Err(error) => tracing::debug!(name, %error, attempts, "lock not acquired"),
    }
    if let Err(error @ LockError::NoQuorum { .. }) = lease {
        tracing::warn!(name, error = %Keyless(error), attempts, "lock nodes gave no quorum");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::LockManager;

    const MAX_TTL: Duration = Duration::from_secs(60);

    fn named() -> Named {
        LockManager::in_memory().core.meters.of("a test")
    }

    fn ask(ttl: Duration) -> Result<Order, LockError> {
        LockManager::in_memory()
            .lock("k")
            .ttl(ttl)
            .checked(MAX_TTL, named())
    }

    #[test]
    fn a_ttl_is_checked_before_anything_is_sent() {
        for ttl in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(2),
            Duration::from_secs(61),
            Duration::MAX,
        ] {
            let refused = ask(ttl);
            assert!(
                matches!(refused, Err(LockError::InvalidTtl { .. })),
                "{ttl:?}: {refused:?}"
            );
        }
        for millis in 3..=1000 {
            let ttl = Duration::from_millis(millis);
            assert_eq!(ask(ttl).expect("a TTL").terms.ttl, ttl);
        }
    }

    #[test]
    fn keys_are_sorted_and_told_once() {
        let order = LockManager::in_memory()
            .lock_all(["b", "a", "b"])
            .ttl(Duration::from_secs(1))
            .checked(MAX_TTL, named())
            .expect("an order");
        assert_eq!(order.terms.keys, ["a".into(), "b".into()]);
    }

    #[test]
    fn what_cannot_be_locked_is_told_apart() {
        let locks = LockManager::in_memory();
        let second = Duration::from_secs(1);
        let refused = [
            locks.lock(" ").ttl(second),
            locks.lock_all(["a", ""]).ttl(second),
            locks.lock_all([""; 0]).ttl(second),
        ];
        for request in refused {
            let refused = request.checked(MAX_TTL, named());
            assert!(
                matches!(refused, Err(LockError::InvalidKey { .. })),
                "{refused:?}"
            );
        }
        let refused = [
            locks.lock("k"),
            locks.lock("k").ttl(second).hold_at_least(Duration::MAX),
            locks
                .lock("k")
                .ttl(second)
                .hold_at_least(second * 3)
                .max_hold(second * 2),
        ];
        for request in refused {
            let refused = request.checked(MAX_TTL, named());
            assert!(
                matches!(refused, Err(LockError::InvalidTtl { .. })),
                "{refused:?}"
            );
        }
    }
}
