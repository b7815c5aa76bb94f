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
        while let Some(state) = look() {
            watched.stands(state);
            sleep(LOOK).await;
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
