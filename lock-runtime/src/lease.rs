//! A lock that is held, for as long as it may be believed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{LockError, ReleaseError};
use crate::key::LockKey;
use crate::redlock::Redlock;
use crate::redlock::claim::{Claim, Confirmation};

/// A held lock, or several that were acquired together.
///
/// It is good until its deadline: the TTL counted from before the first byte was sent, less what clocks may drift apart.
/// Dropping it releases the lock in the background, on any thread, inside a runtime or not, without blocking; releasing it
/// says what came of it.
#[must_use = "dropping a lease releases the lock"]
pub struct Lease {
    redlock: Arc<Redlock>,
    keys: Vec<LockKey>,
    /// Empty once released.
    claims: Mutex<Vec<Claim>>,
    released: AtomicBool,
    acquired: Instant,
    /// From when on the lock must not be believed to be ours: the earliest of all its claims.
    deadline: Instant,
    name: &'static str,
}

impl Lease {
    pub(crate) fn new(
        redlock: Arc<Redlock>,
        keys: Vec<LockKey>,
        claims: Vec<Claim>,
        name: &'static str,
    ) -> Self {
        let acquired = redlock.executor.now();
        let deadlines = claims.iter().filter_map(Claim::deadline);
        let deadline = deadlines
            .min()
            .map_or(acquired, tokio::time::Instant::into_std);
        Self {
            redlock,
            keys,
            claims: Mutex::new(claims),
            released: AtomicBool::new(false),
            acquired,
            deadline,
            name,
        }
    }

    /// The key, as it was asked for; where several were acquired together, the first of them in order.
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.first().map_or("", LockKey::as_str)
    }

    /// How much longer the lock may be believed to be held. Zero once it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.released.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.deadline
            .saturating_duration_since(self.redlock.executor.now())
    }

    /// The lease has run out, or was released: somebody else may hold the lock. Never becomes false again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Releases the lock, and waits until a majority of the nodes has confirmed it, or for a `node_timeout`.
    ///
    /// Dropping the future does not stop the release. Whatever it returns, the lease is over, and what could not be
    /// reached is told again in the background until the TTL has run out.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`] says why a majority did not confirm.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.release_claims().await
    }

    /// Releases at the end of a body: what goes wrong must not replace the body's result, so it is logged and counted.
    pub(crate) async fn end(&self) {
        if let Err(error) = self.release_claims().await {
            tracing::warn!(name = self.name, %error, "lock release was not confirmed");
        }
    }

    async fn release_claims(&self) -> Result<(), ReleaseError> {
        let expired = self.is_lost();
        self.released.store(true, Ordering::Release);
        // A panic elsewhere cannot have left them half taken.
        let claims =
            std::mem::take(&mut *self.claims.lock().unwrap_or_else(PoisonError::into_inner));
        let releases: Vec<_> = claims
            .into_iter()
            .map(|claim| (claim.key.clone(), claim.release()))
            .collect();
        let mut outcome = Ok(());
        for (key, release) in releases {
            let confirmed = match release.await {
                Ok(confirmation) if confirmation.by_majority() => continue,
                Ok(confirmation) => Some(confirmation),
                Err(_) => None,
            };
            let was_lost = confirmed.as_ref().is_some_and(Confirmation::was_lost);
            let votes = confirmed.map(|confirmation| confirmation.votes(&self.redlock));
            let votes = votes.unwrap_or_default();
            outcome = Err(match (was_lost, expired) {
                (true, true) => ReleaseError::Expired { key },
                (true, false) => ReleaseError::NotOwner { key, votes },
                (false, _) => ReleaseError::Unreachable { key, votes },
            });
        }
        if outcome.is_err() {
            self.redlock.counters.releases_unconfirmed.add();
        }
        outcome
    }

    /// The loss, for whoever asked for the body.
    pub(crate) fn lost(&self) -> LockError {
        self.redlock.counters.lost.add();
        LockError::Lost {
            key: self.key().into(),
            elapsed: self
                .redlock
                .executor
                .now()
                .saturating_duration_since(self.acquired),
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("keys", &self.keys)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
