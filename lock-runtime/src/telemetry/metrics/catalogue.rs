//! All metrics: names, units, meanings and words. `docs/telemetry.md` says the same at more length.

use metrics::{Unit, with_recorder};

use crate::hold::Loss;
use crate::node::Failure;
use crate::telemetry::{Outcome, Renewal};

pub(super) const ACQUISITIONS: &str = "lock_acquisitions_total";
pub(super) const WAIT: &str = "lock_wait_seconds";
pub(super) const HOLD: &str = "lock_hold_seconds";
pub(super) const HOLD_RATIO: &str = "lock_hold_ratio";
pub(super) const RENEWALS: &str = "lock_renewals_total";
pub(super) const LOSSES: &str = "lock_losses_total";
pub(super) const RELEASES_FAILED: &str = "lock_releases_failed_total";
pub(super) const WAITERS: &str = "lock_waiters";
pub(super) const HANDOVERS: &str = "lock_handovers_total";
pub(super) const ATTEMPTS: &str = "lock_quorum_attempts_total";
pub(super) const ROUND_TRIP: &str = "lock_node_round_trip_seconds";
pub(super) const FAILURES: &str = "lock_node_failures_total";
pub(super) const UP: &str = "lock_node_up";
pub(super) const VOTES: &str = "lock_node_votes";

pub(super) const OUTCOMES: [&str; 5] = [
    Outcome::Acquired.word(),
    Outcome::Busy.word(),
    Outcome::NoQuorum.word(),
    Outcome::Refused.word(),
    Outcome::Cancelled.word(),
];

pub(super) const RENEWED: [&str; 3] = [
    renewed(Renewal::Renewed),
    renewed(Renewal::Inconclusive),
    renewed(Renewal::Lost),
];

pub(super) const fn renewed(renewal: Renewal) -> &'static str {
    match renewal {
        Renewal::Renewed => "renewed",
        Renewal::Inconclusive => "inconclusive",
        Renewal::Lost => "lost",
    }
}

pub(super) const REASONS: [&str; 5] = [
    Loss::Expired.word(),
    Loss::Taken.word(),
    Loss::HeldTooLong.word(),
    Loss::NobodyRenews.word(),
    Loss::ShutDown.word(),
];

pub(super) const KINDS: [&str; 3] = [
    Failure::Silent.word(),
    Failure::Unreachable.word(),
    Failure::Refused.word(),
];

pub(super) fn describe() {
    let counters = [
        (ACQUISITIONS, "Calls that wanted a lock, by how that ended"),
        (RENEWALS, "Renewals of locks, by what came of them"),
        (
            LOSSES,
            "Leases that ended before their holder was done, by why",
        ),
        (
            RELEASES_FAILED,
            "Releases that no majority of the nodes confirmed",
        ),
        (HANDOVERS, "Locks handed over within the process"),
        (
            ATTEMPTS,
            "Attempts at a lock, by what the nodes said together",
        ),
        (FAILURES, "Requests without a usable answer, by why"),
    ];
    let gauges = [
        (WAITERS, "Calls that wait for a lock now"),
        (UP, "Whether the node is connected and answers"),
        (VOTES, "Whether the vote of the node counts"),
    ];
    let histograms = [
        (WAIT, Unit::Seconds, "From a call to the end of its wait"),
        (
            HOLD,
            Unit::Seconds,
            "From an acquisition to the release or loss",
        ),
        (HOLD_RATIO, Unit::Count, "The same as a fraction of the TTL"),
        (ROUND_TRIP, Unit::Seconds, "From a request to its answer"),
    ];
    with_recorder(|recorder| {
        for (name, words) in counters {
            recorder.describe_counter(name.into(), Some(Unit::Count), words.into());
        }
        for (name, words) in gauges {
            recorder.describe_gauge(name.into(), Some(Unit::Count), words.into());
        }
        for (name, unit, words) in histograms {
            recorder.describe_histogram(name.into(), Some(unit), words.into());
        }
    });
}
