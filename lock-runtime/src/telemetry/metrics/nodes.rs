//! What is told of nodes. Embedded ones have nothing to tell: they are where the process is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Key, Label, with_recorder};
use tokio::time::{Instant, sleep};

use super::catalogue::{FAILURES, KINDS, ROUND_TRIP, UP, VOTES};
use super::{ByWord, METADATA, observe};
use crate::clock;
use crate::telemetry::NodeState;

/// How often it is looked how a node stands. Who scrapes does so less often.
const LOOK: Duration = Duration::from_secs(1);

/// How often until its vote counts for the first time: a service is ready at that moment, and should not be seen without its nodes.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// At most so many times: five seconds. A node that has no vote by then is not about to have one.
const FIRST_LOOKS: u32 = 100;

fn label(node: &Arc<str>) -> Label {
    Label::new("node", Arc::clone(node))
}

fn failures(node: &Arc<str>) -> ByWord {
    ByWord::new(FAILURES, &label(node), "kind", &KINDS)
}

/// What is told of the requests to one node.
pub(crate) struct NodeMeter {
    round_trip: Key,
    failures: ByWord,
}

impl fmt::Debug for NodeMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMeter").finish_non_exhaustive()
    }
}

impl NodeMeter {
    pub(crate) fn new(node: &Arc<str>) -> Self {
        Self {
            round_trip: Key::from_parts(ROUND_TRIP, vec![label(node)]),
            failures: failures(node),
        }
    }

    /// It has answered to what it was asked then.
    pub(crate) fn answered(&self, asked: Instant) {
        let time = clock::now().saturating_duration_since(asked);
        observe(&self.round_trip, time.as_secs_f64());
    }

    pub(crate) fn failed(&self, kind: &'static str) {
        self.failures.count(kind);
    }
}

/// Tells again and again how a node stands, until there is none to `look` at. Then, and also where this is dropped, it is
/// neither up nor has it a vote: nobody would say so later.
#[expect(
    clippy::unnecessary_wraps,
    reason = "without the feature there is nothing to be run"
)]
pub(crate) fn watch<L: Fn() -> Option<NodeState>>(
    node: &Arc<str>,
    look: L,
) -> Option<impl Future<Output = ()> + use<L>> {
    let watched = Watched {
        up: Key::from_parts(UP, vec![label(node)]),
        votes: Key::from_parts(VOTES, vec![label(node)]),
        failures: failures(node),
    };
    watched.stands(NodeState::default());
    Some(async move {
        let mut first_looks = FIRST_LOOKS;
        while let Some(state) = look() {
            watched.stands(state);
            first_looks = if state.votes {
                0
            } else {
                first_looks.saturating_sub(1)
            };
            sleep(if first_looks > 0 { FIRST_LOOK } else { LOOK }).await;
        }
    })
}

struct Watched {
    up: Key,
    votes: Key,
    failures: ByWord,
}

impl Watched {
    fn stands(&self, state: NodeState) {
        with_recorder(|recorder| {
            for (key, is) in [(&self.up, state.up), (&self.votes, state.votes)] {
                let gauge = recorder.register_gauge(key, &METADATA);
                gauge.set(if is { 1.0 } else { 0.0 });
            }
        });
        self.failures.begin();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stands(NodeState::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// When it is looked in the first ten seconds, at a node whose vote counts from then on and for so long.
    async fn looks(from: Duration, until: Duration) -> Vec<Duration> {
        let began = Instant::now();
        let looks = RefCell::new(Vec::new());
        let look = || {
            let passed = began.elapsed();
            looks.borrow_mut().push(passed);
            let votes = (from..until).contains(&passed);
            (passed < 10 * LOOK).then_some(NodeState { up: votes, votes })
        };
        let watch = watch(&"node".into(), look);
        watch.expect("with the feature it is looked").await;
        looks.into_inner()
    }

    /// The longest time from one look to the next, of those that begin in this time.
    fn longest(looks: &[Duration], from: Duration, until: Duration) -> Duration {
        let pauses = looks.windows(2);
        let pauses = pauses.filter(|pair| (from..until).contains(&pair[0]));
        pauses
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .max()
            .unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_vote_is_told_soon_after_the_start() {
        for from in [0, 1, 180, 999, 4_000].map(|millis| millis * MILLISECOND) {
            let looks = looks(from, Duration::MAX).await;
            let seen = looks.iter().find(|at| **at >= from).expect("it is seen");
            assert!(*seen <= from + FIRST_LOOK + 2 * MILLISECOND, "{looks:?}");
            let later = longest(&looks, *seen, Duration::MAX);
            assert!(
                later >= LOOK && later <= LOOK + 2 * MILLISECOND,
                "{looks:?}"
            );
            let after = looks.iter().filter(|at| *at > seen).count();
            assert!(after <= 11, "once a second: {looks:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_vote_comes_it_is_looked_often_for_a_while_only() {
        let looks = looks(Duration::MAX, Duration::MAX).await;
        let soon = FIRST_LOOK * FIRST_LOOKS;
        assert!(looks.len() <= 106, "{looks:?}");
        assert!(longest(&looks, Duration::ZERO, soon.saturating_sub(LOOK)) < 2 * FIRST_LOOK);
        assert!(longest(&looks, soon + LOOK, 9 * LOOK) >= LOOK, "{looks:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_loses_its_vote_is_looked_at_once_a_second() {
        let looks = looks(Duration::ZERO, 2 * LOOK).await;
        assert!(looks.len() <= 11, "{looks:?}");
    }
}
