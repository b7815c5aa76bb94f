//! One lock on N independent nodes: Redlock (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>).
//!
//! It differs from the description where that leaves a hole: a decision is made as soon as no later vote can change it,
//! a vote that was split is settled instead of given up (see [`split`]), and whatever was sent is followed by a release
//! over the same connection (see [`claim`]).

mod attempt;
pub(crate) mod claim;
mod order;
mod quorum;
mod replies;
mod split;
pub(crate) mod validity;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::NodeVote;
use crate::executor::Executor;
use crate::key::LockKey;
use crate::node::{Limit, Node};
use crate::telemetry::Counters;

pub(crate) use attempt::Stragglers;

use attempt::Attempt;
use claim::Claim;
use quorum::{Decision, quorum};
use replies::Replies;

/// Nodes and what a request to them needs.
#[derive(Debug)]
pub(crate) struct Redlock {
    nodes: Vec<Arc<dyn Node>>,
    node_timeout: Duration,
    prefix: Box<str>,
    pub(crate) executor: Executor,
    pub(crate) counters: Counters,
    redeliveries: Semaphore,
}

/// Why a lock was not granted.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) key: LockKey,
    pub(crate) votes: Vec<NodeVote>,
    pub(crate) cause: Cause,
}

#[derive(Debug)]
pub(crate) enum Cause {
    /// Somebody has the lock; the node is one that says so.
    Busy { at: usize },
    /// Too few usable answers.
    NoQuorum(Arc<str>),
}

impl Redlock {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        node_timeout: Duration,
        prefix: &str,
        executor: Executor,
    ) -> Self {
        Self {
            nodes,
            node_timeout,
            prefix: prefix.into(),
            executor,
            counters: Counters::default(),
            redeliveries: Semaphore::new(claim::MOST_REDELIVERIES),
        }
    }

    /// Asks for the lock once. What is left to do after the decision comes back as [`Stragglers`], to be run to its end.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &LockKey,
        ttl: Duration,
    ) -> (Result<Claim, Refusal>, Stragglers) {
        let mut attempt = match Attempt::new(self, key, ttl) {
            Ok(attempt) => attempt,
            Err(refusal) => return (Err(refusal), Stragglers::none()),
        };
        attempt.ask(|_| true);
        match attempt.decide().await {
            Decision::Split => {
                self.counters.split_votes.add();
                split::settle(self, attempt).await
            }
            decision => attempt.conclude(decision),
        }
    }

    /// How long the holder's lease lasts, as one node reports it.
    pub(crate) async fn remaining(&self, key: &LockKey, position: usize) -> Option<Duration> {
        let node = Arc::clone(self.nodes.get(position)?);
        let limit = self.limit();
        let mut looks = Replies::of(1);
        let look = node.look(key.prefixed(&self.prefix), limit.clone());
        looks.push(position, limit, look);
        let (_, holder) = looks.next().await?;
        holder.ok()??.remaining
    }

    /// Whether enough nodes for a majority answer now.
    pub(crate) async fn answers(&self) -> bool {
        let limit = self.limit();
        let mut pings = Replies::of(self.nodes.len());
        for (position, node) in self.nodes.iter().enumerate() {
            let ping = Arc::clone(node).ping(limit.clone());
            pings.push(position, limit.clone(), ping);
        }
        let mut answered = 0;
        while let Some((_, answer)) = pings.next().await {
            answered += usize::from(answer.is_ok());
            if answered >= quorum(self.nodes.len()) {
                return true;
            }
        }
        false
    }

    pub(crate) fn node_names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| &**node.name()).collect()
    }

    /// For nodes that are asked now.
    fn limit(&self) -> Limit {
        Limit::within(self.node_timeout)
    }
}
