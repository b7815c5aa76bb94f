//! Asking the cluster who has which slots: when a server has sent a request on, when a connection is lost, and now and then.
//!
//! Some of the servers that answer are asked, and the one is believed that knows of the latest change: each change of owners has
//! a number, which every server raises to the largest that it has heard of. Where none of them can be asked, the user's servers
//! are, and the replicas that were known, over a connection for this one question.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{Either, join, select};
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::topology::Topology;
use super::{Cluster, Map, Member};
use crate::backoff::Backoff;
use crate::node::address::Address;
use crate::node::handshake::{There, open};
use crate::node::life::Met;
use crate::node::link::Link;
use crate::node::told::Told;
use crate::node::trouble::{DownCause, Trouble};
use crate::node::{Limit, NodeError};

/// The pause between two questions, while there is a reason to ask: at least, and while it helps nothing, at the most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// When to ask without a reason.
const A_WHILE: Duration = Duration::from_secs(30);

/// How many servers are asked at a time, of those that answer.
const WITNESSES: usize = 3;

/// How many are tried at a time where none does.
const TRIED: usize = 16;

/// What is told where the whole is back, among the other things that are told of it.
const BACK: &str = "lock cluster is back";

/// What a server knows, and of how many changes.
struct Said {
    topology: Topology,
    changes: u64,
}

/// Keeps the map up to date, for as long as there is the cluster.
pub(super) async fn follow(cluster: Weak<Cluster>, trouble: Arc<Notify>) {
    let (least, most) = PAUSE;
    let mut pauses = Backoff::new(least, most);
    let mut told = Told::default();
    let mut in_trouble: Option<Trouble> = None;
    let mut is_well = false;
    let mut turn = 0;
    while let Some(cluster) = cluster.upgrade() {
        let asked = cluster.ask(turn).await;
        turn = turn.wrapping_add(1);
        let is_whole = match asked.and_then(|said| cluster.learn(said.topology)) {
            Ok(()) => {
                let is_whole = cluster.is_whole();
                // Of one that comes and goes it is told once it stays.
                if in_trouble.is_some() && (is_well || told.is_news(BACK)) {
                    tracing::info!(cluster = %cluster.target.name, "lock cluster is back");
                    in_trouble = None;
                }
                is_whole
            }
            Err(trouble) => {
                if in_trouble.as_ref() != Some(&trouble) && told.is_news(&trouble.reason) {
                    tracing::warn!(
                        cluster = %cluster.target.name,
                        reason = %trouble,
                        "lock cluster does not say where its slots are"
                    );
                }
                cluster.known.send_if_modified(|known| {
                    known.trouble = Some(trouble.clone());
                    known.map.is_none()
                });
                in_trouble = Some(trouble);
                false
            }
        };
        drop(cluster);
        if is_whole {
            pauses = Backoff::new(least, most);
            // Either is a reason to ask again.
            is_well = timeout(A_WHILE, trouble.notified()).await.is_err();
            if is_well {
                told.is_well();
            }
            sleep(least).await;
        } else {
            is_well = false;
            sleep(pauses.next()).await;
        }
    }
}

impl Cluster {
    /// Whether every slot has an owner with whom there is a connection.
    fn is_whole(&self) -> bool {
        let map = self.known.borrow().map.clone();
        map.is_some_and(|map| map.has_all_slots() && map.members.iter().all(|it| it.is_ready()))
    }

    async fn ask(&self, turn: usize) -> Result<Said, Trouble> {
        let map = self.known.borrow().map.clone();
        let members = map.as_ref().map(|map| &*map.members).unwrap_or_default();
        let witnesses: Vec<_> = members.iter().filter(|member| member.is_ready()).collect();
        let first = turn % witnesses.len().max(1);
        let in_turn = witnesses.iter().cycle().skip(first);
        let asked: FuturesUnordered<_> = in_turn
            .take(witnesses.len().min(WITNESSES))
            .map(|member| self.ask_member(member))
            .collect();
        let said = asked.filter_map(async |said| said.ok()).collect::<Vec<_>>();
        match said.await.into_iter().max_by_key(|said| said.changes) {
            Some(said) => Ok(said),
            None => self.ask_strangers(map.as_deref(), turn).await,
        }
    }

    async fn ask_member(&self, member: &Member) -> Result<Said, Arc<str>> {
        let limit = Limit::within(self.target.node_timeout);
        let asked = async {
            let link = member.slots.first().ok_or("no connection")?.any(&limit);
            let link = link.await.map_err(|_| "no connection")?;
            ask(&link, &member.address, &limit).await
        };
        let asked = timeout(self.target.node_timeout, asked).await;
        asked.unwrap_or_else(|_| Err("no answer".into()))
    }

    /// The first that answers of those that need not be connected.
    async fn ask_strangers(&self, map: Option<&Map>, turn: usize) -> Result<Said, Trouble> {
        let replicas = map.into_iter().flat_map(|map| &map.topology.replicas);
        let known: Vec<_> = self.seeds.iter().chain(replicas).collect();
        let first = turn.wrapping_mul(TRIED) % known.len().max(1);
        let some = known.iter().cycle().skip(first);
        let mut asked: FuturesUnordered<_> = some
            .take(known.len().min(TRIED))
            .map(|address| self.ask_stranger(address))
            .collect();
        let mut troubles = Vec::new();
        while let Some((address, said)) = asked.next().await {
            match said {
                Ok(said) => return Ok(said),
                Err(trouble) => troubles.push((address, trouble)),
            }
        }
        Err(all(troubles))
    }

    async fn ask_stranger<'a>(&self, address: &'a Address) -> (&'a Address, Result<Said, Trouble>) {
        let asked = self.connect_and_ask(address).await;
        (address, asked)
    }

    async fn connect_and_ask(&self, address: &Address) -> Result<Said, Trouble> {
        let target = self.target_at(address, self.target.marker.clone(), None);
        let there = There {
            address,
            mandate: None,
            met: &mut Met::default(),
            told: &mut Told::default(),
        };
        let opened = open(&target, there, &Arc::default()).await?;
        let limit = Limit::within(target.patience());
        let asked = pin!(timeout(
            target.patience(),
            ask(&opened.link, address, &limit)
        ));
        match select(asked, opened.driver).await {
            Either::Left((Ok(Ok(said)), _)) => Ok(said),
            Either::Left((Ok(Err(reason)), _)) => Err(reason.into()),
            Either::Left((Err(_), _)) => Err(DownCause::Silent.because("no answer")),
            Either::Right(_) => Err("connection closed".into()),
        }
    }
}

/// What is wrong with the whole, where all that were asked are in trouble: what all of them have, if it is the same.
fn all(mut troubles: Vec<(&Address, Trouble)>) -> Trouble {
    troubles.sort_unstable_by_key(|(address, _)| *address);
    match &*troubles {
        [] => "none of its servers is known".into(),
        // It has the name of the whole.
        [(_, one)] => one.clone(),
        [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => {
            let reason = format!("{} servers were asked, and each: {first}", troubles.len());
            Trouble {
                reason: reason.into(),
                ..first.clone()
            }
        }
        [(_, first), others @ ..] => {
            let same = |cause| others.iter().all(|(_, other)| other.cause == cause);
            let each = troubles
                .iter()
                .map(|(address, trouble)| format!("{address}: {trouble}"));
            let reason = each.collect::<Vec<_>>().join("; ");
            let cause = Some(first.cause).filter(|cause| same(*cause));
            cause.unwrap_or_default().because(reason)
        }
    }
}

async fn ask(link: &Link, address: &Address, limit: &Limit) -> Result<Said, Arc<str>> {
    let (mut slots, mut info) = (redis::cmd("CLUSTER"), redis::cmd("CLUSTER"));
    let (slots, info) = (slots.arg("SLOTS"), info.arg("INFO"));
    let (slots, info) = join(link.send(slots, limit), link.send(info, limit)).await;
    let slots = slots.map_err(|error| match error {
        NodeError::Failed(_, reason) => reason,
        NodeError::Abstains(_) => "no answer".into(),
    })?;
    let topology = Topology::read(&slots, address)?;
    // To a user who may not ask, all say the same.
    let changes = info.ok().and_then(|info| changes(&info)).unwrap_or(0);
    Ok(Said { topology, changes })
}

/// The number of the latest change that the server knows of.
fn changes(info: &Value) -> Option<u64> {
    let info: String = redis::from_redis_value(info.clone()).ok()?;
    let epoch = info
        .lines()
        .find_map(|line| line.strip_prefix("cluster_current_epoch:"));
    epoch?.trim().parse().ok()
}
