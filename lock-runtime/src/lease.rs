//! A lock that is held, as its holder sees it.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use crate::error::{LockError, ReleaseError};
use crate::hold::{End, Held, Hold, Loss};
use crate::key::LockKey;
use crate::redlock::claim::Confirmation;
use crate::telemetry::Keyless;

/// A held lock, or several that were acquired together.
///
/// It is good until its deadline: the TTL counted from before the first byte was sent, less what clocks may drift apart.
/// Unless it was asked for otherwise, it is renewed in the background whenever a third of the TTL has passed, for as long
/// as it exists; bound that with [`max_hold`](crate::LockRequest::max_hold).
///
/// Dropping it releases the lock in the background, on any thread, inside a runtime or not, without blocking; releasing it
/// says what came of it. A lease that is leaked is renewed for as long as the process lives.
#[must_use = "dropping a lease releases the lock"]
pub struct Lease {
    held: Held,
}

impl Lease {
    pub(crate) fn new(held: Held) -> Self {
        held.0.accept();
        Self { held }
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.held.0
    }

    /// The key, as it was asked for; where several were acquired together, the first of them in order.
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold().keys.first().map_or("", LockKey::as_str)
    }

    /// How much longer the lock may be believed to be held, if it is not renewed. Zero once it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining().unwrap_or_default()
    }

    /// The lease has run out, was taken, or was released: somebody else may hold the lock. Never becomes false again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold().remaining().is_err()
    }

    /// The fencing token: a number that is larger for every later holder of the same key, for a store to refuse what a holder
    /// sent that has lost the lock meanwhile, as in `UPDATE … SET …, fence = $1 WHERE id = $2 AND fence < $1`. It fits a
    /// signed 64-bit column.
    ///
    /// Zero, which such a store refuses, if no token was asked for: see [`fenced`](crate::LockRequest::fenced).
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.hold().fence.unwrap_or(0)
    }

    /// Waits until [`is_lost`](Self::is_lost). Cancelling it changes nothing.
    pub async fn lost(&self) {
        // Listening comes before looking, or an end between the two would be missed.
        let mut ended = pin!(self.hold().ended());
        ended.as_mut().enable();
        while self.hold().remaining().is_ok() {
            ended.as_mut().await;
            ended.set(self.hold().ended());
            ended.as_mut().enable();
        }
    }

    /// Renews the lease now, for another TTL from now. What is renewed in the background goes on.
    ///
    /// Cancelling it does not stop the renewal.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when it has ended: a lease that has ended never comes back. [`LockError::NoQuorum`] when too few
    /// nodes answered to tell: it stands as it was.
    pub async fn extend(&self) -> Result<(), LockError> {
        let conclusive = self.held.0.renew().await;
        match self.hold().remaining() {
            Err(end) => Err(self.lost_error(end)),
            Ok(_) if conclusive => Ok(()),
            Ok(_) => Err(LockError::NoQuorum {
                key: self.key().into(),
                elapsed: self.hold().held_for(),
                reason: "too few nodes answered to the renewal; the lease stands as it was".into(),
                votes: self.hold().doubts(),
            }),
        }
    }

    /// Releases the lock, and waits until a majority of the nodes has confirmed it, or for a `node_timeout`; or hands it over
    /// to the next call in this process that waits for it, which needs no waiting.
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
    /// What was lost is released without waiting: there is nothing to be confirmed any more.
    pub(crate) async fn end(&self) {
        if let Err(End::Lost(_)) = self.hold().remaining() {
            self.end_in_background();
            return;
        }
        if let Err(error) = self.release_claims().await {
            tracing::warn!(
                name = self.hold().named.name(),
                error = %Keyless(&error),
                "lock release was not confirmed"
            );
        }
    }

    /// The same without waiting, where nobody is left who could.
    pub(crate) fn end_in_background(&self) {
        drop(self.hold().end());
    }

    async fn release_claims(&self) -> Result<(), ReleaseError> {
        let expired = self.hold().remaining() == Err(End::Lost(Loss::Expired));
        let redlock = &self.hold().redlock;
        let releases: Vec<_> = self
            .hold()
            .end()
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
            let votes = confirmed.map(|confirmation| confirmation.votes(redlock));
            let votes = votes.unwrap_or_default();
            outcome = Err(match (was_lost, expired) {
                (true, true) => ReleaseError::Expired { key },
                (true, false) => ReleaseError::NotOwner { key, votes },
                (false, _) => ReleaseError::Unreachable { key, votes },
            });
        }
        if outcome.is_err() {
            redlock.counters.releases_unconfirmed.add();
        }
        outcome
    }

    /// The loss, for whoever asked for the body.
    pub(crate) fn lost_error(&self, end: End) -> LockError {
        let reason = match end {
            End::Released => "it was released",
            End::Lost(Loss::Expired) => "its lease ran out",
            End::Lost(Loss::HeldTooLong) => "max_hold is over",
            End::Lost(Loss::Taken) => "somebody else has it on a majority of the nodes",
            End::Lost(Loss::NobodyRenews) => "what renews leases has ended",
            End::Lost(Loss::ShutDown) => "the lock manager was shut down",
        };
        let votes = match end {
            End::Lost(Loss::Expired) => self.hold().doubts(),
            End::Released | End::Lost(_) => Vec::new(),
        };
        LockError::Lost {
            key: self.key().into(),
            elapsed: self.hold().held_for(),
            reason: reason.into(),
            votes,
        }
    }

    /// The same for a lease that ended before anybody could use it.
    pub(crate) fn unused_error(&self, end: End) -> LockError {
        match end {
            End::Lost(Loss::ShutDown) => LockError::ShuttingDown {
                key: self.key().into(),
                elapsed: self.hold().held_for(),
            },
            _ => self.lost_error(end),
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("keys", &self.hold().keys)
            .field("remaining", &self.hold().shown())
            .finish_non_exhaustive()
    }
}
