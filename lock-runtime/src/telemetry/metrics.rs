//! What a recorder of the `metrics` facade is told. Labels are names of functions and of nodes and closed sets of words, and
//! never a key.
//!
//! A handle is looked up each time it is used, and not kept: so it makes no difference whether the recorder was installed
//! before the manager was built.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Unit, with_recorder};
use tokio::time::{Instant, sleep};

use super::{Attempted, NodeState, Outcome, Renewal};
use crate::clock;

const ACQUISITIONS: &str = "lock_acquisitions_total";
const WAIT: &str = "lock_wait_seconds";
const HOLD: &str = "lock_hold_seconds";
const HOLD_RATIO: &str = "lock_hold_ratio";
const RENEWALS: &str = "lock_renewals_total";
const LOSSES: &str = "lock_losses_total";
const RELEASES_FAILED: &str = "lock_releases_failed_total";
const WAITERS: &str = "lock_waiters";
const HANDOVERS: &str = "lock_handovers_total";
const ATTEMPTS: &str = "lock_quorum_attempts_total";
const ROUND_TRIP: &str = "lock_node_round_trip_seconds";
const FAILURES: &str = "lock_node_failures_total";
const UP: &str = "lock_node_up";
const VOTES: &str = "lock_node_votes";

/// How often it is looked how a node stands. Who scrapes does so less often.
const LOOK: Duration = Duration::from_secs(1);

static METADATA: Metadata<'static> =
    Metadata::new("lock_runtime", Level::INFO, Some(module_path!()));

/// Whether a recorder was told what there is.
#[derive(Debug, Default)]
pub(crate) struct Described(AtomicBool);

impl Described {
    /// Tells it with the first call of a manager: whoever installs a recorder has done it by then.
    pub(crate) fn once(&self) {
        if !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed) {
            describe();
        }
    }
}

fn describe() {
    let count = Unit::Count;
    let counters = [
        (ACQUISITIONS, "Calls that wanted a lock, by how that ended"),
        (
            RENEWALS,
            "Renewals of locks that are held, by what came of it",
        ),
        (
            LOSSES,
            "Leases that ended before they were released, by why",
        ),
        (
            RELEASES_FAILED,
            "Releases that no majority of the nodes confirmed",
        ),
        (
            HANDOVERS,
            "Locks handed over within the process, without asking the nodes",
        ),
        (
            ATTEMPTS,
            "Attempts at a lock on the nodes, by what they said together",
        ),
        (
            FAILURES,
            "Requests that a node gave no usable answer to, by why",
        ),
    ];
    let gauges = [
        (WAITERS, "Calls that wait for a lock now"),
        (UP, "Whether the node is connected and answers"),
        (VOTES, "Whether the node's vote counts"),
    ];
    let histograms = [
        (
            WAIT,
            Unit::Seconds,
            "How long calls wanted a lock, by how that ended",
        ),
        (
            HOLD,
            Unit::Seconds,
            "From a lock's acquisition to its release or loss",
        ),
        (HOLD_RATIO, Unit::Count, "The same as a fraction of the TTL"),
        (
            ROUND_TRIP,
            Unit::Seconds,
            "From a request to a node to its answer",
        ),
    ];
    with_recorder(|recorder| {
        for (name, words) in counters {
            recorder.describe_counter(name.into(), Some(count), words.into());
        }
        for (name, words) in gauges {
            recorder.describe_gauge(name.into(), Some(count), words.into());
        }
        for (name, unit, words) in histograms {
            recorder.describe_histogram(name.into(), Some(unit), words.into());
        }
    });
}

fn name(name: &'static str) -> Label {
    Label::from_static_parts("name", name)
}

fn outcome(outcome: &'static str) -> Label {
    Label::from_static_parts("outcome", outcome)
}

fn count(metric: &'static str, labels: Vec<Label>) {
    count_key(&Key::from_parts(metric, labels));
}

fn count_key(key: &Key) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

fn observe(metric: &'static str, labels: Vec<Label>, value: f64) {
    observe_key(&Key::from_parts(metric, labels), value);
}

fn observe_key(key: &Key, value: f64) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(value));
}

/// A call that wants a lock, until it has it or not: it waits, and ends in one way, also by being dropped.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    began: Instant,
    /// `None`: its caller went away.
    outcome: Option<Outcome>,
}

impl Call {
    pub(crate) fn begin(label: &'static str) -> Self {
        let key = Key::from_parts(WAITERS, vec![name(label)]);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(1.0));
        Self {
            name: label,
            began: clock::now(),
            outcome: None,
        }
    }

    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let waited = clock::now().saturating_duration_since(self.began);
        let ended = match self.outcome {
            Some(Outcome::Acquired) => "acquired",
            Some(Outcome::Busy) => "busy",
            Some(Outcome::NoQuorum) => "no_quorum",
            Some(Outcome::Refused) => "refused",
            None => "cancelled",
        };
        let key = Key::from_parts(WAITERS, vec![name(self.name)]);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).decrement(1.0));
        count(ACQUISITIONS, vec![name(self.name), outcome(ended)]);
        let labels = vec![name(self.name), outcome(ended)];
        observe(WAIT, labels, waited.as_secs_f64());
    }
}

pub(crate) fn handed_over(label: &'static str) {
    count(HANDOVERS, vec![name(label)]);
}

pub(crate) fn held(label: &'static str, time: Duration, ttl: Duration) {
    observe(HOLD, vec![name(label)], time.as_secs_f64());
    observe(HOLD_RATIO, vec![name(label)], time.div_duration_f64(ttl));
}

pub(crate) fn lost(label: &'static str, reason: &'static str) {
    let reason = Label::from_static_parts("reason", reason);
    count(LOSSES, vec![name(label), reason]);
}

pub(crate) fn renewed(label: &'static str, renewal: Renewal) {
    let word = match renewal {
        Renewal::Renewed => "renewed",
        Renewal::Inconclusive => "inconclusive",
        Renewal::Lost => "lost",
    };
    count(RENEWALS, vec![name(label), outcome(word)]);
}

pub(crate) fn release_failed(label: &'static str) {
    count(RELEASES_FAILED, vec![name(label)]);
}

pub(crate) fn attempted(attempted: Attempted) {
    macro_rules! key {
        ($word:literal) => {{
            static LABELS: [Label; 1] = [Label::from_static_parts("outcome", $word)];
            static KEY: Key = Key::from_static_parts(ATTEMPTS, &LABELS);
            &KEY
        }};
    }
    count_key(match attempted {
        Attempted::Granted => key!("granted"),
        Attempted::Busy => key!("busy"),
        Attempted::Split => key!("split"),
        Attempted::Failed => key!("failed"),
    });
}

/// What is told of the requests to one node.
#[derive(Debug)]
pub(crate) struct NodeMeter {
    name: Arc<str>,
    round_trip: Key,
}

impl NodeMeter {
    pub(crate) fn new(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            round_trip: of_node(ROUND_TRIP, name),
        }
    }

    /// It has answered to what it was asked then.
    pub(crate) fn answered(&self, asked: Instant) {
        let time = clock::now().saturating_duration_since(asked);
        observe_key(&self.round_trip, time.as_secs_f64());
    }

    pub(crate) fn failed(&self, kind: &'static str) {
        let node = Label::new("node", Arc::clone(&self.name));
        let kind = Label::from_static_parts("kind", kind);
        count(FAILURES, vec![node, kind]);
    }
}

fn of_node(metric: &'static str, node: &Arc<str>) -> Key {
    Key::from_parts(metric, vec![Label::new("node", Arc::clone(node))])
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
        up: of_node(UP, node),
        votes: of_node(VOTES, node),
    };
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
}

impl Watched {
    fn stands(&self, state: NodeState) {
        let value = |is: bool| f64::from(u8::from(is));
        with_recorder(|recorder| {
            let up = recorder.register_gauge(&self.up, &METADATA);
            up.set(value(state.up));
            let votes = recorder.register_gauge(&self.votes, &METADATA);
            votes.set(value(state.votes));
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stands(NodeState::default());
    }
}
