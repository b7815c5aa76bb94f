//! One lock on N independent nodes: Redlock (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>).
//!
//! It differs from the description where that leaves a hole: a decision is made as soon as no later vote can change it,
//! a vote that was split is settled instead of given up (see [`split`]), and whatever was sent is followed by a release
//! over the same connection (see [`claim`]).

mod attempt;
pub(crate) mod census;
pub(crate) mod claim;
pub(crate) mod fence;
mod founding;
mod in_order;
mod order;
mod quorum;
mod raise;
pub(crate) mod renew;
mod replies;
pub(crate) mod seize;
mod split;
pub(crate) mod validity;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use crate::error::{NodeVote, Vote};
use crate::executor::Executor;
use crate::key::LockKey;
use crate::node::facts::{Found, Server};
use crate::node::{self, Limit, Node, NodeError, Reply};
use crate::telemetry::Counters;

pub(crate) use attempt::Stragglers;

use attempt::Attempt;
use census::Census;
use claim::Claim;
use fence::Block;
use quorum::{Decision, quorum};
use replies::Replies;

/// Nodes and what a request to them needs.
#[derive(Debug)]
pub(crate) struct Redlock {
    nodes: Vec<Arc<dyn Node>>,
    pub(crate) node_timeout: Duration,
    prefix: Box<str>,
    pub(crate) executor: Executor,
    pub(crate) counters: Counters,
    pub(crate) census: Census,
    fences: Fences,
    /// What operators read next to an owner token.
    pub(crate) label: Option<Arc<str>>,
    pub(crate) attempts: Semaphore,
    releases: Semaphore,
    redeliveries: Semaphore,
}

/// How many attempts, and how many releases, are under way at a time. The others wait for their turn: otherwise a burst
/// of them would be a queue in this process, the time in it would be taken for the silence of the nodes, and a request
/// could find no place in a connection's queue and be overtaken by its release.
const MOST_AT_A_TIME: usize = 256;

/// What fencing tokens are made from.
#[derive(Clone)]
pub(crate) struct Fences {
    /// For how long a node remembers one.
    pub(crate) ttl: Duration,
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The largest that was seen.
    seen: Arc<AtomicU64>,
}

impl Default for Fences {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(24 * 3600),
            clock: Arc::new(SystemTime::now),
            seen: Arc::default(),
        }
    }
}

impl fmt::Debug for Fences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fences")
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl Fences {
    /// So many tokens; none for none.
    fn propose(&self, tokens: u64) -> Option<Block> {
        if tokens == 0 {
            return None;
        }
        let seen = self.seen.load(Ordering::Relaxed);
        let block = fence::proposal((self.clock)(), seen, tokens);
        self.note(block.last());
        Some(block)
    }

    fn note(&self, token: u64) {
        self.seen.fetch_max(token, Ordering::Relaxed);
    }
}

/// What a try takes at the most, with a split vote to settle.
pub(crate) fn longest_try(node_timeout: Duration) -> Duration {
    node_timeout.saturating_mul(split::PATIENCE + 2)
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) ttl: Duration,
    /// How many fencing tokens are to be reserved, for holders that follow one another here.
    pub(crate) tokens: u64,
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
    /// Nothing more is taken.
    ShuttingDown,
}

impl Refusal {
    /// Whether nodes that abstained could have made the difference.
    fn for_abstentions(&self) -> bool {
        let abstains = |vote: &NodeVote| matches!(vote.vote, Vote::Abstains(_));
        matches!(self.cause, Cause::NoQuorum(_)) && self.votes.iter().any(abstains)
    }
}

impl Redlock {
    pub(crate) fn new(
        nodes: Vec<Arc<dyn Node>>,
        node_timeout: Duration,
        prefix: &str,
        fences: Fences,
        executor: Executor,
    ) -> Self {
        Self {
            nodes,
            node_timeout,
            prefix: prefix.into(),
            executor,
            counters: Counters::default(),
            census: Census::default(),
            fences,
            label: None,
            attempts: Semaphore::new(MOST_AT_A_TIME),
            releases: Semaphore::new(MOST_AT_A_TIME),
            redeliveries: Semaphore::new(claim::MOST_REDELIVERIES),
        }
    }

    /// From now on nothing more is taken.
    pub(crate) fn refuse(&self) {
        self.census.refuse();
        self.attempts.close();
    }

    /// Why this cannot be a lock on these nodes, if it cannot.
    pub(crate) fn reserved(&self, key: &LockKey) -> Option<&'static str> {
        node::kept_under(key.as_str(), &self.prefix)
    }

    /// Asks for the lock once. What is left to do after the decision comes back as [`Stragglers`], to be run to its end.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &LockKey,
        want: Want,
    ) -> (Result<Claim, Refusal>, Stragglers) {
        let (taken, stragglers) = self.ask(key, want).await;
        match taken {
            // The nodes may be new, and without a vote only until somebody says so.
            Err(refusal) if refusal.for_abstentions() && founding::found(self).await => {
                if !stragglers.is_empty() {
                    self.executor.spawn(stragglers.finish());
                }
                self.ask(key, want).await
            }
            taken => (taken, stragglers),
        }
    }

    async fn ask(
        self: &Arc<Self>,
        key: &LockKey,
        want: Want,
    ) -> (Result<Claim, Refusal>, Stragglers) {
        let mut attempt = match Attempt::new(self, key, want) {
            Ok(attempt) => attempt,
            Err(refusal) => return (Err(refusal), Stragglers::none()),
        };
        attempt.ask(|_| true);
        match attempt.decide().await {
            Decision::Split => {
                self.counters.split_votes.add();
                split::settle(self, attempt, want).await
            }
            decision => attempt.conclude(decision).await,
        }
    }

    /// See [`longest_try`].
    pub(crate) fn longest_try(&self) -> Duration {
        longest_try(self.node_timeout)
    }

    /// Asks one node something, and waits for as long as it may take.
    async fn ask_one<T>(
        &self,
        position: usize,
        question: impl FnOnce(Limit) -> Reply<T>,
    ) -> Result<T, NodeError> {
        let limit = self.limit();
        let mut replies = Replies::of(1);
        replies.push(position, limit.clone(), question(limit));
        match replies.next().await {
            Some((_, answer)) => answer,
            None => Err("it was not asked".into()),
        }
    }

    /// The answers of all nodes, in their order.
    async fn ask_all<T>(
        &self,
        limit: Limit,
        question: impl Fn(Arc<dyn Node>, usize, Limit) -> Reply<T>,
    ) -> Vec<Result<T, NodeError>> {
        let mut replies = Replies::of(self.nodes.len());
        for (position, node) in self.nodes.iter().enumerate() {
            let reply = question(Arc::clone(node), position, limit.clone());
            replies.push(position, limit.clone(), reply);
        }
        let mut answers = Vec::with_capacity(self.nodes.len());
        while let Some((position, answer)) = replies.next().await {
            answers.push((position, answer));
        }
        answers.sort_unstable_by_key(|(position, _)| *position);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// What there is to know of each node, and of its servers.
    pub(crate) async fn examine(&self, within: Duration) -> Vec<(Arc<str>, Vec<Server>)> {
        let limit = Limit::within(within);
        let answers = self
            .ask_all(limit, |node, _, limit| node.examine(limit))
            .await;
        let nodes = self.nodes.iter().map(|node| Arc::clone(node.name()));
        let told = nodes.zip(answers).map(|(node, answer)| {
            let silent = |error: NodeError| Server {
                name: Arc::clone(&node),
                found: Found::Trouble(error.into()),
            };
            let servers = answer.unwrap_or_else(|error| vec![silent(error)]);
            (node, servers)
        });
        told.collect()
    }

    /// Whether enough nodes for a majority would vote now, and would be asked.
    pub(crate) async fn votes(&self) -> bool {
        if self.census.refuses() {
            return false;
        }
        // Nodes may be new, and without a vote only until somebody says so; but a vote may not be all that they lack.
        self.majority_votes().await || founding::found(self).await && self.majority_votes().await
    }

    async fn majority_votes(&self) -> bool {
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

    /// Positions of the nodes in the order in which they decide for a lock, by its key on the nodes.
    fn ranks(&self, wire: &str) -> Vec<usize> {
        order::for_key(wire, self.nodes.iter().map(|node| &**node.name()))
    }

    /// How many nodes must agree.
    pub(crate) fn majority(&self) -> usize {
        quorum(self.nodes.len())
    }

    /// What fencing tokens are made from.
    pub(crate) fn wall_clock(&self) -> SystemTime {
        (self.fences.clock)()
    }

    /// What the nodes are called, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().map(|node| node.name())
    }

    pub(crate) fn node_names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| &**node.name()).collect()
    }

    /// For nodes that are asked now.
    fn limit(&self) -> Limit {
        Limit::within(self.node_timeout)
    }
}

#[cfg(test)]
mod tests;
