//! From wanting locks to having them: standing in line in this process, trying, waiting, and giving up in time.
//!
//! Whoever has the turn for a key (see [`queue`](crate::queue)) contends with other processes for it. That work is done by
//! the manager's executor, so that a caller who goes away in the middle of it leaves nothing behind: his claims find nobody
//! to take them, and are released, or go to the next in line.

mod contender;
mod news;
mod taking;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::error::LockError;
use crate::hold::{Held, Hold, Keepers, Terms};
use crate::key::LockKey;
use crate::queue::{Baton, Called, Handed, Joined, Queue, Turn, Until, Verdict, Wants};
use crate::redlock::Redlock;
use crate::telemetry::Meters;
use contender::Contender;

/// What is wanted, and was found to be possible.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) terms: Terms,
    pub(crate) patience: Patience,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    For(Duration),
    Forever,
}

/// What locks are taken on, and what looks after them.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) redlock: Arc<Redlock>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) keepers: Keepers,
    pub(crate) max_ttl: Duration,
    pub(crate) meters: Meters,
}

impl Core {
    pub(crate) fn new(redlock: Redlock, max_ttl: Duration) -> Self {
        let grace = redlock.longest_try();
        Self {
            redlock: Arc::new(redlock),
            queue: Arc::new(Queue::new(grace)),
            keepers: Keepers::default(),
            max_ttl,
            meters: Meters::new(),
        }
    }

    /// From now on nothing more is taken.
    pub(crate) fn refuse(&self) {
        self.redlock.refuse();
        self.queue.close();
    }

    /// Has the locks held from now on.
    fn hold(
        &self,
        terms: Terms,
        attempts: u32,
        batons: impl IntoIterator<Item = (Turn, Baton)>,
    ) -> Held {
        self.redlock.counters.acquired.add();
        let hold = Hold::new(&self.redlock, terms, attempts, batons);
        self.keepers.keep(&hold);
        Held(hold)
    }

    /// Gets in line, and waits for the turn.
    async fn stand_in_line(&self, key: &LockKey, wants: Wants, until: Until) -> Called {
        match self.queue.join(key, wants, until, &self.redlock.executor) {
            Joined::Turn(turn) => Called::Turn(turn),
            Joined::Behind(place) => place.await,
            Joined::Refused(verdict) => Called::Refused(verdict),
        }
    }
}

/// What came of wanting locks.
pub(crate) struct Taken {
    pub(crate) held: Result<Held, LockError>,
    /// How often the nodes were asked for them.
    pub(crate) attempts: u32,
}

/// It was not tried.
impl From<LockError> for Taken {
    fn from(error: LockError) -> Self {
        Self {
            held: Err(error),
            attempts: 0,
        }
    }
}

/// Takes all the locks, or none.
pub(crate) async fn acquire(core: &Arc<Core>, order: Order) -> Taken {
    let started = core.redlock.executor.now();
    let key = order.terms.keys.first().cloned();
    let key = key.unwrap_or_else(|| "".into());
    let ttl = order.terms.ttl;
    let until = match order.patience {
        Patience::For(wait) if wait.is_zero() => Until::FirstVerdict,
        // A deadline beyond what the clock can express is none.
        Patience::For(wait) => started
            .checked_add(wait)
            .map_or(Until::Forever, Until::Deadline),
        Patience::Forever => Until::Forever,
    };
    let taken = match &*order.terms.keys {
        [key] => {
            let wants = order.terms.wants();
            match core.stand_in_line(key, wants, until).await {
                Called::Turn(turn) => contend(core, order.terms, until, vec![turn]).await,
                Called::HandedOver(handed) => take_over(core, order.terms, until, handed).await,
                Called::Refused(verdict) => Err(Vain::told(verdict)),
            }
        }
        // The turns are not all to be had at once.
        _ => contend(core, order.terms, until, Vec::new()).await,
    };
    let held = taken.map_err(|vain| {
        let now = core.redlock.executor.now();
        let verdict = vain.verdict.unwrap_or_else(|| Verdict::nothing_works(&key));
        let error = verdict.into_error(&key, ttl, now.saturating_duration_since(started));
        match error {
            LockError::Busy { .. } => core.redlock.counters.busy.add(),
            LockError::NoQuorum { .. } => core.redlock.counters.no_quorum.add(),
            _ => {}
        }
        (error, vain.attempts)
    });
    match held {
        Ok(held) => Taken {
            attempts: held.0.attempts,
            held: Ok(held),
        },
        Err((error, attempts)) => Taken {
            held: Err(error),
            attempts,
        },
    }
}

/// No locks.
struct Vain {
    /// `None`: it cannot be tried here.
    verdict: Option<Verdict>,
    attempts: u32,
}

impl Vain {
    /// Without having asked the nodes.
    fn told(verdict: impl Into<Option<Verdict>>) -> Self {
        Self {
            verdict: verdict.into(),
            attempts: 0,
        }
    }
}

/// Holds what was handed over; or contends for it, if that was too late.
async fn take_over(
    core: &Arc<Core>,
    terms: Terms,
    until: Until,
    handed: Handed,
) -> Result<Held, Vain> {
    if core.redlock.census.refuses() {
        return Err(Vain::told(Verdict::ShuttingDown));
    }
    let Some((turn, mut baton)) = handed.into_inner() else {
        return Err(Vain::told(None));
    };
    if baton.take_over(terms.wants()) {
        core.redlock.counters.handed_over.add();
        terms.named.handed_over();
        return Ok(core.hold(terms, 0, [(turn, baton)]));
    }
    drop(baton);
    contend(core, terms, until, vec![turn]).await
}

/// Contends for the locks on the executor.
async fn contend(
    core: &Arc<Core>,
    terms: Terms,
    until: Until,
    turns: Vec<Turn>,
) -> Result<Held, Vain> {
    let (answer, result) = oneshot::channel();
    let contender = Contender::new(core, terms, until, answer);
    core.redlock.executor.spawn(contender.run(turns));
    result.await.unwrap_or_else(|_| Err(Vain::told(None)))
}
