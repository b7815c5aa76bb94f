//! One fault in one phase: on one, three and five nodes, with a minority and with a majority of them broken.

use crate::break_node::{Broken, Node, SOMEBODY};
use crate::fault::{
    ALLOWANCE, Back, Fault, MAX_TTL, Means, NODE_TIMEOUT, Outcome, Phase, REDELIVERY, TTL,
};
use crate::logs::{self, PASSWORD, PASSWORD_IN_URL};
use crate::page::{self, Measured};
use crate::phases::{self, Trial};
use lock_runtime::{LockManager, LockManagerBuilder, NodeSpec, NodeVote, Tls, Vote};
use lock_tests::version::is_before_7;
use lock_tests::{Certificate, DEADLINE, Fleet, RedisServer, eventually, eventually_async};
use std::fmt;
use std::time::Instant;

/// Whom managers log in as.
pub(crate) const USER: &str = "locks";

/// Under which all locks are.
const KEYS: &str = "matrix:*";

/// Runs the fault in the phase on fleets of every size.
pub(crate) async fn run(name: &'static str, fault: &'static Fault, phase: Phase) {
    logs::keep();
    // All are started before any is broken: a fault of one should not be in the way of another that starts.
    let settings = futures_util::future::join_all([1, 3, 5].map(|nodes| {
        let setting = Setting::start(fault, nodes);
        async { tokio::spawn(setting).await.expect("its servers start") }
    }));
    let settings = settings.await.into_iter();
    let fleets: Vec<_> = settings
        .map(|setting| tokio::spawn(on_nodes(name, setting, phase)))
        .collect();
    let (mut measured, mut failures) = (Measured::default(), Vec::new());
    for fleet in fleets {
        match fleet.await {
            Ok(taken) => measured.add(taken),
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(failure) = failures.pop() {
        let (lines, logged) = (failures.len(), logs::kept());
        eprintln!("{lines} more fleets failed; the log of all:\n{logged}");
        std::panic::resume_unwind(failure.into_panic());
    }
    logs::assert_no_secret(&logs::kept());
    page::note(name, phase, measured);
}

async fn on_nodes(name: &'static str, setting: Setting, phase: Phase) -> Measured {
    let nodes = setting.fleet.servers().len();
    let majority = nodes / 2 + 1;
    let mut measured = Measured::default();
    for faulty in [nodes - majority, nodes - majority + 1] {
        if faulty > 0 {
            let cell = Cell {
                name,
                setting: &setting,
                phase,
                faulty,
            };
            measured.add(cell.run().await);
        }
    }
    measured
}

/// Nodes to break.
struct Setting {
    fault: &'static Fault,
    fleet: Fleet,
}

impl Setting {
    async fn start(fault: &'static Fault, nodes: usize) -> Self {
        let mut options = RedisServer::options().user(USER, PASSWORD);
        match fault.means {
            // Redis 6.2 lets everybody.
            Means::Load if !is_before_7() => {
                options = options.argument("--enable-debug-command", "local");
            }
            Means::TlsPort => options = options.tls(&Certificate::self_signed_server()),
            _ => {}
        }
        let fleet = Fleet::of(std::iter::repeat_n(options, nodes)).behind_proxies();
        fleet.found().await;
        if fault.means.forgets_the_marker() {
            eventually(DEADLINE, "the servers are old enough to vote", || {
                fleet.servers().iter().all(|server| {
                    let info: redis::InfoDict = server.command(&["INFO", "server"]);
                    let uptime = info.get::<u64>("uptime_in_seconds");
                    uptime.is_some_and(|seconds| seconds > MAX_TTL.as_secs())
                })
            })
            .await;
        }
        Self { fault, fleet }
    }
}

/// Has somebody else give back what he has.
pub(crate) fn give_back(server: &RedisServer, key: &str) {
    let kind: String = server.command(&["TYPE", key]);
    if kind == "string" && server.get(key).as_deref() == Some(SOMEBODY) {
        let _: u64 = server.command(&["DEL", key]);
    }
}

/// So many faulty nodes of a fleet, in a phase.
pub(crate) struct Cell<'a> {
    name: &'static str,
    setting: &'a Setting,
    pub(crate) phase: Phase,
    faulty: usize,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, phase) = (self.name, self.phase.name());
        let (faulty, nodes) = (self.faulty, self.nodes());
        write!(f, "{name} while {phase}, {faulty} of {nodes} nodes")
    }
}

impl<'a> Cell<'a> {
    fn means(&self) -> Means {
        self.setting.fault.means
    }

    pub(crate) fn fleet(&self) -> &'a Fleet {
        &self.setting.fleet
    }

    pub(crate) fn nodes(&self) -> usize {
        self.fleet().servers().len()
    }

    pub(crate) fn is_minority(&self) -> bool {
        2 * self.faulty < self.nodes()
    }

    /// The lock that it is about.
    pub(crate) fn key(&self) -> String {
        format!("matrix:{}:{}", self.phase.name(), self.faulty)
    }

    /// The servers that stay as they are.
    pub(crate) fn healthy(&self) -> &'a [RedisServer] {
        &self.fleet().servers()[self.faulty..]
    }

    /// What is expected.
    pub(crate) fn expected(&self) -> Outcome {
        let fault = self.setting.fault;
        if let (Some(row), true, false) = (fault.before_7, is_before_7(), self.is_minority()) {
            return row.of(self.phase);
        }
        match (self.means(), self.nodes()) {
            (_, 1) => fault.alone.of(self.phase),
            _ if self.is_minority() => Outcome::Works,
            _ => fault.majority.of(self.phase),
        }
    }

    /// On how many nodes a lock can be before the fault.
    pub(crate) fn usable_before(&self) -> usize {
        if self.means().is_in_the_url() {
            self.nodes() - self.faulty
        } else {
            self.nodes()
        }
    }

    /// Whether a lock can be had before the fault.
    pub(crate) fn can_lock_before(&self) -> bool {
        2 * self.usable_before() > self.nodes()
    }

    /// A manager of these nodes.
    pub(crate) fn build(&self) -> LockManager {
        let login = match self.means() {
            Means::PasswordWanted => String::new(),
            _ => format!("{USER}:{PASSWORD_IN_URL}@"),
        };
        let trusting = Tls::new().ca_pem(Certificate::self_signed_server().pem);
        let nodes = (0..self.nodes()).map(|node| {
            let place = format!("{login}{}", self.address_of(node));
            match self.means() {
                Means::TlsUrl if node < self.faulty => {
                    NodeSpec::from(format!("rediss://{place}")).tls(trusting.clone())
                }
                _ => NodeSpec::from(format!("redis://{place}")),
            }
        });
        let builder = LockManager::builder()
            .node_timeout(NODE_TIMEOUT)
            .max_ttl(MAX_TTL);
        let built = nodes.fold(builder, LockManagerBuilder::node).build();
        built.expect("nothing is wrong with the nodes' URLs")
    }

    fn address_of(&self, node: usize) -> String {
        match self.means() {
            Means::UnknownName if node < self.faulty => format!("lock-node-{node}.invalid:6379"),
            _ => self.fleet().proxies()[node].name(),
        }
    }

    /// Breaks the nodes, side by side.
    pub(crate) async fn break_nodes(&self) -> Vec<Broken<'a>> {
        let (servers, proxies) = (self.fleet().servers(), self.fleet().proxies());
        let nodes = servers.iter().zip(proxies).take(self.faulty);
        let key = self.key();
        let breaking = nodes.map(|(server, proxy)| {
            let node = Node { server, proxy };
            node.break_by(self.means(), self.phase, &key)
        });
        futures_util::future::join_all(breaking).await
    }

    /// Waits until a manager that was connected has heard of servers that are new ones now.
    pub(crate) async fn is_heard_of(&self, manager: &LockManager) {
        if !matches!(self.means(), Means::Restart) || self.is_minority() {
            return;
        }
        let what = format!("{self}: it is connected again");
        eventually_async(DEADLINE, &what, || async {
            match manager.lock("matrix:probe").ttl(TTL).acquire().await {
                Ok(lease) => lease.release().await.map_err(|error| error.to_string()),
                Err(error) => {
                    let failed = |vote: &NodeVote| matches!(vote.vote(), Vote::Failed(_));
                    if error.votes().iter().any(failed) {
                        Err(error.to_string())
                    } else {
                        Ok(())
                    }
                }
            }
        })
        .await;
    }

    async fn run(&self) -> Measured {
        let (trial, manager, broken) = match self.phase {
            Phase::Connecting => phases::connecting(self).await,
            Phase::Acquiring => phases::acquiring(self).await,
            Phase::Holding => phases::holding(self).await,
            Phase::Waiting => phases::waiting(self).await,
            Phase::Releasing => phases::releasing(self).await,
        };
        self.check(&trial);
        for server in self.healthy() {
            let forever = |key: &String| server.pttl(key) == -1;
            assert_eq!(server.keys(KEYS).into_iter().find(forever), None, "{self}");
        }

        let key = self.key();
        let mending = broken.into_iter().map(|broken| broken.mend(&key));
        futures_util::future::join_all(mending).await;
        for server in self.fleet().servers() {
            give_back(server, &key);
        }
        let mended = Instant::now();
        let mut measured = Measured::of(self.is_minority(), trial.took);
        if let (Some(manager), false) = (manager, self.setting.fault.back == Back::WithAnother) {
            self.works_again(&manager).await;
            measured.back = mended.elapsed();
            self.nothing_is_left().await;
            measured.gone = mended.elapsed();
            self.uses_all_nodes(&manager).await;
            measured.used = mended.elapsed();
            logs::assert_no_secret(&format!("{manager:?}"));
        }
        self.nothing_is_left().await;
        measured
    }

    fn check(&self, trial: &Trial) {
        let Trial {
            outcome,
            took,
            text,
            votes,
        } = trial;
        let expected = self.expected();
        assert_eq!(*outcome, expected, "{self}: after {took:.1?}: {text}");
        let bound = expected.bound(self.phase) + ALLOWANCE;
        assert!(*took <= bound, "{self}: {took:.1?}, not {bound:?}: {text}");
        logs::assert_no_secret(text);

        let names_nodes = matches!(
            outcome,
            Outcome::Outage | Outcome::RunsOut | Outcome::Unconfirmed | Outcome::Before
        );
        let phrases = self.setting.fault.says().in_phase(self.phase);
        for node in (0..self.faulty).filter(|_| names_nodes) {
            let name = self.address_of(node);
            let said = votes
                .iter()
                .find(|vote| vote.node() == name)
                .unwrap_or_else(|| panic!("{self}: {name} is not named: {text}"))
                .to_string();
            assert!(text.contains(&said), "{self}: {said} is not in {text}");
            assert!(
                phrases.iter().any(|phrase| said.contains(phrase)),
                "{self}: `{said}` says none of {phrases:?}"
            );
        }
    }

    /// The manager was told nothing, and locks again.
    async fn works_again(&self, manager: &LockManager) {
        let bound = self.setting.fault.back.bound() + ALLOWANCE;
        let again = manager.lock("matrix:again").ttl(TTL).wait(bound);
        let lease = again.acquire().await;
        let lease = lease.unwrap_or_else(|error| panic!("{self}: not back in {bound:?}: {error}"));
        let released = lease.release().await;
        released.unwrap_or_else(|error| panic!("{self}: back, but {error}"));
    }

    /// Sooner than by the TTL of what was acquired in vain: by releases.
    async fn nothing_is_left(&self) {
        self.fleet().assert_no_key_without_ttl();
        let bound = self.setting.fault.back.bound() + REDELIVERY + ALLOWANCE;
        self.fleet().assert_no_keys_within(bound, KEYS).await;
    }

    /// Also those that were broken have a part in the next lock.
    pub(crate) async fn uses_all_nodes(&self, manager: &LockManager) {
        let what = format!("{self}: every node is used");
        eventually_async(DEADLINE, &what, || async {
            let request = manager.lock("matrix:all").ttl(TTL).wait(DEADLINE);
            let lease = request.acquire().await.map_err(|error| error.to_string())?;
            let on = self.fleet().nodes_with("matrix:all");
            lease.release().await.map_err(|error| error.to_string())?;
            if on >= self.usable_before() {
                Ok(())
            } else {
                Err(format!("on {on} nodes"))
            }
        })
        .await;
    }
}
