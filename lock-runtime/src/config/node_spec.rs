//! One node, as it is given: a URL, or a node of this process.

use std::fmt;
use std::sync::Arc;

use super::node_url::{Server, Whereabouts, read, without_login};
use super::tls::Connectors;
use crate::error::ConfigError;
use crate::node::memory::MemoryNode;
#[cfg(feature = "tls")]
use crate::node::redis::Tls;

/// One node of the quorum: a server, a Sentinel group, or one embedded in this process.
///
/// From text it is the word `memory()` or a URL:
///
/// | URL | node |
/// |---|---|
/// | `redis://[[user]:password@]host[:port][/database]` | a server |
/// | `rediss://…` | the same over TLS, with the feature `tls` |
/// | `redis+unix:///path[?user=…&pass=…&db=…]` | a server on this machine |
/// | `redis+sentinel://[[user]:password@]host[:port],…/group[/database]` | the primary of a group, wherever its sentinels say that it is |
/// | `redis+cluster://[[user]:password@]host[:port],…` | a Redis Cluster that these are some of the servers of |
///
/// What `rediss+sentinel://` and `rediss+cluster://` name is reached over TLS, the sentinels included. The sentinels have a
/// login of their own. `valkey` may be written for `redis`.
///
/// Options follow a `?` and are separated by `&`:
///
/// | option | meaning |
/// |---|---|
/// | `replicas=2` | see [`replicas`](Self::replicas) |
/// | `sentinel_user=…`, `sentinel_password=…` | the login at the sentinels |
/// | `ca=/file`, `cert=/file`, `key=/file` | for TLS, in PEM: who signs the certificates of the servers, instead of who the system trusts; and this client's own certificate |
///
/// In a password `/`, `?`, `#`, `&`, `@` and `%` are written `%2F`, `%3F`, `%23`, `%26`, `%40` and `%25`, and where several nodes are
/// listed, `,` is written `%2C`.
#[derive(Clone)]
pub struct NodeSpec {
    what: What,
    replicas: Option<usize>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

#[derive(Clone)]
enum What {
    Url(String),
    Memory(Arc<MemoryNode>),
}

/// A node in this process, with the semantics of a server: for a first try and for unit tests.
///
/// Its clock is tokio's, so a test with a paused clock sees leases end exactly. Clones are the same node: two managers
/// that are given clones of it contend for the same locks.
#[must_use]
pub fn memory() -> NodeSpec {
    NodeSpec::of(What::Memory(Arc::new(MemoryNode::new())))
}

impl NodeSpec {
    fn of(what: What) -> Self {
        Self {
            what,
            replicas: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// How many replicas of the server must have a lock before the server's vote for it counts: for an acquire, a renewal and a
    /// fencing token. From 0 to 100; default 0: replicas are not asked. With fewer, the node's answer is a failure in words, and
    /// the lock is given back.
    ///
    /// A replica that is promoted then has the lock, if it is one of those that had it, and if its clock agrees with that of the
    /// server before: it is told the time of day at which a lock ends. A node waits for its replicas for a third of
    /// `node_timeout`. Its user needs `WAIT`.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Whose certificates are trusted, and which one is shown, where the URL begins with `rediss`; instead of options in the
    /// URL.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The nodes of a list, separated by commas. What has no scheme goes on with the hosts of the URL before it.
    pub(super) fn list(list: &str) -> Vec<Self> {
        let mut nodes: Vec<String> = Vec::new();
        let pieces = list.split(',').map(str::trim);
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            let has_hosts = |url: &String| {
                let (scheme, _) = url.split_once("://").unwrap_or_default();
                let scheme = scheme.to_ascii_lowercase();
                scheme.ends_with("+sentinel") || scheme.ends_with("+cluster")
            };
            match nodes.last_mut().filter(|before| has_hosts(before)) {
                Some(before) if !piece.contains("://") && piece != MEMORY => {
                    before.push(',');
                    before.push_str(piece);
                }
                _ => nodes.push(piece.to_owned()),
            }
        }
        nodes.into_iter().map(Self::from).collect()
    }

    fn plan(self, connectors: &mut Connectors) -> Result<Planned, String> {
        match self.what {
            What::Memory(_) if self.replicas.is_some_and(|count| count > 0) => {
                Err("a node of this process has no replicas".into())
            }
            #[cfg(feature = "tls")]
            What::Memory(_) if self.tls.is_some() => {
                Err("a node of this process is not reached over TLS".into())
            }
            What::Memory(node) => Ok(Planned::Memory(node)),
            What::Url(url) => {
                let mut server = read(&url)?;
                if let Some(replicas) = self.replicas {
                    server.replicas = replicas;
                }
                server.check()?;
                #[cfg(feature = "tls")]
                let connector = connectors.of(&server, self.tls);
                #[cfg(not(feature = "tls"))]
                let connector = connectors.of(&server);
                server.connector = connector?;
                Ok(Planned::Server(Box::new(server)))
            }
        }
    }

    /// As it was written, but for the user and the password.
    fn shown(&self) -> String {
        match &self.what {
            What::Url(url) => without_login(url),
            What::Memory(_) => MEMORY.to_owned(),
        }
    }
}

/// How a node of this process is written.
const MEMORY: &str = "memory()";

impl From<&str> for NodeSpec {
    fn from(url: &str) -> Self {
        match url.trim() {
            MEMORY => memory(),
            url => Self::of(What::Url(url.to_owned())),
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
        f.debug_tuple("NodeSpec").field(&self.shown()).finish()
    }
}

/// A node that is understood.
#[derive(Debug)]
pub(super) enum Planned {
    Memory(Arc<MemoryNode>),
    Server(Box<Server>),
}

/// Reads all nodes.
///
/// # Errors
///
/// [`ConfigError::Node`] for the first that cannot be read, [`ConfigError::DuplicateNode`] for the first that comes again.
pub(super) fn read_all(specs: Vec<NodeSpec>) -> Result<Vec<Planned>, ConfigError> {
    let mut nodes: Vec<Planned> = Vec::with_capacity(specs.len());
    let mut connectors = Connectors::default();
    for (index, spec) in specs.into_iter().enumerate() {
        let position = index + 1;
        let shown = spec.shown();
        let node = spec.plan(&mut connectors);
        let node = node.map_err(|reason| ConfigError::Node {
            position,
            node: shown,
            reason,
        })?;
        if nodes.iter().any(|other| other.is_same(&node)) {
            let node = node.name();
            return Err(ConfigError::DuplicateNode { position, node });
        }
        nodes.push(node);
    }
    Ok(nodes)
}

impl Planned {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory(one), Self::Memory(other)) => Arc::ptr_eq(one, other),
            (Self::Server(one), Self::Server(other)) => one.whereabouts.may_be(&other.whereabouts),
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Memory(_) => MEMORY.to_owned(),
            Self::Server(server) => server.name.to_string(),
        }
    }
}

impl Whereabouts {
    /// Whether both are the same node, as far as can be told without asking it.
    fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server(one), Self::Server(other)) => one == other,
            (Self::Sentinels(one), Self::Sentinels(other)) => {
                one.group == other.group && share(&one.hosts, &other.hosts)
            }
            (Self::Cluster(one), Self::Cluster(other)) => share(one, other),
            _ => false,
        }
    }
}

fn share<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    some.iter().any(|one| others.contains(one))
}

#[cfg(test)]
mod tests;
