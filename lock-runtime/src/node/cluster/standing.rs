//! What a cluster says when it is asked as a whole: what its servers say, taken together.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::topology::Share;
use super::{Cluster, Map, Member};
use crate::node::connections;
use crate::node::examine::examine;
use crate::node::facts::{Found, Server};
use crate::node::sibling::{self, SLOTS};
use crate::node::{Limit, NodeError, Standing};
use crate::telemetry::NodeState;

impl Map {
    pub(super) fn has_all_slots(&self) -> bool {
        let shares = self.topology.shares();
        let served = shares.iter().map(|share| share.slots).sum::<u16>();
        served == SLOTS
    }

    /// The servers that may have locks under this prefix, and how many slots for them: a prefix with a tag has one.
    fn concerned(&self, prefix: &str) -> Vec<(&Arc<Member>, u16)> {
        if sibling::tag(prefix).is_some() {
            let owner = self.owner(sibling::slot(prefix));
            return owner.map(|owner| (owner, SLOTS)).into_iter().collect();
        }
        let shares = self.topology.shares();
        let members = self.members.iter().zip(shares);
        members
            .filter(|(_, share)| *share != Share::default())
            .map(|(member, share)| (member, share.slots))
            .collect()
    }
}

impl Member {
    async fn ping(&self, limit: &Limit) -> Result<(), NodeError> {
        self.first()?.trusted(limit).await?.ping(limit).await
    }

    async fn standing(&self, limit: &Limit) -> Result<Standing, NodeError> {
        connections::standing(&self.slots, &self.target, limit).await
    }

    async fn admit(&self, life: &str, limit: &Limit) -> Result<(), NodeError> {
        connections::admit(&self.slots, &self.target, life, limit).await
    }

    fn first(&self) -> Result<&super::Slot, NodeError> {
        self.slots.first().ok_or_else(|| "no connection".into())
    }
}

impl Cluster {
    /// Whether servers with more than half of the slots would vote now.
    pub(in crate::node) async fn ping(&self, limit: &Limit) -> Result<(), NodeError> {
        let map = self.map(limit).await?;
        let mut pings: FuturesUnordered<_> = map
            .concerned(self.target.prefix())
            .into_iter()
            .map(async |(member, slots)| (member.ping(limit).await, slots))
            .collect();
        let mut served = 0_u16;
        let mut failure = None;
        while let Some((answer, slots)) = pings.next().await {
            match answer {
                Ok(()) => served = served.saturating_add(slots),
                Err(error) => failure = Some(error),
            }
            if served > SLOTS / 2 {
                return Ok(());
            }
        }
        self.trouble.notify_one();
        Err(failure.unwrap_or_else(|| "too few slots have a server".into()))
    }

    /// The same, as far as is known here.
    pub(in crate::node) fn stands(&self) -> NodeState {
        let Some(map) = self.known.borrow().map.clone() else {
            return NodeState::default();
        };
        let (mut up, mut votes) = (0_u16, 0_u16);
        for (member, slots) in map.concerned(self.target.prefix()) {
            let stands = connections::stands(&member.slots);
            up = up.saturating_add(if stands.up { slots } else { 0 });
            votes = votes.saturating_add(if stands.votes { slots } else { 0 });
        }
        NodeState {
            up: up > SLOTS / 2,
            votes: votes > SLOTS / 2,
        }
    }

    /// It votes if all its servers do; and it is new if all of them are.
    pub(in crate::node) async fn standing(&self, limit: &Limit) -> Result<Standing, NodeError> {
        let map = self.map(limit).await?;
        let members = map.concerned(self.target.prefix());
        let standings = join_all(members.iter().map(|(member, _)| member.standing(limit))).await;
        let mut wait = Duration::ZERO;
        let mut lives = Some(String::new());
        for ((member, _), standing) in members.iter().zip(standings) {
            let life = match standing? {
                Standing::Votes => None,
                Standing::Abstains {
                    for_another,
                    unknown,
                } => {
                    wait = wait.max(for_another);
                    unknown
                }
            };
            lives = match (lives, life) {
                (Some(mut lives), Some(life)) => {
                    let _ = write!(lives, "{}={life} ", member.address);
                    Some(lives)
                }
                _ => None,
            };
        }
        if wait.is_zero() {
            return Ok(Standing::Votes);
        }
        Ok(Standing::Abstains {
            for_another: wait,
            unknown: lives.map(Arc::from),
        })
    }

    /// What is found out about each server that may have locks.
    pub(in crate::node) async fn examine(&self, limit: &Limit) -> Result<Vec<Server>, NodeError> {
        let map = match self.known_map(limit).await {
            Ok(map) => map,
            Err(trouble) => {
                let name = Arc::clone(&self.target.name);
                let found = Found::Trouble(trouble);
                return Ok(vec![Server { name, found }]);
            }
        };
        let members = map.concerned(self.target.prefix());
        let examined = members
            .iter()
            .map(async |(member, _)| Ok(examine(member.first()?, &member.target, limit).await));
        join_all(examined).await.into_iter().collect()
    }

    /// Gives each server its vote, if all are in the lives that were found.
    pub(in crate::node) async fn admit(&self, lives: &str, limit: &Limit) -> Result<(), NodeError> {
        let map = self.map(limit).await?;
        let members = map.concerned(self.target.prefix());
        let lives: Vec<_> = lives.split_whitespace().collect();
        if lives.len() != members.len() {
            return Err("its servers are others now".into());
        }
        let admitted = members.iter().zip(lives).map(async |((member, _), known)| {
            let life = known
                .strip_prefix(&member.address.to_string())
                .and_then(|life| life.strip_prefix('='));
            let life = life.ok_or("its servers are others now")?;
            member.admit(life, limit).await
        });
        join_all(admitted).await.into_iter().collect()
    }
}
