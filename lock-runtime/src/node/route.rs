//! Which connection a request takes: the one to its server, or, in a cluster, the one to where the server sends it.

use std::sync::Arc;

use super::cluster::{Cluster, Travel};
use super::connections::{Via, Work, admit, of_key, standing, stands};
use super::examine::examine;
use super::facts::Server;
use super::pool::Slot;
use super::sentinel::Group;
use super::target::Target;
use super::{Limit, NodeError, Standing};
use crate::telemetry::NodeState;

/// Where the servers of a node are.
#[derive(Debug)]
pub(super) enum Servers {
    /// One, and the connections to it.
    One(Box<[Slot]>, Arc<Target>),
    Cluster(Arc<Cluster>),
}

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
            Self::One(slots, _) => of_key(slots, "").trusted(limit).await?.ping(limit).await,
            Self::Cluster(cluster) => cluster.ping(limit).await,
        }
    }

    /// How it stands, as far as is known here.
    pub(super) fn stands(&self) -> NodeState {
        match self {
            Self::One(slots, _) => stands(slots),
            Self::Cluster(cluster) => cluster.stands(),
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
