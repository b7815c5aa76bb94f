//! What all rows have in common: the servers, the contenders that are connected to them, and the report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lock_benches::crowd::{Crowd, crowd};
use lock_benches::inside::Record;
use lock_benches::locker::{Kind, Locker};
use lock_benches::machine::{load, machine, redis_version};
use lock_benches::report::Report;
use lock_benches::servers::{self, Sent, clean, left_behind};
use lock_tests::Fleet;

pub(crate) const NODES: usize = 5;

/// In how many rounds the peers take part that are far behind, or fail: enough to say so.
const FEW: usize = 2;

pub(crate) struct Bench {
    pub(crate) fleet: Fleet,
    pub(crate) report: Report,
    lockers: BTreeMap<Kind, Arc<dyn Locker>>,
    sent: BTreeMap<Kind, Sent>,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        Self {
            fleet: founded(NODES).await,
            report: Report::default(),
            lockers: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    pub(crate) fn heading(&self) -> String {
        format!(
            "{}; {NODES} × Redis {} without persistence on loopback, started by the run; tokio multi-thread; rustc {}; \
             {}; load average at the start {}; \
             `cargo bench --package lock-benches --bench peers`",
            machine(),
            redis_version(&self.fleet.servers()[0]),
            rustc(),
            PEERS.map(versions).join(", "),
            load(),
        )
    }

    /// The contender, connected to the servers that all rows have in common.
    pub(crate) async fn locker(&mut self, kind: Kind) -> Arc<dyn Locker> {
        if let Some(locker) = self.lockers.get(&kind) {
            return Arc::clone(locker);
        }
        let locker = kind.connect(&self.fleet.urls()).await;
        self.lockers.insert(kind, Arc::clone(&locker));
        locker
    }

    /// Contenders that take turns.
    pub(crate) async fn lockers(&mut self, kinds: &[Kind]) -> Vec<(Kind, Arc<dyn Locker>)> {
        let mut lockers = Vec::new();
        for &kind in kinds {
            lockers.push((kind, self.locker(kind).await));
        }
        lockers
    }

    /// What commands the contender sends, found out while two of its clients contend for a key, waiting and trying once.
    pub(crate) async fn sent(&mut self, kind: Kind) -> Sent {
        if let Some(sent) = self.sent.get(&kind) {
            return sent.clone();
        }
        let locker = self.locker(kind).await;
        let rival = kind.connect(&self.fleet.urls()).await;
        let work = Crowd {
            tasks: 4,
            body: Duration::ZERO,
            time: Duration::from_millis(200),
        };
        let sent = Sent::during(&self.fleet, async {
            let (one, other) = (Record::of_process(), Record::of_process());
            let key = "which-commands";
            tokio::join!(
                crowd(&locker, key, work, &one),
                crowd(&rival, key, work, &other)
            );
            let tries = (0..64).map(|_| locker.try_once("which-commands-once".to_owned()));
            for held in join_all(tries).await.into_iter().flatten().flatten() {
                drop(held.release().await);
            }
            rival.settled().await;
            locker.settled().await;
        })
        .await;
        self.over(&*locker).await;
        self.sent.insert(kind, sent.clone());
        sent
    }

    /// The end of a contender's turn: how many keys the node with most has, and then none.
    pub(crate) async fn over(&self, locker: &dyn Locker) -> usize {
        end_of_turn(&self.fleet, locker).await
    }
}

/// See [`Bench::over`], on other servers.
pub(crate) async fn end_of_turn(fleet: &Fleet, locker: &dyn Locker) -> usize {
    locker.settled().await;
    let left = left_behind(fleet).await;
    clean(fleet);
    left
}

/// Servers that have been used before.
pub(crate) async fn founded(nodes: usize) -> Fleet {
    let fleet = servers::start(nodes);
    fleet.found().await;
    clean(&fleet);
    fleet
}

/// Whether the contender takes part in this round.
pub(crate) fn takes_part(kind: Kind, round: usize) -> bool {
    !matches!(kind, Kind::Redlock | Kind::DistributedLockRedis) || round <= FEW
}

/// Whose versions whoever reads the table wants to know.
const PEERS: [&str; 5] = [
    "redis",
    "rslock",
    "redlock",
    "distributed-lock-redis",
    "fred",
];

/// As they are locked; `redlock` has an older `redis` of its own.
fn versions(name: &str) -> String {
    let locked = include_str!("../../../Cargo.lock");
    let package = format!("name = \"{name}\"\nversion = \"");
    let found = locked.split(&package).skip(1);
    let versions: Vec<&str> = found.filter_map(|rest| rest.split('"').next()).collect();
    format!("{name} {}", versions.join(" and "))
}

fn rustc() -> String {
    let version = std::process::Command::new("rustc")
        .arg("--version")
        .output();
    let version = version.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.split(' ').nth(1).map(str::to_owned)
    });
    version.unwrap_or_else(|| "?".to_owned())
}
