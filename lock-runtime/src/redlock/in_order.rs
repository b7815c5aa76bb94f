//! Asking for a lock that others are known to want: the key's first node alone, and the others only once it has granted.
//!
//! When a lock is released, everybody who waits for it hears of it at once. If they asked all nodes at once, they would
//! split the votes. Everybody ranks the nodes the same way (see [`order`](super::order)), so the first node decides: whoever it grants
//! the lock to asks the others, and everybody else has cost one command, and has nothing to give back. One round trip
//! more for the winner is the price.
//!
//! A refusal here says little: the first node may be alone in having a holder. So it is no verdict for a caller, and
//! whoever waits asks all nodes now and then.

use std::sync::Arc;

use super::attempt::{Attempt, Stragglers};
use super::claim::Claim;
use super::quorum::{Ballot, Decision, quorum};
use super::{Redlock, Refusal, Want, split};
use crate::key::LockKey;
use crate::node::{Holder, Listener};

impl Redlock {
    /// Asks for the lock once, one node before the others. See the [module](self).
    pub(crate) async fn acquire_in_order(
        self: &Arc<Self>,
        key: &LockKey,
        want: Want,
    ) -> (Result<Claim, Refusal>, Stragglers) {
        let mut attempt = match Attempt::new(self, key, want) {
            Ok(attempt) => attempt,
            Err(refusal) => return (Err(refusal), Stragglers::none()),
        };
        let ranks = self.ranks(&attempt.claim.wire);
        let most_failures = ranks.len() - quorum(ranks.len());
        for &first in ranks.iter().take(most_failures + 1) {
            attempt.ask(|node| node == first);
            if attempt.granted_by(first).await {
                attempt.ask(|_| true);
                let until = split::patience(self, want);
                let decision = split::lead(&mut attempt, until).await;
                return attempt.conclude(decision).await;
            }
            if let Some(Ballot::Held(owner)) = attempt.tally.ballot(first) {
                let owner = owner.clone();
                return attempt.conclude(Decision::Busy(owner)).await;
            }
        }
        attempt.conclude(Decision::NoQuorum).await
    }

    /// Has the first node that does it tell of the lock's releases, from when this returns on. Also says which node that is.
    pub(crate) async fn listen(&self, key: &LockKey) -> Option<(Listener, usize)> {
        let wire = key.prefixed(&self.prefix);
        for position in self.ranks(&wire) {
            let listening = Arc::clone(&self.nodes[position]);
            let listening =
                self.ask_one(position, |limit| listening.listen(Arc::clone(&wire), limit));
            if let Ok(listener) = listening.await {
                return Some((listener, position));
            }
        }
        None
    }

    /// Who has the lock, as one node says. `None`: it does not say.
    pub(crate) async fn holder(&self, key: &LockKey, position: usize) -> Option<Option<Holder>> {
        let node = Arc::clone(self.nodes.get(position)?);
        let look = self.ask_one(position, |limit| {
            node.look(key.prefixed(&self.prefix), limit)
        });
        look.await.ok()
    }
}
