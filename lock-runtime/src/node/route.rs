//! Which connection a request takes: the one to its server, or, in a cluster, the one to where the server sends it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value};

use super::cluster::{Cluster, Travel};
use super::examine::examine;
use super::facts::Server;
use super::link::Link;
use super::listening::Listening;
use super::pool::Slot;
use super::sentinel::Group;
use super::target::Target;
use super::{Limit, NodeError, Standing};

/// Where the servers of a node are.
#[derive(Debug)]
pub(super) enum Servers {
    /// One, and the connections to it.
    One(Box<[Slot]>, Arc<Target>),
    Cluster(Arc<Cluster>),
}

/// What is to be run for as long as there is the node.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Servers {
    /// One server, and the work that keeps it connected.
    pub(super) fn one(target: Target, connections: usize) -> (Self, Vec<Work>) {
        let target = Arc::new(target);
        let (group, watching) = Group::of(&target).unzip();
        let mut work: Vec<Work> = Vec::new();
        work.extend(watching.map(|watching| Box::pin(watching) as Work));
        let mut slots = Vec::with_capacity(connections);
        for _ in 0..connections {
            let (slot, connecting) = Slot::of(Arc::clone(&target), group.clone());
            slots.push(slot);
            work.push(Box::pin(connecting));
        }
        (Self::One(slots.into(), target), work)
    }

    pub(super) fn way<'a>(&'a self, key: &'a str) -> Way<'a> {
        match self {
            Self::One(slots, _) => Way::Straight(of_key(slots, key)),
            Self::Cluster(cluster) => Way::Through(cluster.travel(key)),
        }
    }

    pub(super) async fn ping(&self, limit: &Limit) -> Result<(), NodeError> {
        match self {
            Self::One(slots, _) => {
                let link = of_key(slots, "").trusted(limit).await?;
                link.votes()?;
                link.send(&redis::cmd("PING"), limit).await.map(drop)
            }
            Self::Cluster(cluster) => cluster.ping(limit).await,
        }
    }

    pub(super) async fn standing(&self, limit: &Limit) -> Result<Standing, NodeError> {
        match self {
            Self::One(slots, target) => standing(slots, target, limit).await,
            Self::Cluster(cluster) => cluster.standing(limit).await,
        }
    }

    /// What is found out about each server.
    pub(super) async fn examine(&self, limit: &Limit) -> Result<Vec<Server>, NodeError> {
        match self {
            Self::One(slots, target) => Ok(vec![examine(of_key(slots, ""), target, limit).await]),
            Self::Cluster(cluster) => cluster.examine(limit).await,
        }
    }

    pub(super) async fn admit(&self, life: &str, limit: &Limit) -> Result<(), NodeError> {
        match self {
            Self::One(slots, target) => admit(slots, target, life, limit).await,
            Self::Cluster(cluster) => cluster.admit(life, limit).await,
        }
    }
}

/// Whether a server votes over all connections to it: each has asked for itself who the server is.
pub(super) async fn standing(
    slots: &[Slot],
    target: &Target,
    limit: &Limit,
) -> Result<Standing, NodeError> {
    let asked = slots.iter().map(async |slot| {
        let link = slot.trusted(limit).await?;
        link.ask_standing(target, limit).await
    });
    let mut all = Standing::Votes;
    for standing in join_all(asked).await {
        let standing = standing?;
        if standing != Standing::Votes {
            all = standing;
        }
    }
    Ok(all)
}

/// Gives a server its vote, over all connections to it.
pub(super) async fn admit(
    slots: &[Slot],
    target: &Target,
    life: &str,
    limit: &Limit,
) -> Result<(), NodeError> {
    let admitted = slots.iter().map(async |slot| {
        let link = slot.trusted(limit).await?;
        link.admit(life, target, limit).await
    });
    join_all(admitted).await.into_iter().collect()
}

/// Always the same connection for a key: what is sent first is executed first.
pub(super) fn of_key<'a>(slots: &'a [Slot], key: &str) -> &'a Slot {
    let index = match slots.len() {
        1 => 0,
        len => {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            usize::try_from(hasher.finish() % len as u64).unwrap_or(0)
        }
    };
    &slots[index]
}

/// The way of one request.
pub(super) enum Way<'a> {
    Straight(&'a Slot),
    Through(Travel<'a>),
}

impl Way<'_> {
    /// See [`Slot::trusted`].
    pub(super) async fn trusted(&mut self, limit: &Limit) -> Result<Via, NodeError> {
        match self {
            Self::Straight(slot) => Ok(Via::to(slot, slot.trusted(limit).await?)),
            Self::Through(travel) => travel.trusted(limit).await,
        }
    }

    /// See [`Slot::any`].
    pub(super) async fn any(&mut self, limit: &Limit) -> Result<Via, NodeError> {
        match self {
            Self::Straight(slot) => Ok(Via::to(slot, slot.any(limit).await?)),
            Self::Through(travel) => travel.any(limit).await,
        }
    }

    /// Whether the request was not executed, and is to be sent again by where the way leads now.
    pub(super) async fn leads_on(&mut self, error: &NodeError, limit: &Limit) -> bool {
        match self {
            Self::Straight(_) => false,
            Self::Through(travel) => travel.leads_on(error, limit).await,
        }
    }
}

/// A connection for one request.
#[derive(Debug)]
pub(super) struct Via {
    link: Arc<Link>,
    pub(super) listening: Arc<Listening>,
    /// The server has the key of the request, but its slot not yet.
    asking: bool,
}

impl Via {
    pub(super) fn to(slot: &Slot, link: Arc<Link>) -> Self {
        Self {
            link,
            listening: Arc::clone(&slot.listening),
            asking: false,
        }
    }

    pub(super) fn asking(self) -> Self {
        let asking = true;
        Self { asking, ..self }
    }

    /// See [`Link::send`].
    pub(super) async fn send(&self, command: &Cmd, limit: &Limit) -> Result<Value, NodeError> {
        if !self.asking {
            return self.link.send(command, limit).await;
        }
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut answers = self.link.send_all(&both, limit).await?;
        answers.pop().ok_or_else(|| "an answer is missing".into())
    }

    /// See [`Link::send_all`].
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        limit: &Limit,
    ) -> Result<Vec<Value>, NodeError> {
        if !self.asking {
            return self.link.send_all(commands, limit).await;
        }
        let mut all = redis::pipe();
        for command in commands.cmd_iter() {
            all.cmd("ASKING").add_command(command.clone());
        }
        let answers = self.link.send_all(&all, limit).await?;
        Ok(answers.into_iter().skip(1).step_by(2).collect())
    }
}

impl Deref for Via {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}
