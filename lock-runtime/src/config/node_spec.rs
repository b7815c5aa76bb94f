//! One node, as it is written: a URL that is read here, or a node of this process.

use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::ConfigError;
use crate::node::memory::MemoryNode;
use crate::node::redis::Address;

/// One node of the quorum: a server, or one embedded in this process.
///
/// From text it is a URL: `redis://host:port`, `redis://user:password@host:port/database`, `redis+unix:///path`; or the
/// word `memory()`. In a password `/`, `?`, `#` and `%` are written `%2F`, `%3F`, `%23` and `%25`, and where several nodes
/// are listed, `,` is written `%2C`.
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

/// A node that is understood.
#[derive(Debug)]
pub(super) enum Planned {
    Memory(Arc<MemoryNode>),
    Server(Server),
}

/// A server, as its URL says.
#[derive(Debug)]
pub(super) struct Server {
    /// What operators call it: never holds a password.
    pub(super) name: Arc<str>,
    pub(super) address: Address,
    pub(super) login: RedisConnectionInfo,
}

/// Reads all nodes.
///
/// # Errors
///
/// [`ConfigError::Node`] for the first that cannot be read, [`ConfigError::DuplicateNode`] for the first that comes again.
pub(super) fn read_all(specs: Vec<NodeSpec>) -> Result<Vec<Planned>, ConfigError> {
    let mut nodes: Vec<Planned> = Vec::with_capacity(specs.len());
    for (index, NodeSpec(spec)) in specs.into_iter().enumerate() {
        let position = index + 1;
        let node = match spec {
            Spec::Memory(node) => Planned::Memory(node),
            Spec::Url(url) => match read(&url) {
                Ok(server) => Planned::Server(server),
                Err(reason) => {
                    return Err(ConfigError::Node {
                        position,
                        node: without_login(&url),
                        reason: reason.to_owned(),
                    });
                }
            },
        };
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
            (Self::Server(one), Self::Server(other)) => one.address == other.address,
            _ => false,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Memory(_) => "memory()".to_owned(),
            Self::Server(server) => server.name.to_string(),
        }
    }
}

const NOT_A_URL: &str = "not a node URL, such as redis://host:6379 or redis+unix:///path";

/// What a URL says, or what is wrong with it in words that quote nothing of it: what cannot be read may be a password.
fn read(url: &str) -> Result<Server, &'static str> {
    // Whoever reads URLs leaves out line breaks and tabs without a word.
    if url.contains(char::is_control) {
        return Err("it has a line break or another control character inside");
    }
    let (scheme, rest) = url.split_once("://").ok_or(NOT_A_URL)?;
    let is_path = match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => false,
        "redis+unix" | "valkey+unix" | "unix" => true,
        "rediss" | "valkeys" => return Err("TLS is not supported by this version"),
        _ => return Err(NOT_A_URL),
    };
    if !is_path {
        read_authority(rest)?;
    }
    let info: ConnectionInfo = url.into_connection_info().map_err(|_| NOT_A_URL)?;
    let login = info.redis_settings().clone();
    if !(0..=i64::from(u16::MAX)).contains(&login.db()) {
        return Err("there is no such database");
    }
    if login.username().is_some() && login.password().is_none() {
        return Err(
            "it names a user and no password: a password of the default user is written :password@host",
        );
    }
    let address = match info.addr() {
        ConnectionAddr::Tcp(_, 0) => return Err("there is no port 0"),
        // Names of hosts are the same in upper and lower case.
        ConnectionAddr::Tcp(host, port) => Address::Tcp(host.to_ascii_lowercase(), *port),
        ConnectionAddr::Unix(path) if cfg!(unix) => Address::Unix(path.clone()),
        ConnectionAddr::Unix(_) => return Err("this system has no Unix sockets"),
        _ => return Err("this kind of address is not supported"),
    };
    let name = match &address {
        Address::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        Address::Tcp(host, port) => format!("{host}:{port}"),
        Address::Unix(path) => path.display().to_string(),
    };
    Ok(Server {
        name: name.into(),
        address,
        login,
    })
}

/// Looks at what stands behind `redis://`. A password that is not encoded is easily read as something else, most of all as
/// the name of the host, which is shown.
fn read_authority(rest: &str) -> Result<(), &'static str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, further) = rest.split_at(end);
    if further.contains('@') {
        return Err(
            "an @ comes after a /, ? or #, which are written %2F, %3F and %23 in a password",
        );
    }
    if further.contains('#') {
        return Err("a # begins what no node URL has; in a password it is written %23");
    }
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => host,
        None => authority,
    };
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.starts_with('[') || host.bytes().all(of_a_name) {
        Ok(())
    } else {
        Err("the host is neither a name nor an address")
    }
}

/// A URL without user, password and parameters; of what cannot be read as one, nothing but the scheme.
fn without_login(url: &str) -> String {
    const SCHEMES: [&str; 9] = [
        "redis",
        "rediss",
        "redis+unix",
        "valkey",
        "valkeys",
        "valkey+unix",
        "unix",
        "http",
        "https",
    ];
    let (scheme, _) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    match read(url) {
        Ok(server) => format!("{scheme}://{}", server.name),
        Err(_) if SCHEMES.contains(&scheme.as_str()) => format!("{scheme}://…"),
        Err(_) => "…".to_owned(),
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

    /// Also the parts of it that a mistake in writing makes a host, a port, a path or a parameter of.
    #[test]
    fn passwords_are_shown_nowhere() {
        let secret = "hunter2";
        for url in [
            "redis://user:hunter2@host:1/0",
            "redis://user:hunter2@host:port",
            "redis://user:hunter2@host:99999",
            "redis://user:hunter2@host:0",
            "redis://user:hunter2@host:1/database",
            "redis://user:hunter2@host:1/99999999999999999999",
            "redis://user:hunter2@host:1/-1",
            "redis://user:hunter2@",
            "redis://:hunter2@",
            "redis://hunter2@host",
            "redis://:hunter2",
            "redis:hunter2@host",
            "redis:/user:hunter2@host",
            "user:hunter2@host",
            "rediss://user:hunter2@host:1",
            "REDISS://user:hunter2@host:1",
            "valkeys://user:hunter2@host:1",
            "http://user:hunter2@host:1",
            "redis-sentinel://user:hunter2@host:1",
            "redis://user:hun@ter2:hunter2@host:1",
            "redis://user:@hunter2@host:1",
            "redis://user:hunter2/x@host:1",
            "redis://user:1/hunter2@host:1",
            "redis://hunter2/x@host:1",
            "redis://hunter2#x@host:1",
            "redis://hunter2?x@host:1",
            "redis://user:1#hunter2@host:1",
            "redis://user:1?hunter2@host:1",
            "redis://user:1?protocol=hunter2",
            "redis://host:1#hunter2",
            "redis://user:%hunter2@host:1",
            "redis://user:%zzhunter2@host:1",
            "redis://user:%ffhunter2@host:1",
            "redis://user%3Ahunter2%40host:1",
            "redis://user:hunter2\\@host:1",
            "redis://user:hunter2[@host:1",
            "redis://[hunter2@host:1",
            "redis://user:hunter2@[::1",
            "redis://user:hunter2@[hunter2]:1",
            "redis://user:hunter2@ho st:1",
            "redis://user:hunter2@host:1\nredis://user:hunter2@host:2",
            "redis://user:hun\tter2hunter2@host:1",
            "redis://user:hunter2\0@host:1",
            "redis://user:hunter2 {}|^`<>\"@host:1",
            "redis://user:hunter2,x@host:1",
            "redis+unix://hunter2@host/path",
            "redis+unix:///path?user=me&pass=hunter2",
            "redis+unix:///path?user=me&pass=sec@hunter2",
            "redis+unix:///path?user=me&pass=hunter2&db=x",
            "hunter2",
            "hunter2://x",
            "://hunter2",
        ] {
            let spec = format!("{:?}", NodeSpec::from(url));
            assert!(!spec.contains(secret), "{spec}");
            let builder = LockManager::builder().node(url);
            assert!(!format!("{builder:?}").contains(secret));
            match builder.build() {
                Ok(manager) => assert!(!format!("{manager:?}").contains(secret), "{url}"),
                Err(error) => {
                    let said = format!("{error} {error:?}");
                    assert!(!said.contains(secret) && said.contains("node 1"), "{said}");
                }
            }
        }
    }

    /// Around it, whatever means something in a URL, at three places at once.
    #[test]
    fn passwords_are_shown_nowhere_whatever_stands_around_them() {
        let odd = [
            "", "/", "//", "?", "#", "@", ":", "%", "[", "]", "\\", " ", "\n", "\0", ",", ";", "&",
            "=", "%40", "%3A", "%2F", "%ff", "п",
        ];
        for (first, second, third) in odd
            .iter()
            .flat_map(|first| odd.iter().map(move |second| (first, second)))
            .flat_map(|(first, second)| odd.iter().map(move |third| (first, second, third)))
        {
            let url = format!("redis://{first}user:{second}hunter2{third}@host:1");
            assert!(!without_login(&url).contains("hunter2"), "{url}");
            if let Ok(server) = read(&url) {
                assert_eq!(&*server.name, "host:1", "{url}");
                assert!(server.login.password().is_some(), "{url}");
            }
        }
    }

    #[test]
    fn a_password_may_be_anything_that_is_written_as_urls_write_it() {
        for (written, meant) in [
            ("hunter2", "hunter2"),
            ("a@b:c@d", "a@b:c@d"),
            ("%40%2F%3F%23%25%2C%5B", "@/?#%,["),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("a[b]{c}|d\\e^f g", "a[b]{c}|d\\e^f g"),
            ("%D0%BF", "п"),
            ("п", "п"),
        ] {
            let server = read(&format!("redis://user:{written}@host:1/2"));
            let server = server.unwrap_or_else(|reason| panic!("{written}: {reason}"));
            assert_eq!(server.login.password(), Some(meant), "{written}");
            assert_eq!(server.login.username(), Some("user"));
            assert_eq!(server.login.db(), 2);
            assert_eq!(&*server.name, "host:1");
        }
        let server = read("redis+unix:///run/redis.sock?user=me&pass=a@b&db=3").expect("a path");
        assert_eq!(server.login.password(), Some("a@b"));
        assert_eq!(&*server.name, "/run/redis.sock");
    }

    #[test]
    fn hosts_are_names_and_addresses() {
        for (url, name) in [
            ("redis://host", "host:6379"),
            (
                "redis://Node-1.example_x.org.:7000/",
                "node-1.example_x.org.:7000",
            ),
            ("valkey://10.0.0.1:7000", "10.0.0.1:7000"),
            ("REDIS://[2001:DB8::1]:7000", "[2001:db8::1]:7000"),
            ("redis://[::1]", "[::1]:6379"),
            ("unix:///path", "/path"),
        ] {
            let read = read(url).unwrap_or_else(|reason| panic!("{url}: {reason}"));
            assert_eq!(&*read.name, name, "{url}");
        }
        for url in [
            "",
            "redis",
            "redis:",
            "redis:/",
            "redis://",
            "redis:///0",
            "redis://:6379",
            "redis://@",
            "redis://0.0.0.0:1",
            "redis://[::]:1",
            "redis://[::1",
            "redis://::1",
            "redis://[x]:1",
            "redis://h{}:1",
            "redis://h,i:1",
            "redis://h%41:1",
            "redis://ключ:1",
            "redis://host:-1",
            "redis://host:65536",
            "redis://host:1:2",
            "redis://host:0",
            "redis://host:1/x",
            "redis://host:1/1/2",
            "redis://host:1#x",
            "redis://user@host:1",
            "redis+unix://",
            "redis+unix://host/path",
            "redis+cluster://host:1",
            "redis-sentinel://host:1/name",
            "http://host:1",
            "tcp://host:1",
            "memory",
            "memory(",
        ] {
            let refused = build(&["redis://127.0.0.1:1", url]).map(drop);
            let named = matches!(&refused, Err(ConfigError::Node { position: 2, .. }));
            assert!(named, "{url}: {refused:?}");
        }
    }

    #[test]
    fn a_node_that_cannot_be_used_is_named_by_place_and_address() {
        let error = build(&["redis://127.0.0.1:1", "http://user:pw@host"]).expect_err("a fault");
        assert_eq!(
            error.to_string(),
            "node 2 (`http://…`): not a node URL, such as redis://host:6379 or redis+unix:///path"
        );
        for url in ["rediss://host:1", "RedisS://host:1", "valkeys://host:1"] {
            let error = build(&[url]).expect_err("no TLS");
            assert!(error.to_string().contains("TLS"), "{error}");
        }
        assert_eq!(build(&[]).expect_err("none"), ConfigError::NoNodes);
    }

    #[test]
    fn the_same_server_twice_is_refused() {
        for (first, again, name) in [
            (
                "redis://127.0.0.1:1",
                "redis://u:p@127.0.0.1:1/3",
                "127.0.0.1:1",
            ),
            ("redis://host", "valkey://HOST:6379/", "host:6379"),
            ("redis://[::1]:1", "redis://[0:0::0:1]:1", "[::1]:1"),
            ("redis+unix:///a/b", "unix:///a//b?db=1", "/a//b"),
        ] {
            let error = build(&[first, "redis://another:1", again]).expect_err("twice");
            assert_eq!(
                error.to_string(),
                format!("node 3 (`{name}`) is listed twice: its vote would count twice")
            );
        }
        let node = memory();
        let twice = LockManager::builder().node(node.clone()).node(node).build();
        assert!(matches!(twice, Err(ConfigError::DuplicateNode { .. })));
        assert!(build(&["memory()", "memory()", "memory()"]).is_ok());
    }
}
