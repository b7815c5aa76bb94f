//! What becomes of a lock when its holder is done: it is handed over to the next in line, or given back to the nodes.
//!
//! Handing it over costs nothing: the nodes go on seeing one owner, whose claim one task after the other has. So it must
//! be as good as a fresh one for whoever gets it, and other processes must get their turn.

use std::time::Duration;

use tokio::time::Instant;

use super::{Turn, Wants};
use crate::redlock::claim::Claim;
use crate::redlock::validity;

/// How long after it was taken from the nodes a lock may be handed over. So other processes wait for this and for what one
/// body takes, whatever stands in line here.
const LONGEST: Duration = Duration::from_millis(50);

/// How often a lock may be handed over; and how many fencing tokens are reserved for it, with the first holder's.
const MOST: u32 = 1_000;

/// The share of its usable time that a lock may have lost when it is handed over: who gets it asked for all of it.
const AGED: u32 = 20;

/// How many fencing tokens to reserve for a lock that will be handed over, or not, to whoever wants this.
pub(crate) fn tokens(ttl: Duration, next: Option<Wants>) -> u64 {
    match next {
        Some(next) if next.alone && next.ttl == ttl => u64::from(MOST),
        _ => 1,
    }
}

/// For how long the tasks of this process let those of others go first that were told of a release. It is more than the others
/// leave the lock to one another.
const STAND_BACK: Duration = Duration::from_millis(12);

/// A lock that is held, and may be handed over: its claim, and until when it may be believed.
#[derive(Debug)]
pub(crate) struct Baton {
    pub(crate) claim: Claim,
    pub(crate) deadline: std::time::Instant,
    /// How often it was handed over.
    pub(crate) handovers: u32,
}

impl Baton {
    /// As the nodes granted it.
    pub(crate) fn fresh(claim: Claim) -> Self {
        let deadline = claim.deadline().unwrap_or_else(|| claim.now());
        Self {
            claim,
            deadline: deadline.into_std(),
            handovers: 0,
        }
    }

    /// Whether it is as good as a fresh one, for whoever wants this.
    fn suits(&self, wants: &Wants, now: Instant) -> bool {
        let deadline = tokio::time::Instant::from_std(self.deadline);
        let left = deadline.saturating_duration_since(now);
        let usable = validity::usable(self.claim.ttl()).unwrap_or_default();
        let enough = usable.saturating_sub(usable / AGED);
        let has_token = || self.claim.has_next_token();
        wants.alone
            && wants.ttl == self.claim.ttl()
            && left >= enough
            && (!wants.fenced || has_token())
    }

    /// Takes it over, with a fencing token of one's own. False: while it was on its way its time was over.
    #[must_use]
    pub(crate) fn take_over(&mut self, wants: Wants) -> bool {
        let deadline = Instant::from_std(self.deadline);
        self.handovers += 1;
        deadline > self.claim.now() && (!wants.fenced || self.claim.take_next_token())
    }

    fn may_go_on(&self, now: Instant) -> bool {
        let taken = self.claim.sent();
        self.handovers + 1 < MOST
            && now.saturating_duration_since(taken) < LONGEST
            && self.claim.may_be_handed_over(now)
    }
}

/// Ends a hold that is still good. What comes back is to be released, and then the turn ends too.
pub(crate) fn pass_on(turn: Turn, baton: Baton) -> Option<Claim> {
    let now = baton.claim.now();
    if !baton.may_go_on(now) {
        return Some(give_back(turn, baton.claim));
    }
    let (turn, baton) = turn.pass(baton, |baton, wants| baton.suits(wants, now))?;
    Some(give_back(turn, baton.claim))
}

/// The turn ends when the nodes have been told, so that the next in line comes behind the release; and a little later where
/// they have told other processes.
pub(crate) fn give_back(turn: Turn, mut claim: Claim) -> Claim {
    claim.when_given_back(move |redlock, confirmation| {
        let others = confirmation.others_were_told();
        turn.set_contended(others);
        if others {
            redlock.executor.spawn(async move {
                tokio::time::sleep(STAND_BACK).await;
                drop(turn);
            });
        }
    });
    claim
}
