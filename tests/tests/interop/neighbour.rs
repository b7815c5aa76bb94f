//! The clients of another language, and what can be asked of them.

use lock_tests::processes::{Peer, node, python};
use lock_tests::{Fleet, RedisServer};
use std::path::Path;
use std::time::Duration;

/// One lock for all: pottery puts `redlock:` before every key.
pub(crate) const KEY: &str = "redlock:shared";

/// A library that writes the same locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Library {
    /// Python's `redis`, which has a lock on one node.
    RedisPy,
    /// Python's `pottery`.
    Pottery,
    /// `redlock` of npm with `ioredis`, as it is installed by default.
    Redlock,
    /// The version 5 of it.
    Redlock5,
}

impl Library {
    /// On how many nodes its locks are.
    pub(crate) fn nodes(self) -> usize {
        match self {
            Self::RedisPy => 1,
            Self::Pottery | Self::Redlock | Self::Redlock5 => 5,
        }
    }

    /// Whether what it sent to a node may be executed after its release, and stay there until it runs out: it goes on when
    /// it has a majority, and does not see to the order of what is under way.
    pub(crate) fn leaves_something(self) -> bool {
        matches!(self, Self::Pottery)
    }

    /// A process with a client of every node.
    pub(crate) async fn start(self, fleet: &Fleet) -> Neighbour {
        let (mut command, script, name) = match self {
            Self::RedisPy => (python(&["redis"]), "client.py", "redis"),
            Self::Pottery => (python(&["redis", "pottery"]), "client.py", "pottery"),
            Self::Redlock => (node(), "client.js", "redlock"),
            Self::Redlock5 => (node(), "client.js", "redlock-5"),
        };
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop");
        let ports = fleet.servers().iter().map(RedisServer::port);
        command
            .arg(scripts.join(script))
            .arg(name)
            .args(ports.map(|port| port.to_string()));
        let mut peer = Peer::start(command);
        peer.expect("ready").await;
        Neighbour(peer)
    }
}

/// A process of another language.
pub(crate) struct Neighbour(Peer);

impl Neighbour {
    /// Tries once, and says whether it has the lock.
    pub(crate) async fn acquire(&mut self, ttl: Duration) -> bool {
        self.0.say(&format!("acquire {KEY} {}", ttl.as_millis()));
        match self.0.line().await.as_str() {
            "acquired" => true,
            "busy" => false,
            other => panic!("neither acquired nor busy: {other}"),
        }
    }

    /// Gives back what it had, and says whether that was still its own.
    pub(crate) async fn release(&mut self) -> bool {
        self.0.say("release");
        match self.0.line().await.as_str() {
            "released" => true,
            "not ours" => false,
            other => panic!("neither released nor not: {other}"),
        }
    }

    /// Ends it where it stands.
    pub(crate) fn kill(mut self) {
        self.0.kill();
    }

    /// Has it count as [`crate::count`] does.
    pub(crate) fn begin_to_count(&mut self, ttl: Duration, file: &Path, place: usize) {
        let (ttl, file) = (ttl.as_millis(), file.display());
        self.0.say(&format!("count {KEY} {ttl} {file} {place}"));
    }

    /// What it has added, once it has seen that it is enough.
    pub(crate) async fn counted(&mut self) -> u64 {
        let line = self.0.line().await;
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["counted", added, "refused", refused] => {
                eprintln!("it was refused {refused} times");
                added.parse().expect("a number")
            }
            _ => panic!("not what it has counted: {line}"),
        }
    }

    /// Waits until it has ended well.
    pub(crate) async fn end(mut self) {
        self.0.close_input();
        let (status, lines) = self.0.finish().await;
        assert!(status.success() && lines.is_empty(), "{status}: {lines:?}");
    }
}
