//! One thing that a check has found.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::node::trouble::DownCause;

/// Something about the nodes that somebody should know. Its [`Display`](fmt::Display) says what was found, what can go wrong,
/// and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub(super) severity: Severity,
    pub(super) nodes: Vec<Arc<str>>,
    pub(super) kind: FindingKind,
    /// There is no other node.
    pub(super) is_single: bool,
}

impl Finding {
    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// The nodes that it is about, as errors name them; of a cluster its servers. None where it is about all of them together.
    #[must_use]
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.nodes.iter().map(|node| &**node)
    }

    /// What it is, to match on.
    #[must_use]
    pub fn kind(&self) -> &FindingKind {
        &self.kind
    }
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Good to know.
    Note,
    /// Locks work, and there is an event that ends it.
    Warning,
    /// A lock can be granted twice by an event that is to be expected, or nobody can have one, or a node never has a vote.
    Problem,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}

/// What a [`Finding`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// Too few nodes have a vote for anybody to have a majority.
    #[non_exhaustive]
    NoQuorum {
        /// How many have one.
        voting: usize,
        /// How many must.
        needed: usize,
    },
    /// It cannot be reached or used.
    #[non_exhaustive]
    Down {
        /// Why.
        reason: Arc<str>,
        /// What that is, as far as it can be told.
        cause: DownCause,
    },
    /// Its sentinels know of more sentinels than are in its URL.
    #[non_exhaustive]
    SentinelsNotNamed {
        /// How many are in its URL.
        named: usize,
        /// How many there are.
        known: usize,
    },
    /// It is a replica, and refused.
    #[non_exhaustive]
    Replica {
        /// The primary, as the replica names it.
        of: Option<Arc<str>>,
        /// The node that is this primary, if one is.
        node: Option<Arc<str>>,
    },
    /// It is the server of another node too, and refused.
    #[non_exhaustive]
    SameServer {
        /// The node that has the server.
        node: Arc<str>,
    },
    /// It restarted not long ago, and has no vote yet.
    #[non_exhaustive]
    Young {
        /// For so much longer.
        for_another: Duration,
    },
    /// All nodes are new, and vote from the first lock on.
    #[non_exhaustive]
    New {},
    /// The server is older than what locks are tested with.
    #[non_exhaustive]
    OldVersion {
        /// Its version.
        version: Arc<str>,
    },
    /// A server of a Redis Cluster, used as one by itself.
    #[non_exhaustive]
    InCluster {},
    /// Keys may be dropped when memory is full.
    #[non_exhaustive]
    Eviction {
        /// `maxmemory-policy`
        policy: Arc<str>,
        /// `maxmemory`, in bytes. `None`: no limit, so nothing is dropped yet.
        maxmemory: Option<u64>,
        /// How many keys were dropped since the server started.
        evicted: u64,
    },
    /// Nine tenths of the memory that is allowed are used, or more.
    #[non_exhaustive]
    MemoryNearlyFull {
        /// Bytes.
        used: u64,
        /// `maxmemory`, in bytes.
        maxmemory: u64,
    },
    /// There is no `maxmemory`.
    #[non_exhaustive]
    NoMemoryLimit {},
    /// The server takes no writes.
    #[non_exhaustive]
    RefusesWrites {
        /// In the server's words.
        reason: Arc<str>,
    },
    /// The one node that there is has replicas, and locks are not waited for until one of them has them.
    #[non_exhaustive]
    ReplicasNotAsked {
        /// How many it has.
        replicas: usize,
    },
    /// It has fewer replicas than must have a lock before it counts.
    #[non_exhaustive]
    TooFewReplicas {
        /// How many it has.
        replicas: usize,
        /// How many must have a lock.
        wanted: usize,
    },
    /// The one node that there is has just as many replicas as must have a lock before it counts.
    #[non_exhaustive]
    NoSpareReplica {
        /// How many it has.
        replicas: usize,
    },
    /// There is no append-only file.
    #[non_exhaustive]
    NoAppendOnlyFile {
        /// Whether snapshots are written instead. `None`: that could not be asked.
        snapshots: Option<bool>,
    },
    /// The append-only file is not synced with every write.
    #[non_exhaustive]
    Fsync {
        /// `appendfsync`
        policy: Arc<str>,
    },
    /// It could not write something to its disk.
    #[non_exhaustive]
    DiskError {
        /// What.
        what: &'static str,
    },
    /// Its wall clock differs from that of the other nodes, or where there are only two, from that of the other.
    #[non_exhaustive]
    ClockApart {
        /// So much, rounded to tenths of a second.
        by: Duration,
        /// Whether it is ahead of the others.
        ahead: bool,
    },
    /// The wall clock of this process differs from that of the nodes.
    #[non_exhaustive]
    OwnClockApart {
        /// So much, rounded to tenths of a second.
        by: Duration,
        /// Whether it is ahead of the nodes'.
        ahead: bool,
    },
    /// The user lacks permissions that locks need.
    #[non_exhaustive]
    NotPermitted {
        /// Those that are missing, as a rule of the server names them: `+set`, `~shop:*`, `&shop:*`.
        rules: Vec<Arc<str>>,
    },
    /// The server does not know commands that locks need: they were renamed, or it is not Redis.
    #[non_exhaustive]
    UnknownCommands {
        /// Which ones.
        commands: Vec<Arc<str>>,
    },
    /// Something could not be looked at.
    #[non_exhaustive]
    NotLookedAt {
        /// What.
        what: &'static str,
        /// What would have to be permitted, as a rule of the server names it.
        rule: &'static str,
        /// In the server's words.
        reason: Arc<str>,
    },
    /// Releases cannot be heard of there.
    #[non_exhaustive]
    Deaf {
        /// Why.
        reason: Arc<str>,
    },
    /// What is sent to it, the password too, can be read on the way.
    #[non_exhaustive]
    PlainText {},
    /// An even number of nodes.
    #[non_exhaustive]
    EvenNodes {
        /// How many there are.
        nodes: usize,
    },
    /// There is no quorum to speak of.
    #[non_exhaustive]
    OneNode {},
    /// The node is a part of this process.
    #[non_exhaustive]
    Embedded {},
    /// `node_timeout` is not much longer than a round trip.
    #[non_exhaustive]
    TightTimeout {
        /// The median of a few.
        round_trip: Duration,
        /// The manager's.
        node_timeout: Duration,
    },
    /// `max_ttl` is not much longer than `node_timeout`.
    #[non_exhaustive]
    ShortMaxTtl {
        /// The manager's.
        max_ttl: Duration,
        /// The manager's.
        node_timeout: Duration,
    },
    /// `max_ttl` is long, and with it the time for which a node that restarts has no vote.
    #[non_exhaustive]
    LongMaxTtl {
        /// The manager's.
        max_ttl: Duration,
    },
}
