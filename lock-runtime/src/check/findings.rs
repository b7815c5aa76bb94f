//! From what is known of the nodes to what somebody should know. Pure: neither nodes nor a clock are asked.

use std::sync::Arc;
use std::time::Duration;

use std::time::Instant;

use super::finding::{Finding, FindingKind, Severity};
use crate::node::Standing;
use crate::node::facts::{Facts, Found, Info, Missing, Sentinels, Server, Transport};
use crate::node::trouble::{Trouble, Unfit};

mod clocks;

/// What a check looks at.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) nodes: Vec<Examined>,
    pub(super) needed: usize,
    pub(super) node_timeout: Duration,
    pub(super) max_ttl: Duration,
    /// The wall clock of this process, since 1970, and when it was looked at.
    pub(super) own_clock: (Instant, Duration),
}

/// A node and its servers.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) node: Arc<str>,
    pub(super) servers: Vec<Server>,
}

impl Examined {
    /// Whether a lock would be granted there, if nobody had it.
    pub(super) fn votes(&self) -> bool {
        !self.servers.is_empty() && self.servers.iter().all(server_votes)
    }
}

pub(super) fn server_votes(server: &Server) -> bool {
    let has_vote = match &server.found {
        Found::Facts(facts) => facts.standing == Standing::Votes,
        Found::Embedded | Found::Trouble(_) => true,
    };
    has_vote && server_would_vote(server)
}

/// Once it is old enough, or known to be new.
fn server_would_vote(server: &Server) -> bool {
    match &server.found {
        Found::Embedded => true,
        Found::Facts(facts) => {
            lacks(facts).is_none() && facts.refuses_writes.is_none() && facts.has_replicas()
        }
        Found::Trouble(_) => false,
    }
}

/// Something without which it grants no lock.
pub(super) fn lacks(facts: &Facts) -> Option<&Missing> {
    facts.missing.iter().find(|missing| is_vital(missing))
}

/// The oldest server that locks are tested with.
const OLDEST: (u32, u32) = (6, 2);

/// Fewer round trips than this in a `node_timeout`, and a hiccup is taken for an outage.
const ROUND_TRIPS: u32 = 4;

/// Fewer `node_timeout`s than this in a `max_ttl`, and little is left of a lease that had to wait for a node.
const TIMEOUTS: u32 = 10;

/// For longer than this no node should be out after a restart without somebody knowing it.
const LONG_MAX_TTL: Duration = Duration::from_secs(600);

/// Everything that is to be said, worst first.
pub(super) fn findings(deployment: &Deployment) -> Vec<Finding> {
    let mut found = Findings {
        single: deployment.nodes.len() == 1,
        ..Findings::default()
    };
    found.votes(deployment);
    for node in &deployment.nodes {
        for server in &node.servers {
            let name = if node.servers.len() == 1 {
                &node.node
            } else {
                &server.name
            };
            match &server.found {
                Found::Embedded => found.add(Severity::Warning, name, FindingKind::Embedded {}),
                Found::Trouble(trouble) => found.trouble(deployment, name, trouble),
                Found::Facts(facts) => found.facts(deployment, name, facts),
            }
        }
    }
    clocks::compare(deployment, &mut found);
    found.numbers(deployment);
    found
        .all
        .sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found.all
}

#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    /// A node is all that there is.
    single: bool,
    /// What a node that has no vote means.
    without_vote: Option<Severity>,
    all_are_new: bool,
}

impl Findings {
    /// The same about several nodes is said once.
    fn add(&mut self, severity: Severity, node: &Arc<str>, kind: FindingKind) {
        let known = self.all.iter_mut();
        let mut known = known.filter(|known| !known.nodes.is_empty());
        match known.find(|known| known.severity == severity && known.kind == kind) {
            Some(known) => known.nodes.push(Arc::clone(node)),
            None => self.all.push(Finding {
                severity,
                nodes: vec![Arc::clone(node)],
                kind,
                is_single: self.single,
            }),
        }
    }

    fn add_of_all(&mut self, severity: Severity, kind: FindingKind) {
        self.all.push(Finding {
            severity,
            nodes: Vec::new(),
            kind,
            is_single: self.single,
        });
    }

    fn votes(&mut self, deployment: &Deployment) {
        let nodes = &deployment.nodes;
        let is_new = |server: &Server| match &server.found {
            Found::Facts(facts) => matches!(
                facts.standing,
                Standing::Abstains {
                    unknown: Some(_),
                    ..
                }
            ),
            Found::Embedded | Found::Trouble(_) => false,
        };
        self.all_are_new = nodes
            .iter()
            .all(|node| !node.servers.is_empty() && node.servers.iter().all(is_new));
        // The first lock gives new nodes their votes, and what a server has against writes it has then, too.
        let has_vote = |node: &&Examined| {
            if self.all_are_new {
                node.servers.iter().all(server_would_vote)
            } else {
                node.votes()
            }
        };
        let voting = nodes.iter().filter(has_vote).count();
        let needed = deployment.needed;
        if self.all_are_new && voting >= needed {
            self.add_of_all(Severity::Note, FindingKind::New {});
            return;
        }
        self.without_vote = Some(Severity::Warning);
        if voting < needed {
            self.without_vote = Some(Severity::Problem);
            self.add_of_all(Severity::Problem, FindingKind::NoQuorum { voting, needed });
        }
    }

    fn trouble(&mut self, deployment: &Deployment, node: &Arc<str>, trouble: &Trouble) {
        let lasting = Severity::Problem;
        match &trouble.unfit {
            Some(Unfit::Replica { of }) => {
                let primary = primary(deployment, node, of.as_deref());
                let of = of.as_deref().map(Arc::from);
                let kind = FindingKind::Replica { of, node: primary };
                self.add(lasting, node, kind);
            }
            Some(Unfit::SameServer { node: other }) => {
                let other = Arc::clone(other);
                self.add(lasting, node, FindingKind::SameServer { node: other });
            }
            Some(Unfit::OfCluster) => self.add(lasting, node, FindingKind::InCluster {}),
            Some(Unfit::Sentinel | Unfit::ByItself) => self.down(lasting, node, trouble),
            None => {
                let severity = self.without_vote.unwrap_or(Severity::Warning);
                self.down(severity, node, trouble);
            }
        }
    }

    fn down(&mut self, severity: Severity, node: &Arc<str>, trouble: &Trouble) {
        let Trouble { reason, cause, .. } = trouble.clone();
        self.add(severity, node, FindingKind::Down { reason, cause });
    }

    fn facts(&mut self, deployment: &Deployment, node: &Arc<str>, facts: &Facts) {
        let without_vote = self.without_vote.unwrap_or(Severity::Warning);
        if let Standing::Abstains { for_another, .. } = facts.standing
            && !self.all_are_new
        {
            let whole = for_another.as_millis().div_ceil(1000);
            let for_another = Duration::from_secs(u64::try_from(whole).unwrap_or(u64::MAX));
            self.add(without_vote, node, FindingKind::Young { for_another });
        }
        match &facts.info {
            Ok(info) => {
                self.version(node, info);
                self.replicas(node, info, facts.waits_for);
                self.memory(node, info);
                self.disk(node, info, facts);
            }
            Err(reason) => self.not_looked_at(
                Severity::Warning,
                node,
                ("version, role, uptime, memory and disk (INFO)", "+info"),
                reason,
            ),
        }
        if let Err(reason) = facts.appendfsync.as_ref().and(facts.save.as_ref()) {
            let settings = ("how it writes to disk (CONFIG GET)", "+config|get");
            self.not_looked_at(Severity::Note, node, settings, reason);
        }
        if let Some(reason) = &facts.refuses_writes {
            let reason = Arc::clone(reason);
            self.add(without_vote, node, FindingKind::RefusesWrites { reason });
        }
        self.permissions(node, &facts.missing);
        if let Some(reason) = &facts.is_deaf
            && !facts.missing.iter().any(is_about_listening)
        {
            let reason = Arc::clone(reason);
            self.add(Severity::Warning, node, FindingKind::Deaf { reason });
        }
        if facts.transport == Transport::Plain {
            self.add(Severity::Warning, node, FindingKind::PlainText {});
        }
        if let Some(Sentinels { named, known }) = facts.sentinels {
            let kind = FindingKind::SentinelsNotNamed { named, known };
            self.add(Severity::Warning, node, kind);
        }
        let (round_trip, node_timeout) = (facts.round_trip, deployment.node_timeout);
        if round_trip.saturating_mul(ROUND_TRIPS) > node_timeout {
            let kind = FindingKind::TightTimeout {
                round_trip,
                node_timeout,
            };
            self.add(Severity::Warning, node, kind);
        }
    }

    fn not_looked_at(
        &mut self,
        severity: Severity,
        node: &Arc<str>,
        (what, rule): (&'static str, &'static str),
        reason: &Arc<str>,
    ) {
        let reason = Arc::clone(reason);
        self.add(
            severity,
            node,
            FindingKind::NotLookedAt { what, rule, reason },
        );
    }

    fn version(&mut self, node: &Arc<str>, info: &Info) {
        if info.like.is_some_and(|like| like < OLDEST) {
            let version = info.version.as_str().into();
            self.add(Severity::Problem, node, FindingKind::OldVersion { version });
        }
    }

    fn replicas(&mut self, node: &Arc<str>, info: &Info, wanted: usize) {
        let replicas = info.replicas.len();
        if replicas < wanted {
            let severity = self.without_vote.unwrap_or(Severity::Warning);
            let kind = FindingKind::TooFewReplicas { replicas, wanted };
            self.add(severity, node, kind);
        } else if self.single && replicas == wanted && wanted > 0 {
            let kind = FindingKind::NoSpareReplica { replicas };
            self.add(Severity::Warning, node, kind);
        } else if self.single && wanted == 0 && replicas > 0 {
            let kind = FindingKind::ReplicasNotAsked { replicas };
            self.add(Severity::Warning, node, kind);
        }
    }

    fn memory(&mut self, node: &Arc<str>, info: &Info) {
        let maxmemory = Some(info.maxmemory).filter(|limit| *limit > 0);
        if info.eviction != "noeviction" && !info.eviction.is_empty() {
            let severity = match maxmemory {
                Some(_) => Severity::Problem,
                None => Severity::Warning,
            };
            let kind = FindingKind::Eviction {
                policy: info.eviction.as_str().into(),
                maxmemory,
                evicted: info.evicted,
            };
            self.add(severity, node, kind);
        }
        let used = info.used_memory;
        match maxmemory {
            None => self.add(Severity::Note, node, FindingKind::NoMemoryLimit {}),
            Some(maxmemory) if used >= maxmemory / 10 * 9 => {
                let kind = FindingKind::MemoryNearlyFull { used, maxmemory };
                self.add(Severity::Warning, node, kind);
            }
            Some(_) => {}
        }
    }

    /// With one node a restart that forgets is all that it takes; of several, all have to restart at once.
    fn disk(&mut self, node: &Arc<str>, info: &Info, facts: &Facts) {
        if !info.aof {
            let severity = if self.single {
                Severity::Problem
            } else {
                Severity::Warning
            };
            let snapshots = facts.save.as_ref().ok().map(|save| !save.is_empty());
            self.add(severity, node, FindingKind::NoAppendOnlyFile { snapshots });
        } else if let Ok(policy) = &facts.appendfsync
            && (policy == "no" || self.single && policy == "everysec")
        {
            let policy = policy.as_str().into();
            self.add(Severity::Warning, node, FindingKind::Fsync { policy });
        }
        for what in &info.disk_errors {
            self.add(Severity::Warning, node, FindingKind::DiskError { what });
        }
    }

    fn permissions(&mut self, node: &Arc<str>, missing: &[Missing]) {
        let rules: Vec<Arc<str>> = missing.iter().filter_map(rule).map(Arc::from).collect();
        let commands: Vec<Arc<str>> = missing.iter().filter_map(command).map(Arc::from).collect();
        let severity = if missing.iter().any(is_vital) {
            Severity::Problem
        } else {
            Severity::Warning
        };
        if !rules.is_empty() {
            self.add(severity, node, FindingKind::NotPermitted { rules });
        }
        if !commands.is_empty() {
            self.add(severity, node, FindingKind::UnknownCommands { commands });
        }
    }

    fn numbers(&mut self, deployment: &Deployment) {
        let Deployment {
            node_timeout,
            max_ttl,
            ..
        } = *deployment;
        match deployment.nodes.len() {
            1 => self.add_of_all(Severity::Note, FindingKind::OneNode {}),
            nodes if nodes.is_multiple_of(2) => {
                self.add_of_all(Severity::Warning, FindingKind::EvenNodes { nodes });
            }
            _ => {}
        }
        if max_ttl < node_timeout.saturating_mul(TIMEOUTS) {
            let kind = FindingKind::ShortMaxTtl {
                max_ttl,
                node_timeout,
            };
            self.add_of_all(Severity::Warning, kind);
        }
        if max_ttl > LONG_MAX_TTL && !self.single {
            self.add_of_all(Severity::Note, FindingKind::LongMaxTtl { max_ttl });
        }
    }
}

/// The node that a replica replicates: by the name that the replica has for it, or by that which the primary has for the
/// replica.
fn primary(deployment: &Deployment, replica: &Arc<str>, of: Option<&str>) -> Option<Arc<str>> {
    let others = deployment
        .nodes
        .iter()
        .filter(|other| other.node != *replica);
    let is_primary = |other: &&Examined| {
        of == Some(&*other.node)
            || other.servers.iter().any(|server| match &server.found {
                Found::Facts(facts) => facts
                    .info
                    .as_ref()
                    .is_ok_and(|info| info.replicas.iter().any(|known| **known == **replica)),
                Found::Embedded | Found::Trouble(_) => false,
            })
    };
    let mut primaries = others.filter(is_primary);
    primaries.next().map(|other| Arc::clone(&other.node))
}

fn rule(missing: &Missing) -> Option<&str> {
    match missing {
        Missing::Permission(rule) => Some(rule),
        Missing::Command(_) => None,
    }
}

fn command(missing: &Missing) -> Option<&str> {
    match missing {
        Missing::Command(command) => Some(command),
        Missing::Permission(_) => None,
    }
}

fn is_about_listening(missing: &Missing) -> bool {
    let name = rule(missing).or(command(missing)).unwrap_or_default();
    name.ends_with("subscribe") || name.starts_with('&')
}

/// Without it no lock is taken there, or none is given back.
fn is_vital(missing: &Missing) -> bool {
    const VITAL: [&str; 7] = [
        "get",
        "set",
        "del",
        "eval",
        "evalsha",
        "script|load",
        "wait",
    ];
    match missing {
        Missing::Command(command) => VITAL.contains(&&**command),
        // Names of fencing tokens begin with a brace.
        Missing::Permission(rule) => match rule.strip_prefix('+') {
            Some(command) => VITAL.contains(&command),
            None => rule.starts_with('~') && !rule.starts_with("~{"),
        },
    }
}

#[cfg(test)]
mod tests;
