//! How a manager is set up: nodes and numbers, looked at once, when it is built.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::ConfigError;
use crate::executor::Executor;
use crate::node::memory::MemoryNode;
use crate::node::redis::{Address, RedisNode, Target};
use crate::node::{Ledger, Node};
use crate::redlock::{Fences, Redlock};

/// The longest `max_ttl`. A lock that must live longer is a record, not a lease.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// The shortest `max_ttl`: below, drift and round trips leave nothing.
const SHORTEST_MAX_TTL: Duration = Duration::from_millis(10);

/// One node of the quorum: a server, or one embedded in this process.
///
/// From text it is a URL: `redis://host:port`, `redis://user:password@host:port/database`, `redis+unix:///path`; or the
/// word `memory()`.
#[derive(Clone)]
pub struct NodeSpec(Spec);

#[derive(Clone)]
enum Spec {
    Url(String),
    Memory(Arc<MemoryNode>),
}

/// A node in this process, with the semantics of a server: for a first try and for unit tests.
///
/// Its clock is tokio's, so a test with a paused clock sees leases end exactly. Clones are the same node: two managers
/// that are given clones of it contend for the same locks.
#[must_use]
pub fn memory() -> NodeSpec {
    NodeSpec(Spec::Memory(Arc::new(MemoryNode::new())))
}

impl From<&str> for NodeSpec {
    fn from(url: &str) -> Self {
        match url.trim() {
            "memory()" => memory(),
            url => Self(Spec::Url(url.to_owned())),
        }
    }
}

impl From<String> for NodeSpec {
    fn from(url: String) -> Self {
        url.as_str().into()
    }
}

impl From<&String> for NodeSpec {
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

impl fmt::Debug for NodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Spec::Url(url) => f
                .debug_tuple("NodeSpec")
                .field(&without_login(url))
                .finish(),
            Spec::Memory(_) => f.write_str("memory()"),
        }
    }
}

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
        let nodes = list.split(',').map(str::trim);
        nodes.filter(|node| !node.is_empty()).fold(self, Self::node)
    }

    /// Put before every key, so that locks do not meet an application's own keys. Default: nothing.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// No lease is asked for with a longer TTL; and a node that has restarted, perhaps without its last writes, has no vote
    /// for as long. From 10 ms to 24 h; default 60 s. All clients of a lock must be given the same.
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

    /// The clock that fencing tokens are proposed from; nothing else reads it. Default: the system's.
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.fences.clock = Arc::new(now);
        self
    }

    /// Checks everything, and starts connecting in the background.
    pub(crate) fn connect(self) -> Result<(Redlock, Duration), ConfigError> {
        self.check_numbers()?;
        let mut targets = Vec::new();
        for (index, NodeSpec(spec)) in self.nodes.iter().enumerate() {
            targets.push(match spec {
                Spec::Memory(node) => Planned::Memory(Arc::clone(node)),
                Spec::Url(url) => Planned::Server(self.target(index + 1, url)?),
            });
        }
        refuse_duplicates(&targets)?;
        if targets.len() % 2 == 0 {
            tracing::warn!(
                nodes = targets.len(),
                "an even number of lock nodes tolerates no more failures than one node less"
            );
        }

        let embedded = targets
            .iter()
            .all(|target| matches!(target, Planned::Memory(_)));
        let executor = if embedded {
            Executor::of_caller()
        } else {
            Executor::own_thread().map_err(|error| ConfigError::Thread(error.to_string()))?
        };
        let nodes = targets
            .into_iter()
            .map(|target| -> Arc<dyn Node> {
                match target {
                    Planned::Memory(node) => node,
                    Planned::Server(target) => {
                        let (node, work) = RedisNode::new(target, self.connections_per_node);
                        for work in work {
                            executor.spawn(work);
                        }
                        Arc::new(node)
                    }
                }
            })
            .collect();
        let redlock = Redlock::new(
            nodes,
            self.node_timeout,
            &self.prefix,
            self.fences,
            executor,
        );
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
        Ok(())
    }

    fn target(&self, position: usize, url: &str) -> Result<Target, ConfigError> {
        let fault = |reason: &str| ConfigError::Node {
            position,
            node: without_login(url),
            reason: reason.to_owned(),
        };
        if ["rediss:", "valkeys:"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(fault("TLS is not supported by this version"));
        }
        // The parser's own message is left out: it may quote what it could not read, and that may be a password.
        let info: ConnectionInfo = url.into_connection_info().map_err(|_| {
            fault("not a node URL, such as redis://host:6379 or redis+unix:///path")
        })?;
        let databases = 0..=i64::from(u16::MAX);
        if !databases.contains(&info.redis_settings().db()) {
            return Err(fault("there is no such database"));
        }
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Tcp(host.clone(), *port),
            ConnectionAddr::Unix(path) if cfg!(unix) => Address::Unix(path.clone()),
            ConnectionAddr::Unix(_) => return Err(fault("this system has no Unix sockets")),
            _ => return Err(fault("this kind of address is not supported")),
        };
        Ok(Target {
            name: name_of(info.addr()).into(),
            address,
            login: info.redis_settings().clone(),
            node_timeout: self.node_timeout,
            // With one node there is no quorum to protect.
            max_ttl: (self.nodes.len() > 1).then_some(self.max_ttl),
            marker: format!("{}lock-runtime:votes", self.prefix),
        })
    }
}

enum Planned {
    Memory(Arc<MemoryNode>),
    Server(Target),
}

impl Planned {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory(one), Self::Memory(other)) => Arc::ptr_eq(one, other),
            (Self::Server(one), Self::Server(other)) => one.address == other.address,
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Memory(_) => "memory()".to_owned(),
            Self::Server(target) => target.name.to_string(),
        }
    }
}

fn refuse_duplicates(targets: &[Planned]) -> Result<(), ConfigError> {
    for (index, target) in targets.iter().enumerate() {
        if targets[..index].iter().any(|other| other.is_same(target)) {
            return Err(ConfigError::DuplicateNode {
                position: index + 1,
                node: target.name(),
            });
        }
    }
    Ok(())
}

/// A URL without user, password and parameters; of what cannot be read as one, nothing but the scheme.
fn without_login(url: &str) -> String {
    const SCHEMES: [&str; 6] = ["redis", "rediss", "redis+unix", "unix", "http", "https"];
    let (scheme, _) = url.split_once("://").unwrap_or_default();
    let scheme = if SCHEMES.contains(&scheme) {
        scheme
    } else {
        ""
    };
    match url.into_connection_info() {
        Ok(info) => format!("{scheme}://{}", name_of(info.addr())),
        Err(_) => format!("{scheme}://…"),
    }
}

/// What operators call a node.
fn name_of(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        address => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::LockManager;

    fn build(nodes: &[&str]) -> Result<LockManager, ConfigError> {
        nodes
            .iter()
            .fold(LockManager::builder(), |builder, &node| builder.node(node))
            .build()
    }

    #[test]
    fn passwords_are_shown_nowhere() {
        let secret = "hunter2";
        for url in [
            "redis://user:hunter2@host:1/0",
            "redis://user:hunter2@host:port",
            "redis://:hunter2@",
            "user:hunter2@host",
            "rediss://user:hunter2@host:1",
            "redis://user:hun@ter2:hunter2@host:1",
            "redis+unix:///path?user=me&pass=hunter2",
            "redis+unix:///path?user=me&pass=sec@hunter2",
            "redis://user:hunter2",
            "redis://user:hunter2,x@host:1",
            "hunter2",
            "hunter2://x",
        ] {
            let spec = format!("{:?}", NodeSpec::from(url));
            assert!(!spec.contains(secret), "{spec}");
            let builder = LockManager::builder().node(url);
            assert!(!format!("{builder:?}").contains(secret));
            match builder.build() {
                Ok(manager) => assert!(!format!("{manager:?}").contains(secret), "{url}"),
                Err(error) => assert!(!format!("{error} {error:?}").contains(secret), "{error}"),
            }
        }
    }

    #[test]
    fn a_node_that_cannot_be_used_is_named_by_place_and_address() {
        let error = build(&["redis://127.0.0.1:1", "http://user:pw@host"]).expect_err("a fault");
        assert_eq!(
            error.to_string(),
            "node 2 (`http://…`): not a node URL, such as redis://host:6379 or redis+unix:///path"
        );
        let error = build(&["rediss://host:1"]).expect_err("no TLS");
        assert!(error.to_string().contains("TLS"), "{error}");
        assert_eq!(build(&[]).expect_err("none"), ConfigError::NoNodes);
    }

    #[test]
    fn the_same_server_twice_is_refused() {
        let error = build(&["redis://127.0.0.1:1", "redis://u:p@127.0.0.1:1/3"]);
        assert_eq!(
            error.expect_err("twice").to_string(),
            "node 2 (`127.0.0.1:1`) is listed twice: its vote would count twice"
        );
        let node = memory();
        let twice = LockManager::builder().node(node.clone()).node(node).build();
        assert!(matches!(twice, Err(ConfigError::DuplicateNode { .. })));
        assert!(build(&["memory()", "memory()", "memory()"]).is_ok());
    }

    #[test]
    fn numbers_out_of_range_are_refused_when_building() {
        let builder = || LockManager::builder().node(memory());
        let extremes = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        for extreme in extremes {
            assert!(builder().max_ttl(extreme).build().is_err(), "{extreme:?}");
            assert!(
                builder().node_timeout(extreme).build().is_err(),
                "{extreme:?}"
            );
        }
        assert!(builder().connections_per_node(0).build().is_err());
        assert!(builder().connections_per_node(usize::MAX).build().is_err());
        assert!(builder().prefix("x".repeat(257)).build().is_err());
        let timeout = Duration::from_secs(1);
        let both = builder().max_ttl(timeout).node_timeout(timeout);
        assert!(both.build().is_err());

        let fifty = (0..50).fold(LockManager::builder(), |builder, _| builder.node(memory()));
        assert!(fifty.build().is_ok());
        let too_many = (0..64).fold(LockManager::builder(), |builder, _| builder.node(memory()));
        assert_eq!(
            too_many.build().expect_err("64"),
            ConfigError::TooManyNodes(64)
        );
    }
}
