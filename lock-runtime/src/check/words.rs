//! Findings in words: what was found, what can go wrong, what to change.

use std::fmt;
use std::sync::Arc;

use super::finding::{Finding, FindingKind as Kind, Severity};

mod cures;

impl Finding {
    /// What was found.
    #[must_use]
    pub fn found(&self) -> String {
        match &self.kind {
            Kind::NoQuorum { voting: 1, needed } => format!("1 node has a vote, and {needed} must"),
            Kind::NoQuorum { voting, needed } => {
                format!("{voting} nodes have a vote, and {needed} must")
            }
            Kind::Down { reason, .. } => format!("it cannot be used: {reason}"),
            Kind::SentinelsNotNamed { named: 1, known } => {
                format!("there are {known} sentinels, and 1 is in its URL")
            }
            Kind::SentinelsNotNamed { named, known } => {
                format!("there are {known} sentinels, and {named} are in its URL")
            }
            Kind::Replica { of, node } => replica(of.as_ref(), node.as_ref()),
            Kind::SameServer { node } => format!("it is the server of node {node} too"),
            Kind::Young { for_another } => {
                format!("it started not long ago, and has no vote for another {for_another:?}")
            }
            Kind::New {} => "all nodes are new, and none has voted yet".to_owned(),
            Kind::OldVersion { version } => format!("its version is {version}"),
            Kind::InCluster {} => {
                "it is a server of a Redis Cluster, and named as one by itself".to_owned()
            }
            Kind::Eviction {
                policy,
                maxmemory,
                evicted,
            } => eviction(policy, *maxmemory, *evicted),
            Kind::MemoryNearlyFull { used, maxmemory } => {
                let (used, maxmemory) = (Bytes(*used), Bytes(*maxmemory));
                format!("{used} are used, of a maxmemory of {maxmemory}")
            }
            Kind::NoMemoryLimit {} => "it has no maxmemory".to_owned(),
            Kind::RefusesWrites { reason } => format!("it takes no writes: {reason}"),
            Kind::ReplicasNotAsked { replicas: 1 } => {
                "it has 1 replica, which is not asked".to_owned()
            }
            Kind::ReplicasNotAsked { replicas } => {
                format!("it has {}, which are not asked", Replicas(*replicas))
            }
            Kind::NoSpareReplica { replicas: 1 } => {
                "it has 1 replica, which must have a lock".to_owned()
            }
            Kind::NoSpareReplica { replicas } => {
                format!(
                    "it has {}, and all of them must have a lock",
                    Replicas(*replicas)
                )
            }
            Kind::TooFewReplicas { replicas, wanted } => {
                format!(
                    "it has {}, and {wanted} must have a lock",
                    Replicas(*replicas)
                )
            }
            Kind::NoAppendOnlyFile { snapshots } => match snapshots {
                Some(true) => "it writes snapshots, and no append-only file".to_owned(),
                Some(false) => "it writes nothing to disk".to_owned(),
                None => "it writes no append-only file".to_owned(),
            },
            Kind::Fsync { policy } => format!("appendfsync is {policy}"),
            Kind::DiskError { what } => format!("the last time it could not write {what}"),
            Kind::ClockApart { by, ahead } => {
                format!("its wall clock is {by:?} {} the others'", side(*ahead))
            }
            Kind::OwnClockApart { by, ahead } => format!(
                "the wall clock of this process is {by:?} {} the nodes'",
                side(*ahead)
            ),
            Kind::NotPermitted { rules } => {
                format!("the user may not do all that locks need: {}", listed(rules))
            }
            Kind::UnknownCommands { commands } => {
                format!("it does not know these commands: {}", listed(commands))
            }
            Kind::NotLookedAt { what, reason, .. } => {
                format!("it could not be asked for {what}: {reason}")
            }
            Kind::Deaf { reason } => format!("releases cannot be heard of there: {reason}"),
            Kind::PlainText {} => "the connection to it is not encrypted".to_owned(),
            Kind::EvenNodes { nodes } => format!("there are {nodes} nodes, an even number"),
            Kind::OneNode {} => "there is one node".to_owned(),
            Kind::Embedded {} => "it is a part of this process".to_owned(),
            Kind::TightTimeout {
                round_trip,
                node_timeout,
            } => {
                format!("a round trip takes {round_trip:.1?}, and node_timeout is {node_timeout:?}")
            }
            Kind::ShortMaxTtl {
                max_ttl,
                node_timeout,
            } => format!("max_ttl is {max_ttl:?}, and node_timeout {node_timeout:?}"),
            Kind::LongMaxTtl { max_ttl } => format!("max_ttl is {max_ttl:?}"),
        }
    }

    /// What can go wrong.
    #[must_use]
    pub fn risk(&self) -> &'static str {
        match &self.kind {
            Kind::NoQuorum { .. } => "nobody gets a lock: guarded calls give NoQuorum",
            Kind::Down { .. } | Kind::RefusesWrites { .. } | Kind::TooFewReplicas { .. }
                if self.is_single =>
            {
                "nobody gets a lock"
            }
            Kind::Down { .. } => "it has no vote, so fewer of the others may fail",
            Kind::SentinelsNotNamed { .. } if self.is_single => {
                "if those fail, a failover is not followed: the others are not asked"
            }
            Kind::SentinelsNotNamed { .. } => {
                "a majority of all of them has to confirm the primary, and the others are not asked: fewer of them may fail before \
                 it has no vote"
            }
            Kind::Replica { .. } => {
                "it has what its primary has, some time later, so both could grant a lock to two clients; it is refused, and \
                 has no vote"
            }
            Kind::SameServer { .. } => {
                "its vote would count twice, and two clients could both have a majority; it is refused, and has no vote"
            }
            Kind::Young { .. } if self.severity == Severity::Problem => {
                "it may have forgotten a lock that somebody holds; until then nobody has a majority"
            }
            Kind::Young { .. } => {
                "it may have forgotten a lock that somebody holds; until then fewer of the others may fail"
            }
            Kind::New {} => "the first client has to reach all of them, or it waits for max_ttl",
            Kind::OldVersion { .. } => "locks were never tried on it",
            Kind::InCluster {} => {
                "it would send most locks elsewhere; it is refused, and has no vote"
            }
            Kind::Eviction {
                maxmemory: None, ..
            } => "nothing is dropped yet; with a maxmemory, locks that are held will be",
            Kind::Eviction { policy, .. } if policy.starts_with("volatile") => {
                "when memory is full it drops keys that have a TTL, as every lock has: one that is held is granted again"
            }
            Kind::Eviction { .. } => {
                "when memory is full it drops keys, also locks that are held: they are granted again"
            }
            Kind::MemoryNearlyFull { .. } => "when memory is full it grants no lock",
            Kind::NoMemoryLimit {} => {
                "when the machine has no memory left its system ends the server, which restarts with what is on disk"
            }
            Kind::ReplicasNotAsked { .. } => {
                "after a failover the new primary may lack locks that are held, and they are granted again"
            }
            Kind::NoSpareReplica { .. } => {
                "when its primary or a replica fails, nobody gets a lock until there is another replica"
            }
            Kind::RefusesWrites { .. } | Kind::TooFewReplicas { .. } => {
                "it grants no lock, so fewer of the others may fail"
            }
            Kind::NoAppendOnlyFile { .. } | Kind::Fsync { .. } => self.of_forgetting(),
            Kind::DiskError { .. } => {
                "it may stop to take writes, and a restart forgets more than it would"
            }
            Kind::ClockApart { ahead: false, .. } => {
                "locks do not compare clocks, but a server ends keys by its own: set forward in one step, it ends locks that \
                 are held, and counts itself older than it is"
            }
            Kind::ClockApart { ahead: true, .. } => {
                "locks do not compare clocks, but a server ends keys by its own: set back in one step, it keeps the locks of \
                 the dead for longer"
            }
            Kind::OwnClockApart { ahead: false, .. } => {
                "fencing tokens grow all the same, but each takes a second round trip; one that comes after the last was \
                 forgotten (fence_ttl) may be smaller"
            }
            Kind::OwnClockApart { ahead: true, .. } => {
                "fencing tokens grow all the same, but those of other clients take a second round trip"
            }
            Kind::NotPermitted { rules } => of_permissions(rules),
            Kind::UnknownCommands { .. } => "what needs them fails there",
            Kind::NotLookedAt { rule: "+info", .. } => {
                "it votes at once after a restart, and may be a replica, or the server of another node too"
            }
            Kind::NotLookedAt { .. } => "what is wrong with it is not found here",
            Kind::Deaf { .. } => DEAF,
            Kind::PlainText {} => {
                "whoever is on the way can read the password and the owner tokens, and take and end locks"
            }
            Kind::EvenNodes { nodes: 2 } => {
                "if either fails, nobody gets a lock: worse than one node"
            }
            Kind::EvenNodes { .. } => {
                "no more of them may fail than of one less, and votes can split into halves"
            }
            Kind::OneNode {} => {
                "while it is down nobody gets a lock; a lock that it forgets is granted again"
            }
            Kind::Embedded {} => "other processes do not see its locks",
            Kind::TightTimeout { .. } => "an answer that is a little late is taken for an outage",
            Kind::ShortMaxTtl { .. } => "one slow node uses up much of a lease",
            Kind::LongMaxTtl { .. } => "a node that restarts has no vote for as long",
        }
    }

    fn of_forgetting(&self) -> &'static str {
        let single = "a restart forgets locks that are held, and they are granted again";
        let several = "where nodes restart all at once, as after a power cut, they forget locks that are held, which are granted \
                       again; one alone is kept out instead";
        match (&self.kind, self.is_single) {
            (Kind::Fsync { policy }, _) if &**policy == "everysec" => {
                "a crash of the machine forgets the locks of the last second, and they are granted again"
            }
            (Kind::Fsync { .. }, true) => {
                "a crash of the machine forgets the locks of half a minute, and they are granted again"
            }
            (_, true) => single,
            (_, false) => several,
        }
    }

    /// What to change.
    #[must_use]
    pub fn change(&self) -> String {
        let fixed = match &self.kind {
            Kind::NotPermitted { rules } => {
                return cures::of_permissions(rules);
            }
            Kind::NotLookedAt { rule, .. } => {
                return format!("ACL SETUSER <user> {rule}, on the node");
            }
            Kind::NoQuorum { .. } => "what is said below of the nodes that have none",
            Kind::Down { cause, .. } => cures::of_down(*cause),
            Kind::SentinelsNotNamed { .. } => {
                "all of them in its URL, for all clients of the locks (SENTINEL SENTINELS names the others); SENTINEL RESET on \
                 each, one after the other, if some of them are gone for good"
            }
            Kind::Replica { .. } => {
                "one node for a primary and its replicas, redis+sentinel://host:26379,host:26379/group where Sentinel watches \
                 over them; or an independent server in its place (REPLICAOF NO ONE); for all clients of the locks"
            }
            Kind::SameServer { .. } => {
                "name another server in its place, for all clients of the locks"
            }
            Kind::Young { .. } => "nothing; but do not restart another one before that",
            Kind::New {} => "nothing: they vote from the first lock on",
            Kind::OldVersion { .. } => "Redis 6.2 or later",
            Kind::InCluster {} => {
                "all servers of the cluster as one node, redis+cluster://host:6379,host:6379; or an independent server in its \
                 place"
            }
            Kind::Eviction { .. } => {
                "maxmemory-policy noeviction, by CONFIG SET and in its configuration; and a cache on another server"
            }
            Kind::MemoryNearlyFull { .. } => "more maxmemory, or other keys on another server",
            Kind::NoMemoryLimit {} => {
                "a maxmemory that the machine has to spare, with maxmemory-policy noeviction"
            }
            Kind::ReplicasNotAsked { .. } => "replicas=1 in its URL, or more; or three nodes",
            Kind::NoSpareReplica { .. } => "one replica more than replicas= in its URL says",
            Kind::TooFewReplicas { .. } => {
                "more replicas, or a smaller number for replicas= in its URL"
            }
            Kind::RefusesWrites { reason } => cures::of_refused_writes(reason),
            Kind::NoAppendOnlyFile { .. } => {
                "appendonly yes, by CONFIG SET and in its configuration, with appendfsync everysec or always"
            }
            Kind::Fsync { policy } if &**policy == "everysec" => {
                "appendfsync always, which costs a disk write for every lock; or three nodes"
            }
            Kind::Fsync { .. } => {
                "appendfsync everysec or always, by CONFIG SET and in its configuration"
            }
            Kind::DiskError { .. } => "space and permissions of its directory; its log has more",
            Kind::ClockApart { .. } | Kind::OwnClockApart { .. } => {
                "a time server for all machines, that lets clocks run slower or faster instead of setting them"
            }
            Kind::UnknownCommands { .. } => {
                "no rename-command for these; an ACL rule keeps them from other users"
            }
            Kind::Deaf { .. } => {
                "a server that speaks RESP3, without a proxy before it that does not"
            }
            Kind::PlainText {} => {
                "rediss:// and a server with a certificate, or a network of their own"
            }
            Kind::EvenNodes { nodes: 2 } | Kind::OneNode {} => {
                "three nodes, of which one may fail, or five, of which two may"
            }
            Kind::EvenNodes { .. } => "one node more, or one less",
            Kind::Embedded {} => "servers, wherever there is more than one process",
            Kind::TightTimeout { .. } => {
                "a node_timeout of many round trips; or a node that is nearer"
            }
            Kind::ShortMaxTtl { .. } => "a max_ttl of many times node_timeout",
            Kind::LongMaxTtl { .. } => {
                "a shorter max_ttl, as leases are renewed for as long as their holders live"
            }
        };
        fixed.to_owned()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if !self.nodes.is_empty() {
            write!(f, "{}: ", self.nodes.join(", "))?;
        }
        writeln!(f, "{}", self.found())?;
        writeln!(f, "    risk:   {}", self.risk())?;
        write!(f, "    change: {}", self.change())
    }
}

const DEAF: &str = "whoever waits asks from time to time whether a lock is free, and turns between processes are not fair";

fn replica(of: Option<&Arc<str>>, node: Option<&Arc<str>>) -> String {
    match (of, node) {
        (Some(of), Some(node)) if of == node => format!("it is a replica of node {node}"),
        (Some(of), Some(node)) => format!("it is a replica of {of}, which is node {node}"),
        (None, Some(node)) => format!("it is a replica of node {node}"),
        (Some(of), None) => format!("it is a replica of {of}"),
        (None, None) => "it is a replica".to_owned(),
    }
}

fn eviction(policy: &str, maxmemory: Option<u64>, evicted: u64) -> String {
    let limit = match maxmemory {
        Some(limit) => format!("a maxmemory of {}", Bytes(limit)),
        None => "no maxmemory".to_owned(),
    };
    let so_far = match evicted {
        0 => String::new(),
        evicted => format!("; keys that were dropped so far: {evicted}"),
    };
    format!("its maxmemory-policy is {policy}, with {limit}{so_far}")
}

/// By what fails first.
fn of_permissions(rules: &[Arc<str>]) -> &'static str {
    let has = |names: &[&str]| rules.iter().any(|rule| names.contains(&&**rule));
    if has(&[
        "+set",
        "+get",
        "+del",
        "+eval",
        "+evalsha",
        "+script|load",
        "+wait",
    ]) || rules
        .iter()
        .any(|rule| rule.starts_with('~') && !rule.starts_with("~{"))
    {
        "it grants no lock, or one that cannot be renewed or released"
    } else if rules.iter().any(|rule| rule.starts_with('~')) {
        "it grants no lock with a fencing token"
    } else if has(&["+pexpire"]) {
        "hold_at_least does not end in time there: the lock stays for its TTL"
    } else {
        DEAF
    }
}

fn side(ahead: bool) -> &'static str {
    if ahead { "ahead of" } else { "behind" }
}

fn listed(words: &[Arc<str>]) -> String {
    words.join(", ")
}

/// So many of them.
struct Replicas(usize);

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(1) => f.write_str("1 replica"),
            Self(count) => write!(f, "{count} replicas"),
        }
    }
}

/// As operators write it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let Self(bytes) = *self;
        match UNITS.iter().find(|(size, _)| bytes >= *size) {
            Some((size, unit)) => {
                let tenths = bytes / (size / 10).max(1);
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{bytes} bytes"),
        }
    }
}
