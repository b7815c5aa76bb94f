//! What is counted, and which of it has grown.

use crate::allocator::live_bytes;
use crate::load::KEPT;
use lock_runtime::{__private::tasks, LockManager};
use lock_tests::fleet::MARKER;
use lock_tests::{Fleet, RedisServer};
use std::fmt;
use std::time::{Duration, Instant};

/// So much more heap may be in use at the end than after the first tenth of the keys, less than a byte for each key of a
/// run of the usual length.
const HEAP_ALLOWANCE: usize = 64 * 1024;

/// The same for what connections hold, which keep the room that their longest queue took: a server that is not run for half
/// a second has thousands of requests before it. It goes with the connection, and has a bound.
const BUFFER_ALLOWANCE: usize = 4 * 1024 * 1024;

/// The same for the memory of one server, where it is buffers of its own.
const SERVER_ALLOWANCE: usize = 128 * 1024;

/// While others wait, what they need at the moment comes and goes. The least of so many looks is what stays.
const LOOKS: usize = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(7);

/// The numbers of one moment at which nothing is under way but those who wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// As the servers list them, the harness's own left out.
    pub(crate) connections: usize,
    /// Open files and sockets of this process.
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// On the managers' own threads.
    pub(crate) tasks: usize,
    /// Heap of this process, with connections that are new.
    pub(crate) live_bytes: usize,
    /// So much more it was with those that had been used.
    pub(crate) buffer_bytes: usize,
    /// Scripts that servers remember.
    pub(crate) scripts: usize,
    /// Memory of the fullest server.
    pub(crate) server_bytes: usize,
    /// On all servers, other than those that are meant to be there.
    pub(crate) leaked_keys: usize,
}

impl Reading {
    /// Waits until nothing is left of what was under way, for so long, and looks. What has not gone by then is what stays; so is
    /// what has grown since the earlier reading.
    pub(crate) async fn settled(
        fleet: &Fleet,
        managers: &[LockManager],
        earlier: Option<&Self>,
        patience: Duration,
    ) -> Self {
        let start = Instant::now();
        let under_way = || {
            let connected = fleet.servers().iter().any(|server| server.clients() > 0);
            leaked_keys(fleet) > 0 || managers.is_empty() && connected
        };
        while start.elapsed() < patience && under_way() {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let used = Self::least(fleet, managers).await;
        if !managers.is_empty() {
            renew_connections(fleet, patience).await;
        }
        loop {
            let fresh = Self::least(fleet, managers).await;
            let reading = Self {
                buffer_bytes: used.live_bytes.saturating_sub(fresh.live_bytes),
                ..fresh
            };
            let grown = earlier.is_some_and(|earlier| !reading.grown_since(earlier).is_empty());
            if !grown || start.elapsed() >= patience {
                return reading;
            }
        }
    }

    async fn least(fleet: &Fleet, managers: &[LockManager]) -> Self {
        let mut least = Self::now(fleet, managers);
        for _ in 1..LOOKS {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            let now = Self::now(fleet, managers);
            least = Self {
                tasks: now.tasks.min(least.tasks),
                live_bytes: now.live_bytes.min(least.live_bytes),
                server_bytes: now.server_bytes.min(least.server_bytes),
                ..now
            };
        }
        least
    }

    fn now(fleet: &Fleet, managers: &[LockManager]) -> Self {
        let live_bytes = live_bytes();
        let servers = fleet.servers();
        let most = |name| {
            let numbers = servers.iter().map(|server| info(server, "memory", name));
            numbers.max().unwrap_or(0)
        };
        Self {
            live_bytes,
            buffer_bytes: 0,
            connections: servers.iter().map(RedisServer::clients).sum(),
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            tasks: managers.iter().map(tasks).sum(),
            scripts: most("number_of_cached_scripts"),
            server_bytes: most("used_memory"),
            leaked_keys: leaked_keys(fleet),
        }
    }

    /// What is more than it was, in words.
    pub(crate) fn grown_since(&self, earlier: &Self) -> Vec<String> {
        let numbers = [
            ("connections", earlier.connections, self.connections, 0),
            ("descriptors", earlier.descriptors, self.descriptors, 0),
            ("threads", earlier.threads, self.threads, 0),
            ("tasks", earlier.tasks, self.tasks, 0),
            (
                "live_bytes",
                earlier.live_bytes,
                self.live_bytes,
                HEAP_ALLOWANCE,
            ),
            (
                "buffer_bytes",
                earlier.buffer_bytes,
                self.buffer_bytes,
                BUFFER_ALLOWANCE,
            ),
            ("scripts", earlier.scripts, self.scripts, 0),
            (
                "server_bytes",
                earlier.server_bytes,
                self.server_bytes,
                SERVER_ALLOWANCE,
            ),
            ("leaked_keys", 0, self.leaked_keys, 0),
        ];
        let grown = numbers
            .into_iter()
            .filter(|(_, before, now, allowed)| *now > before + allowed);
        grown
            .map(|(name, before, now, allowed)| {
                format!("grown: {name} from {before} to {now}, where {allowed} more are allowed")
            })
            .collect()
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "connections={} descriptors={} threads={} tasks={} live_bytes={} buffer_bytes={} scripts={} server_bytes={} leaked_keys={}",
            self.connections,
            self.descriptors,
            self.threads,
            self.tasks,
            self.live_bytes,
            self.buffer_bytes,
            self.scripts,
            self.server_bytes,
            self.leaked_keys
        )
    }
}

/// Has all connections made anew. Those that do not come back are missing where they are counted.
async fn renew_connections(fleet: &Fleet, patience: Duration) {
    let start = Instant::now();
    for server in fleet.servers() {
        let connected = server.clients();
        server.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        while start.elapsed() < patience && server.clients() < connected {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}

/// Keys that are on servers and should not be. What is remembered of fencing tokens is meant to stay for a day, which is no
/// use here: it is counted as such, and removed.
fn leaked_keys(fleet: &Fleet) -> usize {
    fleet.servers().iter().map(leaked_on).sum()
}

fn leaked_on(server: &RedisServer) -> usize {
    const AT_ONCE: usize = 1000;
    let keys = server.keys("*");
    let (fences, others): (Vec<_>, Vec<_>) =
        keys.into_iter().partition(|key| key.ends_with(":fence"));
    let forever = without_expiry(server);
    for fences in fences.chunks(AT_ONCE) {
        let command: Vec<_> = ["DEL"]
            .into_iter()
            .chain(fences.iter().map(String::as_str))
            .collect();
        server.command::<()>(&command);
    }
    let leaked = others
        .iter()
        .filter(|key| *key != MARKER && !KEPT.contains(&key.as_str()));
    leaked.count() + forever
}

/// How many keys of a server never expire.
fn without_expiry(server: &RedisServer) -> usize {
    let info: String = server.command(&["INFO", "keyspace"]);
    let number = |name: &str| -> usize {
        let all = info.split([':', ',', '\r', '\n']);
        all.filter_map(|field| {
            field
                .strip_prefix(name)?
                .strip_prefix('=')?
                .parse::<usize>()
                .ok()
        })
        .sum()
    };
    number("keys").saturating_sub(number("expires"))
}

fn info(server: &RedisServer, section: &str, name: &str) -> usize {
    let info: redis::InfoDict = server.command(&["INFO", section]);
    info.get(name)
        .unwrap_or_else(|| panic!("{} does not say {name}", server.name()))
}

fn entries(directory: &str) -> usize {
    let entries = std::fs::read_dir(directory);
    entries
        .unwrap_or_else(|error| panic!("{directory}: {error}"))
        .count()
}
