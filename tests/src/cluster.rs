//! A Redis Cluster of real servers: its slots are moved while they are used, and its primaries fail.

use crate::fleet::{MARKER, ready};
use crate::server::{Options, RedisServer};
use crate::wait::{DEADLINE, eventually, eventually_blocking};
use lock_runtime::{LockManager, LockManagerBuilder};
use redis::FromRedisValue;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// How long a node of a test may take to answer. These machines are busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// A primary fails over to a replica, and others are found to have failed, in a while that a busy machine may need.
const LONG: Duration = Duration::from_secs(60);

/// Servers that are one cluster: primaries that share the slots, and replicas of each.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<RedisServer>,
}

/// How a cluster is made; see [`Cluster::options`].
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    primaries: usize,
    without_slots: usize,
    replicas: usize,
    node_timeout: Duration,
    server: Options,
}

/// Where a slot is on its way from one server to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The new owner is ready for its keys.
    Importing,
    /// The old owner sends those elsewhere who ask for keys that it does not have.
    Migrating,
    /// One more key has gone.
    KeyMoved,
    /// The new owner has it, and the old one does not know yet.
    NewOwnerKnows,
    /// Both know. Others hear of it.
    Done,
}

/// One line of what a server knows of its cluster.
struct Known {
    flags: String,
    slots: Vec<RangeInclusive<u16>>,
}

impl ClusterOptions {
    /// So many primaries that share the slots. Default: three.
    #[must_use]
    pub fn primaries(mut self, primaries: usize) -> Self {
        self.primaries = primaries;
        self
    }

    /// So many more, which have no slots yet.
    #[must_use]
    pub fn without_slots(mut self, servers: usize) -> Self {
        self.without_slots = servers;
        self
    }

    /// So many replicas of each. Default: none.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// After how long a server that is silent has failed. Default: longer than a busy machine is silent.
    #[must_use]
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// What each server is set to besides.
    #[must_use]
    pub fn server(mut self, set: impl FnOnce(Options) -> Options) -> Self {
        self.server = set(self.server);
        self
    }

    /// Starts the servers and waits until they are one cluster that serves all slots.
    pub async fn start(self) -> Cluster {
        let with_slots = self.primaries;
        let primaries = with_slots + self.without_slots;
        let count = primaries + with_slots * self.replicas;
        let millis = self.node_timeout.as_millis().to_string();
        let options = self
            .server
            .in_cluster()
            .argument("--cluster-node-timeout", &millis)
            // A replica that was cut off from its primary for a moment is not too old to follow it.
            .argument("--cluster-replica-validity-factor", "0")
            .argument("--repl-diskless-sync-delay", "0")
            .argument("--cluster-allow-replica-migration", "no");
        let cluster = Cluster {
            servers: RedisServer::start_all(vec![options; count]),
        };
        cluster.meet(with_slots);
        cluster.settled().await;
        for (index, replica) in cluster.servers[primaries..].iter().enumerate() {
            let primary = &cluster.servers[index % with_slots];
            replica.command::<()>(&["CLUSTER", "REPLICATE", &primary.id()]);
        }
        cluster.settled().await;
        cluster
    }
}

impl Cluster {
    /// Three primaries.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// A cluster with settings of its own.
    pub fn options() -> ClusterOptions {
        ClusterOptions {
            primaries: 3,
            without_slots: 0,
            replicas: 0,
            node_timeout: Duration::from_secs(15),
            server: RedisServer::options(),
        }
    }

    /// All servers: those that had slots first, those that had none, then the replicas, the first one of each first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The URL of the cluster, with every server that there was at first.
    pub fn url(&self) -> String {
        let names: Vec<_> = self.servers.iter().map(RedisServer::name).collect();
        let all = self.servers[0].url_through(&names.join(","));
        all.replacen("://", "+cluster://", 1)
    }

    /// A builder that has this cluster for its only node, and is patient with it.
    pub fn builder(&self) -> LockManagerBuilder {
        let patient = LockManager::builder().node_timeout(PATIENCE);
        patient.node(self.url())
    }

    /// A manager of this cluster, with clients of its own, that is connected.
    pub async fn manager(&self) -> LockManager {
        let locks = self.builder().build();
        let locks = locks.expect("a cluster is a good configuration");
        ready(&locks).await;
        locks
    }

    /// The slot of a key, as a server says.
    pub fn slot(&self, key: &str) -> u16 {
        let any = self.running().next().expect("a server that runs");
        any.ask(&["CLUSTER", "KEYSLOT", key])
    }

    /// The primary that says that it has the slot.
    #[track_caller]
    pub fn owner(&self, slot: u16) -> &RedisServer {
        let mut owners = self.running().filter(|server| server.owns(slot));
        owners
            .next()
            .unwrap_or_else(|| panic!("nobody has slot {slot}"))
    }

    /// The primary that has the key.
    #[track_caller]
    pub fn owner_of(&self, key: &str) -> &RedisServer {
        self.owner(self.slot(key))
    }

    /// A primary that does not have the key.
    #[track_caller]
    pub fn another(&self, key: &str) -> &RedisServer {
        let slot = self.slot(key);
        let mut others = self.running();
        others
            .find(|server| server.is_primary() && !server.owns(slot))
            .expect("a primary that has other slots")
    }

    /// Names of keys, the first of which is on the first server that has slots, and so on.
    pub fn key_on_each(&self, prefix: &str) -> Vec<String> {
        let primaries = self.running().filter(|server| {
            let known = server.known_of_itself();
            !known.slots.is_empty()
        });
        primaries
            .map(|server| {
                (0..10_000)
                    .map(|number| format!("{prefix}{number}"))
                    .find(|key| server.owns(self.slot(key)))
                    .expect("one of very many")
            })
            .collect()
    }

    /// Moves a slot and its keys as `redis-cli` does, one key at a time, and calls back after each step.
    pub async fn reshard(
        &self,
        slot: u16,
        from: &RedisServer,
        to: &RedisServer,
        mut after: impl AsyncFnMut(Step),
    ) {
        let number = slot.to_string();
        let set = |server: &RedisServer, words: &[&str]| {
            let command = [&["CLUSTER", "SETSLOT", &number], words].concat();
            server.command::<()>(&command);
        };
        let (old, new) = (from.id(), to.id());
        set(to, &["IMPORTING", &old]);
        after(Step::Importing).await;
        set(from, &["MIGRATING", &new]);
        after(Step::Migrating).await;
        let (host, port) = ("127.0.0.1", to.port().to_string());
        loop {
            let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &number, "1"]);
            let Some(key) = keys.first() else { break };
            // One that has been deleted meanwhile is none.
            let _: String = from.command(&["MIGRATE", host, &port, key, "0", "5000"]);
            after(Step::KeyMoved).await;
        }
        set(to, &["NODE", &new]);
        after(Step::NewOwnerKnows).await;
        set(from, &["NODE", &new]);
        after(Step::Done).await;
    }

    /// Has a replica take the place of its primary, without a loss.
    pub async fn exchange(&self, slot: u16, replica: &RedisServer) {
        /// A primary waits for its replica for so long, and lets nobody write meanwhile.
        const GIVEN_UP: Duration = Duration::from_secs(11);
        let old = self.owner(slot);
        let what = "the replica has taken over";
        for _ in 0..5 {
            // Asked again too soon, it would begin anew.
            replica.command::<()>(&["CLUSTER", "FAILOVER"]);
            let taken = eventually(LONG, what, || replica.owns(slot));
            if tokio::time::timeout(GIVEN_UP, taken).await.is_ok() {
                eventually(LONG, "the old one is a replica", || !old.is_primary()).await;
                return self.settled().await;
            }
        }
        panic!(
            "{} does not take the place of {}",
            replica.name(),
            old.name()
        );
    }

    /// Has a primary that is dead or silent replaced: waits until one of its replicas has its slots, and all agree.
    pub async fn failed_over(&self, slot: u16, old: &RedisServer) {
        eventually(LONG, "a replica has taken over", || {
            let mut owners = self.running().filter(|server| server.owns(slot));
            owners.any(|server| server.name() != old.name())
        })
        .await;
        self.serving().await;
    }

    /// Waits until all servers that run say that all slots are served.
    pub async fn serving(&self) {
        eventually(LONG, "all slots are served", || {
            self.unserved().map_or(Ok(()), Err)
        })
        .await;
    }

    /// Waits until all servers know of one another, all slots are served, and all replicas have what their primaries have.
    pub async fn settled(&self) {
        let count = self.servers.len().to_string();
        eventually(LONG, "the servers are one cluster", || {
            if let Some(reason) = self.unserved() {
                return Err(reason);
            }
            for server in &self.servers {
                let known = server.info_field(&["CLUSTER", "INFO"], "cluster_known_nodes");
                if known != count {
                    return Err(format!("{} knows {known} of {count}", server.name()));
                }
                let link = server.info_field(&["INFO", "replication"], "master_link_status");
                if link == "down" {
                    return Err(format!("{} has nothing of its primary yet", server.name()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until no server that runs has a key that matches the pattern, [`MARKER`] aside.
    pub async fn assert_no_keys(&self, pattern: &str) {
        let what = format!("no key {pattern:?} on any server");
        eventually(DEADLINE, &what, || {
            let keys = self.running();
            let keys = keys.flat_map(|server| server.ask::<Vec<String>>(&["KEYS", pattern]));
            let keys: Vec<_> = keys.filter(|key| !key.contains(MARKER)).collect();
            if keys.is_empty() {
                Ok(())
            } else {
                Err(keys.join(", "))
            }
        })
        .await;
    }

    /// To how many servers that run somebody listens.
    pub fn listened_to(&self) -> usize {
        let channels = self
            .running()
            .map(|server| server.ask::<Vec<String>>(&["PUBSUB", "CHANNELS", "*"]));
        channels.filter(|channels| !channels.is_empty()).count()
    }

    /// Waits until nobody listens to any server that runs.
    pub async fn assert_nobody_listens(&self) {
        eventually(DEADLINE, "nobody listens", || self.listened_to() == 0).await;
    }

    /// The servers that are up and not paused.
    pub fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().filter(|server| server.is_running())
    }

    fn meet(&self, with_slots: usize) {
        let first = &self.servers[0];
        for (index, server) in self.servers.iter().enumerate() {
            let epoch = (index + 1).to_string();
            server.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if index < with_slots {
                // A command that names a range is not known to servers before 7.0.
                let share = |index: usize| index * usize::from(SLOTS) / with_slots;
                let slots: Vec<_> = (share(index)..share(index + 1))
                    .map(|slot| slot.to_string())
                    .collect();
                let mut command = vec!["CLUSTER", "ADDSLOTS"];
                command.extend(slots.iter().map(String::as_str));
                server.command::<()>(&command);
            }
        }
        for server in &self.servers[1..] {
            let port = server.port().to_string();
            first.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
    }

    /// Which server does not say that all slots are served.
    fn unserved(&self) -> Option<String> {
        let all = SLOTS.to_string();
        self.running().find_map(|server| {
            let state = server.info_field(&["CLUSTER", "INFO"], "cluster_state");
            let served = server.info_field(&["CLUSTER", "INFO"], "cluster_slots_ok");
            let is_good = state == "ok" && served == all;
            (!is_good).then(|| format!("{}: {state}, {served} slots", server.name()))
        })
    }
}

impl RedisServer {
    /// The answer to a question that may be asked again: on a machine that is busy it may come too late.
    fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        eventually_blocking(DEADLINE, &words.join(" "), || self.try_command(words))
    }

    /// Its name among the servers of its cluster.
    pub fn id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"])
    }

    /// Whether it is a primary of its cluster that has the slot.
    pub fn owns(&self, slot: u16) -> bool {
        let known = self.known_of_itself();
        known.flags.contains("master") && known.slots.iter().any(|range| range.contains(&slot))
    }

    fn known_of_itself(&self) -> Known {
        let nodes: String = self.ask(&["CLUSTER", "NODES"]);
        let known = nodes.lines().map(Known::read);
        let mut myself = known.filter(|known| known.flags.contains("myself"));
        myself.next().expect("a server knows itself")
    }

    /// A field of what `INFO` or `CLUSTER INFO` says; nothing if there is none.
    pub fn info_field(&self, command: &[&str], name: &str) -> String {
        let info: String = self.ask(command);
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(field, _)| *field == name);
        found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
    }
}

impl Known {
    fn read(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let flags = words.nth(2).unwrap_or_default().to_owned();
        // Those in brackets are on their way.
        let slots = words.skip(5).filter(|slots| !slots.starts_with('['));
        let number = |text: &str| text.parse::<u16>().expect("the number of a slot");
        let slots = slots.map(|slots| match slots.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(slots)..=number(slots),
        });
        Self {
            flags,
            slots: slots.collect(),
        }
    }
}
