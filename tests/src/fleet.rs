//! The nodes of one quorum, and what must be true on all of them.

use crate::proxy::Proxy;
use crate::server::{Options, RedisServer};
use crate::wait::{Answer, DEADLINE, eventually, eventually_async};
use lock_runtime::{LockManager, LockManagerBuilder};
use std::time::{Duration, Instant};

/// The key under which a server remembers that it has a vote: it outlives all locks.
pub const MARKER: &str = "lock-runtime:votes";

/// In which life a server remembers that it has a vote: its `run_id`, and behind a colon since when it has been a primary.
pub fn voted_in(server: &RedisServer) -> Option<String> {
    let life_and_grounds = server.get(MARKER)?;
    let (life, _) = life_and_grounds
        .split_once('/')
        .unwrap_or((&life_and_grounds, ""));
    Some(life.to_owned())
}

/// Whether a server keeps a key for itself: that, or since when it has been known.
pub fn is_kept(key: &str) -> bool {
    key.contains(MARKER)
}

/// How long a node may take to answer. Longer than by default: these machines are busy, and slow is not what most tests
/// are about.
const PATIENCE: Duration = Duration::from_secs(1);

/// Several servers, each with a proxy in front of it if asked for.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<RedisServer>,
    proxies: Vec<Proxy>,
}

impl Fleet {
    /// So many servers without persistence, reached directly.
    pub fn start(nodes: usize) -> Self {
        Self::of((0..nodes).map(|_| RedisServer::options()))
    }

    /// Servers with settings of their own, reached directly.
    pub fn of(options: impl IntoIterator<Item = Options>) -> Self {
        Self {
            servers: RedisServer::start_all(options),
            proxies: Vec::new(),
        }
    }

    /// Puts a proxy in front of every node: URLs and names are the proxies' from here on.
    #[must_use]
    pub fn behind_proxies(mut self) -> Self {
        self.proxies = self.servers.iter().map(Proxy::start).collect();
        self
    }

    /// The servers, first node first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The proxies in the order of their servers; none unless asked for.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// The URL of every node, for a manager's builder.
    pub fn urls(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            self.servers.iter().map(RedisServer::url).collect()
        } else {
            self.proxies.iter().map(Proxy::url).collect()
        }
    }

    /// The value of `LOCK_NODES`.
    pub fn lock_nodes(&self) -> String {
        self.urls().join(",")
    }

    /// A builder that has every node, in the order of [`Self::urls`], and is patient with them.
    pub fn builder(&self) -> LockManagerBuilder {
        let patient = LockManager::builder().node_timeout(PATIENCE);
        self.urls()
            .into_iter()
            .fold(patient, LockManagerBuilder::node)
    }

    /// A manager of every node, with clients of its own: one replica of a service.
    pub fn manager(&self) -> LockManager {
        self.builder()
            .build()
            .expect("the fleet's nodes are a good configuration")
    }

    /// A manager that is connected, and does not take a machine that is busy for an outage.
    pub async fn patient_manager(&self) -> LockManager {
        let locks = self.builder().node_timeout(Duration::from_secs(5)).build();
        let locks = locks.expect("the fleet's nodes are a good configuration");
        ready(&locks).await;
        locks
    }

    /// A manager that is connected to a deployment that has been used.
    pub async fn ready_manager(&self) -> LockManager {
        self.found().await;
        let locks = self.manager();
        ready(&locks).await;
        locks
    }

    /// How long whoever waits elsewhere takes to have a lock that is released, in the middle of so many rounds.
    pub async fn median_wake(
        &self,
        holder: &LockManager,
        waiter: &LockManager,
        rounds: usize,
    ) -> Duration {
        let mut delays = Vec::with_capacity(rounds);
        for round in 0..rounds {
            let key = format!("k{round}");
            let request = |locks: &LockManager| locks.lock(&*key).ttl(4 * DEADLINE);
            let held = request(holder).acquire().await.expect("free");
            let waiting = tokio::spawn(request(waiter).wait(DEADLINE).acquire());
            eventually(DEADLINE, "it listens", || self.listened_to() == 1).await;
            let released = Instant::now();
            held.release().await.expect("released");
            let lease = waiting.await.expect("no panic").expect("released");
            delays.push(released.elapsed());
            lease.release().await.expect("released");
            self.assert_nobody_listens().await;
        }
        delays.sort_unstable();
        delays[rounds / 2]
    }

    /// Makes this a deployment that has been used: whatever nodes are down when a manager comes later, the others vote.
    ///
    /// The first manager of a new deployment has to reach all nodes; see "A node that restarts" in the README. All must
    /// be up, and the managers to come must have no prefix.
    pub async fn found(&self) {
        let direct = self.servers.iter().map(RedisServer::url);
        let patient = LockManager::builder().node_timeout(PATIENCE);
        let founder = direct.fold(patient, LockManagerBuilder::node);
        let founder = founder
            .build()
            .expect("the fleet's nodes are a good configuration");
        let request = founder.lock("founding").ttl(DEADLINE).wait(DEADLINE);
        let lease = request.acquire().await.expect("all nodes answer");
        lease.release().await.expect("all nodes answer");
        eventually(DEADLINE, "all nodes have their vote", || {
            self.servers.len() == 1 || self.nodes_with(MARKER) == self.servers.len()
        })
        .await;
    }

    /// The value of a key on each node, `None` also where a node is down or paused.
    pub fn values(&self, key: &str) -> Vec<Option<String>> {
        let value = |server: &RedisServer| {
            if server.is_running() {
                server.get(key)
            } else {
                None
            }
        };
        self.servers.iter().map(value).collect()
    }

    /// On how many nodes there is such a key.
    pub fn nodes_with(&self, key: &str) -> usize {
        self.values(key).iter().flatten().count()
    }

    /// Waits until no node that is up has a key that matches the glob pattern, [`MARKER`] aside; fails with what is there.
    #[track_caller]
    pub fn assert_no_keys(&self, pattern: &str) -> impl Future<Output = ()> {
        self.assert_no_keys_within(DEADLINE, pattern)
    }

    /// [`Self::assert_no_keys`] with a deadline of its own, where being late is a failure.
    #[track_caller]
    pub fn assert_no_keys_within(
        &self,
        deadline: Duration,
        pattern: &str,
    ) -> impl Future<Output = ()> {
        let what = format!("no key {pattern:?} on any node");
        eventually(deadline, &what, move || {
            let locks = |server: &RedisServer| {
                let mut keys = server.keys(pattern);
                keys.retain(|key| !is_kept(key));
                keys
            };
            Findings(self.findings(locks))
        })
    }

    /// Fails if any node that is up has a key that never expires.
    #[track_caller]
    pub fn assert_no_key_without_ttl(&self) {
        let forever = self.findings(|server| {
            server
                .keys("*")
                .into_iter()
                .filter(|key| server.pttl(key) == -1)
                .collect()
        });
        assert!(
            forever.is_empty(),
            "keys without an expiry: {}",
            forever.join("; ")
        );
    }

    /// On how many nodes that are up somebody listens for a release.
    pub fn listened_to(&self) -> usize {
        let up = self.servers.iter().filter(|server| server.is_running());
        let channels = up.map(|server| server.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "*"]));
        channels.filter(|channels| !channels.is_empty()).count()
    }

    /// Waits until nobody listens any more to any node that is up.
    #[track_caller]
    pub fn assert_nobody_listens(&self) -> impl Future<Output = ()> {
        eventually(DEADLINE, "nobody listens", || self.listened_to() == 0)
    }

    /// What each node that is up has of some of its keys, in words.
    fn findings(&self, keys: impl Fn(&RedisServer) -> Vec<String>) -> Vec<String> {
        let describe = |server: &RedisServer| {
            let node = server.name();
            let line = |key: String| {
                // Asked as they are, whatever their type, and possibly gone since they were listed.
                let kind: String = server.command(&["TYPE", &key]);
                let value = if kind == "string" {
                    server.get(&key).unwrap_or_default()
                } else {
                    kind
                };
                format!("{node}: {key} = {value}, {} ms to live", server.pttl(&key))
            };
            keys(server).into_iter().map(line).collect::<Vec<_>>()
        };
        self.servers
            .iter()
            .filter(|server| server.is_running())
            .flat_map(describe)
            .collect()
    }
}

/// A list that should be empty.
struct Findings(Vec<String>);

impl Answer for Findings {
    type Value = ();

    fn answer(self) -> Result<(), String> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.0.join("; "))
        }
    }
}

/// Waits until a majority of a manager's nodes answers. A node that is slow once because the machine is busy is no failure.
#[track_caller]
pub fn ready(manager: &LockManager) -> impl Future<Output = ()> {
    eventually_async(DEADLINE, "the nodes answer", || manager.ready())
}

/// Acquires a lock, waiting for it, and releases it; fails if either does.
pub async fn cycle(manager: &LockManager, key: &str, ttl: Duration) {
    let lease = manager.lock(key).ttl(ttl).wait(DEADLINE).acquire().await;
    let lease = lease.unwrap_or_else(|error| panic!("{key}: {error}"));
    let released = lease.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}
