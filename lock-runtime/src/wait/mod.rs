//! From wanting locks to having them: trying, waiting, and giving up in time.
//!
//! Waiting is polling with jitter. The work is done by the manager's executor, so that a caller who goes away in the
//! middle of it leaves nothing behind: his claims find nobody to take them, and are released.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;
use crate::error::LockError;
use crate::hold::{Held, Hold, Keepers, Terms};
use crate::redlock::claim::Claim;
use crate::redlock::{Cause, Redlock, Refusal, Stragglers};

/// The pause between two tries at a busy lock.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

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
    pub(crate) keepers: Keepers,
    pub(crate) max_ttl: Duration,
}

/// Takes all the locks, or none.
pub(crate) async fn acquire(core: &Arc<Core>, order: Order) -> Result<Held, LockError> {
    let key = order.terms.keys.first().cloned();
    let (answer, result) = oneshot::channel();
    core.redlock
        .executor
        .spawn(contend(Arc::clone(core), order, answer));
    result.await.unwrap_or_else(|_| {
        Err(LockError::NoQuorum {
            key: key.unwrap_or_else(|| "".into()),
            elapsed: Duration::ZERO,
            reason: "the thread or runtime of the lock manager has ended, or has no timer".into(),
            votes: Vec::new(),
        })
    })
}

async fn contend(
    core: Arc<Core>,
    order: Order,
    mut answer: oneshot::Sender<Result<Held, LockError>>,
) {
    let Core {
        redlock, keepers, ..
    } = &*core;
    let started = Instant::now();
    let (least, most) = POLL;
    let mut backoff = Backoff::new(least, most);
    let deadline = match order.patience {
        // A deadline beyond what the clock can express is none.
        Patience::For(wait) => started.checked_add(wait),
        Patience::Forever => None,
    };
    while !answer.is_closed() && !redlock.census.refuses() {
        let time_is_over = deadline.is_some_and(|deadline| deadline <= Instant::now());
        let (taken, stragglers) = {
            let gone = pin!(answer.closed());
            let turn = pin!(redlock.attempts.acquire());
            // Who goes away while he waits for his turn is in nobody's way.
            let Either::Right((Ok(_turn), _)) = select(gone, turn).await else {
                break;
            };
            take_all(redlock, &order).await
        };
        match taken {
            Ok(_) if redlock.census.refuses() => {
                redlock.executor.spawn(stragglers.finish());
                break;
            }
            Ok(claims) => {
                redlock.counters.acquired.add();
                let hold = Arc::new(Hold::new(redlock, order.terms, claims));
                keepers.keep(&hold);
                // If nobody is left to take it, it is dropped here, which releases it.
                let _ = answer.send(Ok(Held(hold)));
                stragglers.finish().await;
                return;
            }
            Err(refusal) => {
                if !stragglers.is_empty() {
                    redlock.executor.spawn(stragglers.finish());
                }
                if time_is_over {
                    let error = explain(redlock, refusal, &order, started).await;
                    let _ = answer.send(Err(error));
                    return;
                }
            }
        }
        let now = Instant::now();
        let again = now.checked_add(backoff.next()).unwrap_or(now);
        let again = deadline.map_or(again, |deadline| again.min(deadline));
        let pause = pin!(sleep_until(again));
        let gone = pin!(answer.closed());
        let refused = pin!(redlock.census.refused());
        select(pause, select(gone, refused)).await;
    }
    let key = order.terms.keys.into_iter().next();
    let refusal = LockError::ShuttingDown {
        key: key.unwrap_or_else(|| "".into()),
        elapsed: started.elapsed(),
    };
    // If it is the caller who has gone, there is nobody to be told.
    let _ = answer.send(Err(refusal));
}

/// One try at all the keys, one after the other. A refusal gives back what was taken before it.
async fn take_all(
    redlock: &Arc<Redlock>,
    order: &Order,
) -> (Result<Vec<Claim>, Refusal>, Stragglers) {
    let mut claims: Vec<Claim> = Vec::with_capacity(order.terms.keys.len());
    let mut stragglers = Stragglers::none();
    for key in &order.terms.keys {
        let (taken, late) = redlock
            .acquire(key, order.terms.ttl, order.terms.fenced)
            .await;
        stragglers.add(late);
        match taken {
            Ok(claim) => claims.push(claim),
            Err(refusal) => return (Err(refusal), stragglers),
        }
    }
    if let Err(refusal) = share_fence(&mut claims).await {
        return (Err(refusal), stragglers);
    }
    let now = Instant::now();
    // While the later ones were taken, the first ones have aged.
    if let Some(late) = claims
        .iter()
        .find(|claim| claim.deadline().is_none_or(|end| end <= now))
    {
        let refusal = late.outlived();
        return (Err(refusal), stragglers);
    }
    (Ok(claims), stragglers)
}

/// Raises the fencing tokens of several locks to one that is larger than that of every earlier holder of any of them.
async fn share_fence(claims: &mut [Claim]) -> Result<(), Refusal> {
    let largest = |claims: &[Claim]| claims.iter().filter_map(|claim| claim.fence).max();
    while let Some(token) = largest(claims)
        && claims.iter().any(|claim| claim.fence != Some(token))
    {
        for claim in &mut *claims {
            if !claim.raise_fence(token).await {
                return Err(claim.unfenced());
            }
        }
    }
    Ok(())
}

/// Puts a refusal into the words of the caller.
async fn explain(
    redlock: &Redlock,
    refusal: Refusal,
    order: &Order,
    started: Instant,
) -> LockError {
    let Refusal { key, votes, cause } = refusal;
    match cause {
        Cause::Busy { at } => {
            redlock.counters.busy.add();
            let remaining = redlock.remaining(&key, at).await;
            LockError::Busy {
                key,
                elapsed: started.elapsed(),
                retry_after: remaining.flatten().unwrap_or(order.terms.ttl),
                never_expires: remaining == Some(None),
                votes,
            }
        }
        Cause::ShuttingDown => LockError::ShuttingDown {
            key,
            elapsed: started.elapsed(),
        },
        Cause::NoQuorum(reason) => {
            redlock.counters.no_quorum.add();
            LockError::NoQuorum {
                key,
                elapsed: started.elapsed(),
                reason,
                votes,
            }
        }
    }
}
