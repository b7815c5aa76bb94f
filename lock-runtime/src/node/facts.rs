//! What is found out about a server when a deployment is looked at.

use std::sync::Arc;
use std::time::Duration;

use std::time::Instant;

use super::Standing;
use super::role::{at, info_field};
use super::trouble::Trouble;
use super::words::visible;

/// A server of a node. Most nodes have one.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    pub(crate) found: Found,
}

#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// There is no server: the node is a part of this process.
    Embedded,
    Facts(Box<Facts>),
    Trouble(Trouble),
}

/// See the [module](self). Where something could not be asked: what was said instead.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The median of a few.
    pub(crate) round_trip: Duration,
    pub(crate) standing: Standing,
    pub(crate) transport: Transport,
    /// How many replicas must have a lock before it counts.
    pub(crate) waits_for: usize,
    pub(crate) sentinels: Option<Sentinels>,
    pub(crate) info: Result<Info, Arc<str>>,
    pub(crate) appendfsync: Result<String, Arc<str>>,
    /// When snapshots are written; empty for never.
    pub(crate) save: Result<String, Arc<str>>,
    pub(crate) clock: Option<Reading>,
    /// What it does not permit, or not know.
    pub(crate) missing: Vec<Missing>,
    /// Why it takes no writes, if it takes none.
    pub(crate) refuses_writes: Option<Arc<str>>,
    /// Why releases cannot be heard of, if they cannot.
    pub(crate) is_deaf: Option<Arc<str>>,
}

impl Facts {
    /// Whether there are as many replicas as must have a lock, as far as is known.
    pub(crate) fn has_replicas(&self) -> bool {
        let enough = |info: &Info| info.replicas.len() >= self.waits_for;
        self.info.as_ref().map_or(true, enough)
    }
}

/// Of a group whose sentinels know of more of them than are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// So many are configured.
    pub(crate) named: usize,
    /// So many there are.
    pub(crate) known: usize,
}

/// How bytes come to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tls,
    /// In plain text, within the machine.
    Local,
    /// In plain text.
    Plain,
}

/// What a server said of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// When it said so, on our clock: half-way between question and answer.
    pub(crate) at: Instant,
    /// So much since 1970.
    pub(crate) said: Duration,
    /// By how much that may be wrong, in either direction.
    pub(crate) uncertain: Duration,
}

/// What a command needs and does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Missing {
    /// In the words of a rule: `+set`, `~shop:*`, `&shop:*`.
    Permission(Box<str>),
    /// The server does not know this command.
    Command(Box<str>),
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// What it calls itself: `redis`, `valkey`.
    pub(crate) product: String,
    pub(crate) version: String,
    /// Which version of Redis it is like.
    pub(crate) like: Option<(u32, u32)>,
    pub(crate) is_primary: bool,
    pub(crate) replicas: Vec<String>,
    pub(crate) aof: bool,
    /// What it could not write to disk, if that was the last that was tried.
    pub(crate) disk_errors: Vec<&'static str>,
    pub(crate) maxmemory: u64,
    pub(crate) used_memory: u64,
    pub(crate) eviction: String,
    pub(crate) evicted: u64,
    /// Since 1970.
    pub(crate) time: Option<Duration>,
}

impl Info {
    /// From the answer to `INFO`.
    pub(crate) fn read(info: &str) -> Self {
        let text = |name: &str| info_field(info, name).unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        let redis = text("redis_version");
        let (product, version) = match (
            info_field(info, "server_name"),
            info_field(info, "valkey_version"),
        ) {
            (Some(name), Some(version)) => (name, version),
            _ => ("redis", redis),
        };
        let mut parts = redis.split('.').map(str::parse::<u32>);
        let like = match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
            _ => None,
        };
        let disk_errors = [
            ("aof_last_write_status", "its append-only file"),
            ("rdb_last_bgsave_status", "a snapshot"),
        ];
        let failed =
            |(field, _): &(&str, &str)| !matches!(info_field(info, field), None | Some("ok"));
        Self {
            product: visible(product),
            version: visible(version),
            like,
            is_primary: text("role") != "slave",
            replicas: replicas(info),
            aof: number("aof_enabled") == 1,
            disk_errors: disk_errors
                .into_iter()
                .filter(failed)
                .map(|(_, what)| what)
                .collect(),
            maxmemory: number("maxmemory"),
            used_memory: number("used_memory"),
            eviction: visible(text("maxmemory_policy")),
            evicted: number("evicted_keys"),
            time: Some(number("server_time_usec"))
                .filter(|micros| *micros > 0)
                .map(Duration::from_micros),
        }
    }
}

/// `slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1`
fn replicas(info: &str) -> Vec<String> {
    let numbered = |line: &&str| {
        let rest = line.strip_prefix("slave");
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let address = |line: &str| {
        let (_, fields) = line.split_once(':')?;
        let field = |name: &str| {
            fields
                .split(',')
                .find_map(|field| field.trim().strip_prefix(name))
        };
        Some(at(field("ip=")?, field("port=")?))
    };
    info.lines().filter(numbered).filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_read() {
        let info = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nserver_time_usec:1796008066006763\r\n\
                    # Memory\r\nused_memory:916904\r\nmaxmemory:2097152\r\nmaxmemory_policy:volatile-lru\r\n\
                    # Persistence\r\nrdb_last_bgsave_status:err\r\naof_enabled:1\r\naof_last_write_status:ok\r\n\
                    # Stats\r\nevicted_keys:7\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
                    slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1\r\n\
                    slave1:ip=::1,port=7000,state=wait_bgsave,offset=0,lag=0\r\nslave_read_only:1\r\n";
        assert_eq!(
            Info::read(info),
            Info {
                product: "redis".to_owned(),
                version: "7.0.15".to_owned(),
                like: Some((7, 0)),
                is_primary: true,
                replicas: vec!["10.0.0.2:6379".to_owned(), "[::1]:7000".to_owned()],
                aof: true,
                disk_errors: vec!["a snapshot"],
                maxmemory: 2_097_152,
                used_memory: 916_904,
                eviction: "volatile-lru".to_owned(),
                evicted: 7,
                time: Some(Duration::from_micros(1_796_008_066_006_763)),
            }
        );
    }

    #[test]
    fn servers_that_are_like_redis_say_what_they_are() {
        let info =
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nrole:slave\r\n";
        let info = Info::read(info);
        assert_eq!((&*info.product, &*info.version), ("valkey", "8.1.1"));
        assert_eq!(info.like, Some((7, 2)));
        assert!(!info.is_primary);
        for odd in ["", "redis_version:unstable\r\n", "redis_version:255\r\n"] {
            assert_eq!(Info::read(odd).like, None, "{odd:?}");
        }
    }
}
