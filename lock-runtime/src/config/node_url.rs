//! The URL of a node: reading it, and showing it without what is secret in it.

use std::path::PathBuf;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::node::redis::{Address, Connector, Sentinels};

/// What a URL names.
#[derive(Debug)]
pub(super) struct Server {
    /// What operators call it: never holds a password.
    pub(super) name: Arc<str>,
    pub(super) whereabouts: Whereabouts,
    pub(super) login: RedisConnectionInfo,
    /// `None`: in plain text.
    pub(super) tls: Option<TlsFiles>,
    /// What makes connections to it, once the files are read.
    pub(super) connector: Option<Arc<Connector>>,
    /// How many replicas must have a lock too.
    pub(super) replicas: usize,
}

/// Where it is.
#[derive(Debug)]
pub(super) enum Whereabouts {
    Server(Address),
    Sentinels(Sentinels),
    /// Some of its servers.
    Cluster(Vec<Address>),
}

/// Files in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Who signs the certificates of servers.
    pub(super) ca: Option<PathBuf>,
    /// This client's own certificate, and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

const NOT_A_URL: &str = "not a node URL, such as redis://host:6379, redis+unix:///path, redis+sentinel://host:26379,host:26379/group or \
                         redis+cluster://host:6379,host:6379";

/// What has a scheme of ours, and is none.
const UNREADABLE: &str = "it cannot be read: redis://[[user]:password@]host[:port][/database] is how a server is written; in a \
                          password / ? # % , are written %2F %3F %23 %25 %2C";

const COMMAS: &str = "nodes, and the hosts of one node, are separated by commas";

const MOST_REPLICAS: usize = 100;

/// The kinds of URL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Server,
    Unix,
    Sentinels,
    Cluster,
}

impl Kind {
    /// What to say of an option that there is not: it may be a part of a password, so it is not named.
    fn options(self) -> &'static str {
        match self {
            Self::Server | Self::Cluster => {
                "it has an option that is none of replicas, ca, cert, key"
            }
            Self::Unix => "it has an option that is none of user, pass, db, replicas",
            Self::Sentinels => {
                "it has an option that is none of replicas, sentinel_user, sentinel_password, ca, cert, key"
            }
        }
    }

    /// By the scheme in lower case, and whether it asks for TLS.
    fn of(scheme: &str) -> Option<(Self, bool)> {
        let (protocol, kind) = match scheme.split_once('+') {
            None if scheme == "unix" => ("redis", Self::Unix),
            None => (scheme, Self::Server),
            Some((protocol, "unix")) => (protocol, Self::Unix),
            Some((protocol, "sentinel")) => (protocol, Self::Sentinels),
            Some((protocol, "cluster")) => (protocol, Self::Cluster),
            Some(_) => return None,
        };
        match protocol {
            "redis" | "valkey" => Some((kind, false)),
            "rediss" | "valkeys" if kind != Self::Unix => Some((kind, true)),
            _ => None,
        }
    }
}

/// What a URL says, or what is wrong with it in words that quote nothing of it: what cannot be read may be a password.
pub(super) fn read(url: &str) -> Result<Server, &'static str> {
    // Whoever reads URLs leaves out line breaks and tabs without a word.
    if url.contains(char::is_control) {
        return Err("it has a line break or another control character inside");
    }
    let (scheme, rest) = url.split_once("://").ok_or(NOT_A_URL)?;
    // Of a password it could not be a part either.
    if rest.contains("://") {
        return Err(COMMAS);
    }
    let (kind, is_tls) = Kind::of(&scheme.to_ascii_lowercase()).ok_or(NOT_A_URL)?;
    if kind != Kind::Unix {
        read_authority(rest, kind)?;
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let options = Options::read(query, kind, is_tls)?;
    let (name, whereabouts, login) = match kind {
        Kind::Server => read_server(&format!("redis://{place}"))?,
        Kind::Unix => read_server(url)?,
        Kind::Sentinels => read_sentinels(place, options.sentinel)?,
        Kind::Cluster => read_cluster(place)?,
    };
    Ok(Server {
        name: name.into(),
        whereabouts,
        login,
        tls: options.tls,
        connector: None,
        replicas: options.replicas,
    })
}

impl Server {
    /// What a URL or a builder may say, and what this version cannot do.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.replicas > MOST_REPLICAS {
            return Err("replicas must be at most 100");
        }
        Ok(())
    }
}

type Read = (String, Whereabouts, RedisConnectionInfo);

fn read_server(url: &str) -> Result<Read, &'static str> {
    let (address, login) = read_one(url)?;
    Ok((address.to_string(), Whereabouts::Server(address), login))
}

/// `login@host,host/group/database`
fn read_sentinels(place: &str, sentinel: RedisConnectionInfo) -> Result<Read, &'static str> {
    const WHICH: &str =
        "the name of a Sentinel group comes after the hosts: host:26379,host:26379/group";
    let (authority, path) = place.split_once('/').ok_or(WHICH)?;
    let (group, database) = path.split_once('/').unwrap_or((path, ""));
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if group.is_empty() || !group.bytes().all(of_a_name) {
        return Err(WHICH);
    }
    let (hosts, login) = read_hosts(authority, 26379, database)?;
    let name = hosts.first().map(|host| format!("{host}/{group}"));
    let sentinels = Sentinels {
        group: group.to_owned(),
        hosts,
        login: sentinel,
    };
    Ok((
        name.unwrap_or_default(),
        Whereabouts::Sentinels(sentinels),
        login,
    ))
}

/// `login@host,host`
fn read_cluster(place: &str) -> Result<Read, &'static str> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    if !["", "0"].contains(&path) {
        return Err("a cluster has only database 0");
    }
    let (hosts, login) = read_hosts(authority, 6379, "")?;
    let name = hosts.first().map(Address::to_string);
    Ok((name.unwrap_or_default(), Whereabouts::Cluster(hosts), login))
}

/// Several hosts with one login. Each is read as the URL that it would be by itself.
fn read_hosts(
    authority: &str,
    port: u16,
    database: &str,
) -> Result<(Vec<Address>, RedisConnectionInfo), &'static str> {
    let (login, list) = match authority.rsplit_once('@') {
        Some((login, list)) => (format!("{login}@"), list),
        None => (String::new(), authority),
    };
    let mut hosts: Vec<Address> = Vec::new();
    let mut settings = RedisConnectionInfo::default();
    for host in list.split(',') {
        let has_port = host.rfind(':') > host.rfind(']');
        let port = if has_port {
            String::new()
        } else {
            format!(":{port}")
        };
        let (address, with) = read_one(&format!("redis://{login}{host}{port}/{database}"))?;
        if hosts.contains(&address) {
            return Err("a host is listed twice");
        }
        hosts.push(address);
        settings = with;
    }
    Ok((hosts, settings))
}

/// One server and the login for it.
fn read_one(url: &str) -> Result<(Address, RedisConnectionInfo), &'static str> {
    let info: ConnectionInfo = url.into_connection_info().map_err(|_| UNREADABLE)?;
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
    Ok((address, login))
}

/// Looks at what stands behind `redis://`. A password that is not encoded is easily read as something else, most of all as
/// the name of the host, which is shown.
fn read_authority(rest: &str, kind: Kind) -> Result<(), &'static str> {
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
    let hosts = match authority.rsplit_once('@') {
        Some((_, hosts)) => hosts,
        None => authority,
    };
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let is_host = |host: &str| host.starts_with('[') || host.bytes().all(of_a_name);
    let are_hosts = match kind {
        Kind::Server | Kind::Unix => is_host(hosts),
        Kind::Sentinels | Kind::Cluster => hosts.split(',').all(is_host),
    };
    if are_hosts {
        Ok(())
    } else if hosts.contains([';', ' ', '|']) {
        Err(COMMAS)
    } else if hosts.contains(',') {
        Err("several servers are several nodes, each with a redis:// of its own")
    } else {
        Err("the host is neither a name nor an address")
    }
}

/// What comes after the `?`.
#[derive(Default)]
struct Options {
    replicas: usize,
    sentinel: RedisConnectionInfo,
    tls: Option<TlsFiles>,
}

impl Options {
    fn read(query: &str, kind: Kind, is_tls: bool) -> Result<Self, &'static str> {
        let mut seen: Vec<&str> = Vec::new();
        let mut options = Self::default();
        let mut files = TlsFiles::default();
        let (mut certificate, mut key) = (None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if seen.contains(&name) {
                return Err("an option is given twice");
            }
            seen.push(name);
            let value = decode(value).ok_or("the value of an option is not UTF-8")?;
            match name {
                // The client library reads these.
                "user" | "pass" | "db" if kind == Kind::Unix => {}
                "replicas" => {
                    options.replicas = value.parse().map_err(|_| "replicas must be a number")?;
                }
                "sentinel_user" if kind == Kind::Sentinels => {
                    options.sentinel = options.sentinel.set_username(value);
                }
                "sentinel_password" if kind == Kind::Sentinels => {
                    options.sentinel = options.sentinel.set_password(value);
                }
                "ca" | "cert" | "key" if !is_tls => {
                    return Err("ca, cert and key are for TLS: rediss://");
                }
                "ca" => files.ca = Some(value.into()),
                "cert" => certificate = Some(value.into()),
                "key" => key = Some(value.into()),
                _ => return Err(kind.options()),
            }
        }
        if options.sentinel.username().is_some() && options.sentinel.password().is_none() {
            return Err("it names a user of the sentinels and no password");
        }
        files.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err("cert and key, a certificate and its key, come together");
            }
        };
        options.tls = is_tls.then_some(files);
        Ok(options)
    }
}

/// Percent-encoding; a `%` that begins none is one.
fn decode(written: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let bytes = written.as_bytes();
    let mut meant = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let pair = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2)));
        match pair.map(|(high, low)| u8::try_from(high << 4 | low)) {
            Some(Ok(encoded)) if byte == b'%' => {
                meant.push(encoded);
                at += 3;
            }
            _ => {
                meant.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(meant).ok()
}

/// A URL without user, password and options; of what cannot be read as one, nothing but the scheme.
pub(super) fn without_login(url: &str) -> String {
    let (scheme, _) = url.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let is_known = Kind::of(&scheme).is_some() || ["http", "https"].contains(&scheme.as_str());
    match read(url) {
        Ok(server) => format!("{scheme}://{}", server.name),
        Err(_) if is_known => format!("{scheme}://…"),
        Err(_) => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests;
