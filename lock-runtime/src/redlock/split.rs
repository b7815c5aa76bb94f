//! What follows when nobody has a majority.
//!
//! Contenders who ask at the same instant can each win some nodes. If all gave up, nobody would run: a cron tick would be
//! skipped by everybody. If all tried again at once, they could split the votes for ever. So the nodes are ranked for
//! each key, the same way by every client (see [`order`](super::order)), and the first node decides. Whoever has it
//! keeps what he has and asks the others again, a few times; everybody else gives back what he has, and then only looks,
//! which takes nothing from the one who is collecting. A looker leaves when somebody has a majority. If instead enough
//! nodes have become free for a majority, it tries again, the first free node first and the others only once it has that.
//!
//! All of it is bounded, as somebody who holds a minority may be dead. Then the lock counts as busy.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::attempt::{Attempt, Stragglers};
use super::claim::Claim;
use super::quorum::{Ballot, Decision, quorum};
use super::{Redlock, Refusal, Want};
use crate::backoff::between;
use crate::node::Owner;

/// For how many times the node timeout a contender looks or asks again at the most.
pub(super) const PATIENCE: u32 = 10;

/// How often a contender looks or asks again before the lock counts as busy.
const ROUNDS: u32 = 24;

/// How often in a row the one who has the first node asks the others again before he gives way.
const LEAD_ROUNDS: u32 = 6;

/// The bounds of the pause before a round, which grows with the rounds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(25));

fn pause(round: u32) -> Duration {
    let (least, most) = PAUSE;
    between(least, (least * 4 * (round + 1)).min(most))
}

/// Settles a split vote. See the [module](self).
pub(super) async fn settle(
    redlock: &Arc<Redlock>,
    first: Attempt,
    want: Want,
) -> (Result<Claim, Refusal>, Stragglers) {
    let key = first.claim.key.clone();
    let ranks = redlock.ranks(&first.claim.wire);
    let until = patience(redlock, want);
    let mut refusing = Refusing::default();
    let mut attempt = first;
    if has_first_node(&attempt, &ranks) {
        match lead(&mut attempt, until).await {
            Decision::Split => {}
            decision => return attempt.conclude(decision).await,
        }
    }
    for round in 0..ROUNDS {
        if until <= Instant::now() {
            break;
        }
        refusing.note(&attempt);
        redlock.executor.spawn(attempt.give_up().finish());
        sleep(pause(round)).await;

        attempt = match Attempt::new(redlock, &key, want) {
            Ok(attempt) => attempt,
            Err(refusal) => return (Err(refusal), Stragglers::none()),
        };
        attempt.look().await;
        let gate = match attempt.tally.decide() {
            Some(decision @ (Decision::Busy(_) | Decision::NoQuorum)) => {
                return attempt.conclude(decision).await;
            }
            _ => first_free_node(&attempt, &ranks, &refusing),
        };
        if let Some(gate) = gate {
            attempt.ask(|node| node == gate);
            if attempt.granted_by(gate).await {
                attempt.ask(|_| true);
                match lead(&mut attempt, until).await {
                    Decision::Split => {}
                    decision => return attempt.conclude(decision).await,
                }
            }
        }
    }
    attempt.conclude(Decision::Split).await
}

/// Until when a contender keeps at it.
pub(super) fn patience(redlock: &Redlock, want: Want) -> Instant {
    let now = Instant::now();
    let most = redlock.node_timeout.saturating_mul(PATIENCE).min(want.ttl);
    now.checked_add(most).unwrap_or(now)
}

/// Asks the other nodes until somebody has a majority, or for long enough.
pub(super) async fn lead(attempt: &mut Attempt, until: Instant) -> Decision<Owner> {
    for round in 0..LEAD_ROUNDS {
        let refuses = attempt.claim.redlock.census.refuses();
        match attempt.decide().await {
            Decision::Split if Instant::now() < until && !refuses => {}
            decision => return decision,
        }
        sleep(pause(round)).await;
        attempt.ask(|_| true);
    }
    attempt.decide().await
}

/// Nodes that answer to a look and do not grant, because they are out of memory, say.
#[derive(Default)]
struct Refusing(Vec<usize>);

impl Refusing {
    fn note(&mut self, attempt: &Attempt) {
        self.0.extend(attempt.tally.nodes_saying(&Ballot::Failed));
    }
}

/// The first node in rank that nobody has, if there are enough such nodes for a majority.
fn first_free_node(seen: &Attempt, ranks: &[usize], refusing: &Refusing) -> Option<usize> {
    let free = |node: &usize| {
        seen.tally.ballot(*node) == Some(&Ballot::Free) && !refusing.0.contains(node)
    };
    let mut nodes = ranks.iter().copied().filter(free);
    let first = nodes.next()?;
    (nodes.count() + 1 >= quorum(ranks.len())).then_some(first)
}

/// Whether the first node in rank that answered is ours.
fn has_first_node(attempt: &Attempt, ranks: &[usize]) -> bool {
    let answered = |ballot: &&Ballot<Owner>| !matches!(ballot, Ballot::Failed);
    let first = ranks
        .iter()
        .filter_map(|&node| attempt.tally.ballot(node))
        .find(answered);
    first == Some(&Ballot::Granted)
}
