//! Wall clocks, against one another.

use std::time::Duration;

use super::{Deployment, Findings, Found, Severity};
use crate::check::finding::FindingKind;
use crate::node::facts::Reading;

/// What differs less is of no interest to anybody.
const TOLERATED: Duration = Duration::from_secs(1);

/// What a clock shows at the moment at which our own was looked at.
#[derive(Clone, Copy)]
struct Shown {
    time: Duration,
    uncertain: Duration,
}

pub(super) fn compare(deployment: &Deployment, found: &mut Findings) {
    let (at, own) = deployment.own_clock;
    let shown = |reading: &Reading| Shown {
        time: if at >= reading.at {
            reading.said.saturating_add(at - reading.at)
        } else {
            reading.said.saturating_sub(reading.at - at)
        },
        uncertain: reading.uncertain,
    };
    let mut clocks = Vec::new();
    for node in &deployment.nodes {
        for server in &node.servers {
            if let Found::Facts(facts) = &server.found
                && let Some(reading) = &facts.clock
            {
                clocks.push((&node.node, shown(reading)));
            }
        }
    }
    let mut times: Vec<Shown> = clocks.iter().map(|(_, clock)| *clock).collect();
    times.sort_by_key(|clock| clock.time);
    let Some(median) = times.get(times.len() / 2).copied() else {
        return;
    };
    for (node, clock) in clocks {
        if let Some((by, ahead)) = apart(clock, median) {
            found.add(
                Severity::Warning,
                node,
                FindingKind::ClockApart { by, ahead },
            );
        }
    }
    let own = Shown {
        time: own,
        uncertain: Duration::ZERO,
    };
    if let Some((by, ahead)) = apart(own, median) {
        found.add_of_all(Severity::Note, FindingKind::OwnClockApart { by, ahead });
    }
}

/// By how much two clocks differ, if it is worth to be told, and whether the first is ahead.
fn apart(one: Shown, other: Shown) -> Option<(Duration, bool)> {
    let by = one.time.abs_diff(other.time);
    let tolerated = TOLERATED
        .saturating_add(one.uncertain)
        .saturating_add(other.uncertain);
    let tenths = by.as_millis() / 100;
    let rounded = Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX));
    (by > tolerated).then_some((rounded, one.time > other.time))
}
