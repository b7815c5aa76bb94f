//! One attempt at a lock under one owner token: who was asked, what they said, what it amounts to.

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::claim::Claim;
use super::fence::{Settled, settle};
use super::quorum::{Ballot, Decision, Tally, quorum};
use super::replies::Replies;
use super::{Cause, Redlock, Refusal, Want};
use crate::error::{NodeVote, Vote};
use crate::key::LockKey;
use crate::node::{Acquired, Ask, Fence, NodeError, Owner};
use crate::telemetry::{self, Attempted};

/// See the [module](self).
pub(super) struct Attempt {
    pub(super) claim: Claim,
    pub(super) tally: Tally<Owner>,
    failures: Vec<Option<NodeError>>,
    /// What each node that granted had stored of fencing tokens.
    fences: Vec<Option<u64>>,
    /// Nodes whose answer is still to come. None is asked twice at a time: the answer to the first request would be taken
    /// for that to the second, and a node that granted would be struck from the ledger.
    pending: Vec<bool>,
    replies: Replies<Acquired>,
}

impl Attempt {
    /// Asks nobody yet. The lease, should there be one, counts from now. None is begun once nothing more is to be taken,
    /// also by those who try again: whoever shuts down has been told that nothing is under way.
    pub(super) fn new(redlock: &Arc<Redlock>, key: &LockKey, want: Want) -> Result<Self, Refusal> {
        let refusal = |cause| Refusal {
            key: key.clone(),
            votes: Vec::new(),
            cause,
        };
        let mut claim = Claim::new(redlock, key, want.ttl).map_err(|error| {
            refusal(Cause::NoQuorum(
                format!("no owner token could be drawn: {error}").into(),
            ))
        })?;
        // Looking comes after the claim is counted, or a shutdown could see neither.
        if redlock.census.refuses() {
            return Err(refusal(Cause::ShuttingDown));
        }
        claim.fence = redlock.fences.propose(want.tokens);
        let nodes = redlock.nodes.len();
        Ok(Self {
            claim,
            tally: Tally::new(nodes),
            failures: vec![None; nodes],
            fences: vec![None; nodes],
            pending: vec![false; nodes],
            replies: Replies::of(nodes),
        })
    }

    /// Asks, or asks again, those of the chosen nodes that have not granted. All in parallel, each until its deadline.
    pub(super) fn ask(&mut self, chosen: impl Fn(usize) -> bool) {
        let redlock = Arc::clone(&self.claim.redlock);
        let ask = Arc::new(Ask {
            key: Arc::clone(&self.claim.wire),
            token: self.claim.token.clone(),
            ttl: self.claim.ttl,
            fence: self
                .claim
                .fence
                .map(|block| Fence::of(&self.claim.wire, block.last(), redlock.fences.ttl)),
            limit: redlock.limit(),
            ledger: Arc::clone(&self.claim.ledger),
            command: OnceLock::new(),
        });
        for (position, node) in redlock.nodes.iter().enumerate() {
            let granted = self.tally.ballot(position) == Some(&Ballot::Granted);
            if granted || self.pending[position] || !chosen(position) {
                continue;
            }
            self.pending[position] = true;
            self.tally.forget(position);
            let reply = Arc::clone(node).acquire(Arc::clone(&ask), position);
            self.replies.push(position, ask.limit.clone(), reply);
        }
    }

    /// Collects answers until the votes amount to something.
    pub(super) async fn decide(&mut self) -> Decision<Owner> {
        loop {
            if let Some(decision) = self.tally.decide() {
                return decision;
            }
            if !self.hear().await {
                return Decision::NoQuorum;
            }
        }
    }

    /// Collects answers until this node's is there. True: the lock is ours there.
    pub(super) async fn granted_by(&mut self, node: usize) -> bool {
        while self.tally.ballot(node).is_none() && self.hear().await {}
        self.tally.ballot(node) == Some(&Ballot::Granted)
    }

    /// Asks all nodes who has the lock, which takes nothing, until that amounts to something.
    pub(super) async fn look(&mut self) {
        let redlock = Arc::clone(&self.claim.redlock);
        let limit = redlock.limit();
        let mut replies = Replies::of(redlock.nodes.len());
        for (position, node) in redlock.nodes.iter().enumerate() {
            let look = Arc::clone(node).look(Arc::clone(&self.claim.wire), limit.clone());
            replies.push(position, limit.clone(), look);
        }
        while self.tally.decide().is_none()
            && let Some((node, answer)) = replies.next().await
        {
            let ballot = match answer {
                Ok(None) => Ballot::Free,
                Ok(Some(holder)) => Ballot::Held(holder.owner),
                Err(error) => self.failed(node, error),
            };
            self.tally.record(node, ballot);
        }
    }

    /// Takes one answer. False: none is to come.
    async fn hear(&mut self) -> bool {
        let Some((node, answer)) = self.replies.next().await else {
            return false;
        };
        self.pending[node] = false;
        let ballot = match answer {
            Ok(Acquired::Granted(fence)) => {
                self.fences[node] = Some(fence);
                Ballot::Granted
            }
            Ok(Acquired::Held(owner)) => {
                self.claim.ledger.strike(node);
                Ballot::Held(owner)
            }
            Err(error) => self.failed(node, error),
        };
        self.tally.record(node, ballot);
        true
    }

    fn failed(&mut self, node: usize, error: NodeError) -> Ballot<Owner> {
        self.failures[node] = Some(error);
        Ballot::Failed
    }

    /// Gives back what it has, in the background.
    pub(super) fn give_up(self) -> Stragglers {
        Stragglers(self.replies)
    }

    /// Turns the votes into a claim or a refusal. A refused attempt gives back what it has: the nodes are handed that before
    /// the refusal is told, and answer to it in the background.
    pub(super) async fn conclude(
        mut self,
        decision: Decision<Owner>,
    ) -> (Result<Claim, Refusal>, Stragglers) {
        telemetry::attempted(match &decision {
            Decision::Granted => Attempted::Granted,
            Decision::Busy(_) => Attempted::Busy,
            Decision::Split => Attempted::Split,
            Decision::NoQuorum => Attempted::Failed,
        });
        let cause = match decision {
            Decision::Granted => {
                if !self.settle_fence().await {
                    let refusal = self.claim.unfenced();
                    return self.refuse(refusal).await;
                }
                // A node that is being connected may still be sent the request: the more have the lock, the better.
                let in_time = self
                    .claim
                    .deadline()
                    .is_some_and(|end| Instant::now() < end);
                if !in_time {
                    let refusal = self.claim.outlived();
                    return self.refuse(refusal).await;
                }
                self.claim.was_granted = true;
                return (Ok(self.claim), Stragglers(self.replies));
            }
            Decision::Busy(owner) => {
                let held = Ballot::Held(owner);
                let at = self.tally.nodes_saying(&held).next().unwrap_or(0);
                Cause::Busy { at }
            }
            // Who is there without a majority is in the way all the same.
            Decision::Split => {
                let held = |node: &usize| matches!(self.tally.ballot(*node), Some(Ballot::Held(_)));
                let at = (0..self.failures.len()).find(held).unwrap_or(0);
                Cause::Busy { at }
            }
            Decision::NoQuorum => {
                let nodes = self.failures.len();
                let failed = self.tally.nodes_saying(&Ballot::Failed).count();
                let needed = quorum(nodes);
                Cause::NoQuorum(
                    format!("{failed} of {nodes} nodes gave no vote, where {needed} must grant it")
                        .into(),
                )
            }
        };
        let refusal = Refusal {
            key: self.claim.key.clone(),
            votes: self.votes(),
            cause,
        };
        self.refuse(refusal).await
    }

    async fn refuse(self, refusal: Refusal) -> (Result<Claim, Refusal>, Stragglers) {
        self.claim.hand_back().await;
        (Err(refusal), Stragglers(self.replies))
    }

    /// Sees to it that a majority has stored the fencing token. Usually the grants have done it.
    async fn settle_fence(&mut self) -> bool {
        let Some(proposal) = self.claim.fence else {
            return true;
        };
        let stored = self.fences.iter().flatten().copied();
        match settle(proposal, stored, quorum(self.fences.len())) {
            Settled::Accepted => true,
            // The largest there is was given to somebody before: no later holder can have a larger one.
            Settled::Raise(token) => token > proposal.last() && self.claim.raise_fence(token).await,
        }
    }

    fn votes(&self) -> Vec<NodeVote> {
        let nodes = self.claim.redlock.nodes.iter().enumerate();
        nodes
            .filter_map(|(position, node)| {
                let vote = match self.tally.ballot(position)? {
                    Ballot::Granted => Vote::Granted,
                    Ballot::Held(_) => Vote::Busy,
                    Ballot::Free => return None,
                    Ballot::Failed => self.failures[position].as_ref().map(Vote::from)?,
                };
                Some(NodeVote {
                    node: Arc::clone(node.name()),
                    vote,
                })
            })
            .collect()
    }
}

/// Answers that came too late to matter. They are waited for all the same: a request that is dropped before the
/// connection has written it would not be sent while its release would, and a node that stays silent has to be noticed.
pub(crate) struct Stragglers(Replies<Acquired>);

impl Stragglers {
    pub(crate) fn none() -> Self {
        Self(Replies::of(0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0.add(others.0);
    }

    /// Ends by the deadline that each node was given.
    pub(crate) async fn finish(mut self) {
        while self.0.next().await.is_some() {}
    }
}
