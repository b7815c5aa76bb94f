//! What is done to the nodes and to a service while the load is on, and when.

use crate::setting::{MAX_TTL, TTL};
use crate::stage::{NODES, Stage};
use lock_tests::{Disk, Mode};
use std::time::Duration;

/// Something that is done to some of them at once, and undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// `SIGKILL` to a node; it is started again, on the disk that it had.
    NodeKilled(usize),
    /// `SIGKILL` to a service; it is started again.
    ServiceKilled(usize),
    /// `SIGSTOP` to a node, and `SIGCONT`.
    NodePaused(usize),
    /// Nothing passes between a node and the services; connections stay open.
    NodeCutOff(usize),
    /// As many nodes as make a majority are cut off.
    MajorityCutOff,
}

/// A trouble with its time, since the load began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) trouble: Trouble,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// Where in the time that all customers are there, in percent, each begins and ends. At most two nodes are out at a time until
/// the last one: the node that was killed has no vote for a `max_ttl`, which is a minute. The service is killed early, as its
/// locks are gone only with their TTL.
const PLAN: [(Trouble, u32, u32); 5] = [
    (Trouble::NodeKilled(0), 10, 15),
    (Trouble::ServiceKilled(1), 19, 25),
    (Trouble::NodePaused(1), 31, 41),
    (Trouble::NodeCutOff(2), 45, 55),
    (Trouble::MajorityCutOff, 59, 70),
];

/// The plan for a load that has all its customers from `ramp` on, for `hold`.
pub(crate) fn plan(ramp: Duration, hold: Duration) -> Vec<Fault> {
    let at = |percent| ramp + hold * percent / 100;
    let fault = |(trouble, from, to)| Fault {
        trouble,
        from: at(from),
        to: at(to),
    };
    PLAN.map(fault).into()
}

impl Fault {
    /// What stays of it when it is over, and until when.
    pub(crate) fn aftermath(&self) -> Option<(String, Duration)> {
        match self.trouble {
            Trouble::NodeKilled(_) => Some((
                format!("then no vote for {} s", MAX_TTL.as_secs()),
                self.to + MAX_TTL,
            )),
            Trouble::ServiceKilled(_) => Some((
                format!("its locks last {} s", TTL.as_secs()),
                self.from + TTL,
            )),
            _ => None,
        }
    }
}

impl Trouble {
    pub(crate) fn name(self) -> String {
        match self {
            Self::NodeKilled(node) => format!("node {} killed", node + 1),
            Self::ServiceKilled(service) => format!("service {} killed", service + 1),
            Self::NodePaused(node) => format!("node {} paused", node + 1),
            Self::NodeCutOff(node) => format!("node {} cut off", node + 1),
            Self::MajorityCutOff => {
                let first = NODES - majority().count() + 1;
                format!("nodes {first} to {NODES} cut off")
            }
        }
    }

    pub(crate) fn begin(self, stage: &mut Stage) {
        let (servers, proxies) = (stage.fleet.servers(), stage.fleet.proxies());
        match self {
            Self::NodeKilled(node) => servers[node].kill(),
            Self::ServiceKilled(service) => stage.services[service].kill(),
            Self::NodePaused(node) => servers[node].pause(),
            Self::NodeCutOff(node) => proxies[node].set(Mode::Blackhole),
            Self::MajorityCutOff => majority().for_each(|node| proxies[node].set(Mode::Blackhole)),
        }
    }

    /// Returns once that is undone: what was killed answers again.
    pub(crate) async fn end(self, stage: &mut Stage) {
        let (servers, proxies) = (stage.fleet.servers(), stage.fleet.proxies());
        match self {
            Self::NodeKilled(node) => servers[node].restart(Disk::Keep).await,
            Self::ServiceKilled(service) => stage.services[service].start().await,
            Self::NodePaused(node) => servers[node].resume(),
            Self::NodeCutOff(node) => proxies[node].set(Mode::Pass),
            Self::MajorityCutOff => majority().for_each(|node| proxies[node].set(Mode::Pass)),
        }
    }
}

/// The last ones.
fn majority() -> std::ops::Range<usize> {
    NODES - (NODES / 2 + 1)..NODES
}
