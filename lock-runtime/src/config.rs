//! How a manager is set up: nodes and numbers, looked at once, when it is built.

mod node_spec;
mod node_url;
mod tls;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::ConfigError;
use crate::executor::Executor;
use crate::node::names::Names;
use crate::node::redis::{Place, RedisNode, Target, marker};
use crate::node::registry::{Registry, Seat};
use crate::node::{Ledger, Node};
use crate::redlock::{Fences, Redlock, longest_try};

pub use node_spec::{NodeSpec, memory};

use node_spec::{Planned, read_all};
use node_url::{Server, Whereabouts};

/// The longest `max_ttl`. A lock that must live longer is a record, not a lease.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// The shortest `max_ttl`: below, drift and round trips leave nothing.
const SHORTEST_MAX_TTL: Duration = Duration::from_millis(10);

/// Sets up a [`LockManager`](crate::LockManager). Made by [`LockManager::builder`](crate::LockManager::builder).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LockManagerBuilder {
    nodes: Vec<NodeSpec>,
    prefix: String,
    max_ttl: Duration,
    node_timeout: Duration,
    connections_per_node: usize,
    fences: Fences,
    holder_label: Option<String>,
}

impl LockManagerBuilder {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            prefix: String::new(),
            max_ttl: Duration::from_secs(60),
            node_timeout: Duration::from_millis(50),
            connections_per_node: 1,
            fences: Fences::default(),
            holder_label: None,
        }
    }

    /// Adds a node. The nodes must be independent servers, not replicas of one another. Five are usual: two of them may
    /// fail. All clients of a lock must be given the same nodes.
    pub fn node(mut self, node: impl Into<NodeSpec>) -> Self {
        self.nodes.push(node.into());
        self
    }

    /// Adds the nodes of a list, separated by commas: what `LOCK_NODES` holds.
    pub fn nodes(self, list: &str) -> Self {
        NodeSpec::list(list).into_iter().fold(self, Self::node)
    }

    /// Put before every key, so that locks do not meet an application's own keys. Default: nothing.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// No lease is asked for with a longer TTL; and a node that has restarted or was promoted, perhaps without its last writes,
    /// has no vote for as long. From 10 ms to 24 h; default 60 s. All clients of a lock must be given the same.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// How long one node may take to answer before it is decided without it. From 1 ms to 10 s, and below `max_ttl`;
    /// default 50 ms. One try at a lock is refused for an outage after this time at the latest, and a TTL should be
    /// many times longer.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// How many connections each node is given; a key always uses the same one. From 1 to 64; default 1, which was the
    /// fastest where it was measured, as commands that share a connection share its system calls.
    pub fn connections_per_node(mut self, connections: usize) -> Self {
        self.connections_per_node = connections;
        self
    }

    /// For how long nodes remember the last fencing token of a key. From `max_ttl` to 365 days; default one day. A token
    /// that comes after it was forgotten is larger only if its client's clock is.
    pub fn fence_ttl(mut self, fence_ttl: Duration) -> Self {
        self.fences.ttl = fence_ttl;
        self
    }

    /// Who this process is, for an operator who [looks](crate::LockManager::inspect) at a lock that it holds: a host, a pod, a
    /// process id. Default: nothing, and locks are written as ever.
    ///
    /// It is written behind the owner token, with a space between. Clients of other languages and versions compare owners as a
    /// whole, so it makes no difference to them. Up to 128 bytes, without control characters. It is no secret: whoever may
    /// read the nodes can read it.
    pub fn holder_label(mut self, label: impl Into<String>) -> Self {
        self.holder_label = Some(label.into());
        self
    }

    /// The clock that fencing tokens are proposed from; nothing else reads it. Default: the system's.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.fences.clock = Arc::new(now);
        self
    }

    /// Checks everything, and starts connecting in the background.
    pub(crate) fn connect(self) -> Result<(Redlock, Duration), ConfigError> {
        self.check_numbers()?;
        let count = self.nodes.len();
        let planned = read_all(self.nodes)?;
        if count.is_multiple_of(2) {
            tracing::warn!(
                nodes = count,
                may_fail = (count - 1) / 2,
                "an even number of lock nodes tolerates no more failures than one node less, and lets votes split into \
                 halves: use 3, of which one may fail, or 5, of which two may"
            );
        }

        let embedded = planned
            .iter()
            .all(|node| matches!(node, Planned::Memory(_)));
        let executor = if embedded {
            Executor::of_caller()
        } else {
            Executor::own_thread().map_err(|error| ConfigError::Thread(error.to_string()))?
        };
        let registry = Arc::new(Registry::settling(longest_try(self.node_timeout)));
        let names = Arc::new(Names::default());
        let target = |server: Box<Server>| Target {
            names: Arc::clone(&names),
            seat: Seat::new(&registry, &server.name),
            name: server.name,
            place: match server.whereabouts {
                Whereabouts::Server(address) => Place::Server(address),
                Whereabouts::Sentinels(sentinels) => Place::Sentinels(sentinels),
                Whereabouts::Cluster(seeds) => Place::Cluster(seeds),
            },
            login: server.login,
            tls: server.connector,
            replicas: server.replicas,
            node_timeout: self.node_timeout,
            // With one node there is no quorum to protect.
            max_ttl: (count > 1).then_some(self.max_ttl),
            marker: marker(&self.prefix),
            member: None,
        };
        let nodes = planned
            .into_iter()
            .map(|node| -> Arc<dyn Node> {
                match node {
                    Planned::Memory(node) => node,
                    Planned::Server(server) => {
                        let (node, work) =
                            RedisNode::new(target(server), self.connections_per_node);
                        for work in work {
                            executor.spawn(work);
                        }
                        Arc::new(node)
                    }
                }
            })
            .collect();
        let mut redlock = Redlock::new(
            nodes,
            self.node_timeout,
            &self.prefix,
            self.fences,
            executor,
        );
        redlock.label = self.holder_label.map(Arc::from);
        Ok((redlock, self.max_ttl))
    }

    fn check_numbers(&self) -> Result<(), ConfigError> {
        let out_of_range = |what: &str| Err(ConfigError::OutOfRange(what.to_owned()));
        if self.nodes.is_empty() {
            return Err(ConfigError::NoNodes);
        }
        if self.nodes.len() > Ledger::CAPACITY {
            return Err(ConfigError::TooManyNodes(self.nodes.len()));
        }
        if !(SHORTEST_MAX_TTL..=LONGEST_TTL).contains(&self.max_ttl) {
            return out_of_range("max_ttl must be from 10 ms to 24 h");
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&self.node_timeout) {
            return out_of_range("node_timeout must be from 1 ms to 10 s");
        }
        if self.node_timeout >= self.max_ttl {
            return out_of_range("node_timeout must be shorter than max_ttl");
        }
        if !(1..=64).contains(&self.connections_per_node) {
            return out_of_range("connections_per_node must be from 1 to 64");
        }
        let longest_fence = Duration::from_secs(365 * 24 * 3600);
        if !(self.max_ttl..=longest_fence).contains(&self.fences.ttl) {
            return out_of_range("fence_ttl must be from max_ttl to 365 days");
        }
        if self.prefix.len() > 256 {
            return out_of_range("prefix must be at most 256 bytes");
        }
        let is_a_label =
            |label: &String| (1..=128).contains(&label.len()) && !label.contains(char::is_control);
        if !self.holder_label.as_ref().is_none_or(is_a_label) {
            return out_of_range(
                "holder_label must be from 1 to 128 bytes, without control characters",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::LockManager;

    const MINUTE: Duration = Duration::from_secs(60);

    fn builder() -> LockManagerBuilder {
        LockManager::builder().node(memory())
    }

    fn refused(builder: LockManagerBuilder, setting: &str) {
        match builder.build() {
            Err(ConfigError::OutOfRange(said)) => assert!(said.starts_with(setting), "{said}"),
            other => panic!("{setting}: {other:?}"),
        }
    }

    /// The least and the most are good; what is just outside is not, and neither are the extremes of the type.
    #[test]
    fn numbers_have_bounds() {
        const NANO: Duration = Duration::from_nanos(1);
        let millis = Duration::from_millis;
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        let quick = || builder().node_timeout(millis(1));

        quick().max_ttl(millis(10)).build().expect("the least");
        quick().max_ttl(days(1)).build().expect("the most");
        for max_ttl in [
            Duration::ZERO,
            NANO,
            Duration::from_nanos(9_999_999),
            days(1) + NANO,
            Duration::MAX,
        ] {
            refused(quick().max_ttl(max_ttl), "max_ttl");
        }

        builder()
            .node_timeout(millis(1))
            .build()
            .expect("the least");
        builder()
            .node_timeout(millis(10_000))
            .build()
            .expect("the most");
        for node_timeout in [
            Duration::ZERO,
            Duration::from_nanos(999_999),
            millis(10_000) + NANO,
            Duration::MAX,
        ] {
            refused(builder().node_timeout(node_timeout), "node_timeout");
        }
        let second = millis(1000);
        refused(
            builder().max_ttl(second).node_timeout(second),
            "node_timeout",
        );

        builder().fence_ttl(MINUTE).build().expect("the least");
        builder().fence_ttl(days(365)).build().expect("the most");
        for fence_ttl in [
            Duration::ZERO,
            Duration::new(59, 999_999_999),
            days(365) + NANO,
            Duration::MAX,
        ] {
            refused(builder().fence_ttl(fence_ttl), "fence_ttl");
        }

        for connections in [1, 64] {
            builder()
                .connections_per_node(connections)
                .build()
                .expect("in range");
        }
        for connections in [0, 65, usize::MAX] {
            refused(
                builder().connections_per_node(connections),
                "connections_per_node",
            );
        }

        for label in ["x".to_owned(), "web-1 (7)".to_owned(), "x".repeat(128)] {
            builder().holder_label(label).build().expect("a label");
        }
        for label in [
            String::new(),
            "x".repeat(129),
            "a\nb".to_owned(),
            "\0".to_owned(),
        ] {
            refused(builder().holder_label(label), "holder_label");
        }

        builder().prefix("x".repeat(256)).build().expect("the most");
        for length in [257, 1 << 20] {
            refused(builder().prefix("x".repeat(length)), "prefix");
        }
    }

    #[test]
    fn as_many_nodes_as_votes_can_be_counted_for() {
        let of =
            |nodes| (0..nodes).fold(LockManager::builder(), |builder, _| builder.node(memory()));
        of(63).build().expect("the most");
        for nodes in [64, 1000] {
            let error = of(nodes).build().expect_err("too many");
            assert_eq!(error, ConfigError::TooManyNodes(nodes));
        }
    }
}
