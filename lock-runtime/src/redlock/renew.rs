//! Renewing what is held: on a majority, before it ends, and never behind its release.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::quorum::{Ballot, Decision, Tally};
use super::replies::Replies;
use super::{Redlock, validity};
use crate::error::{NodeVote, Vote};
use crate::node::{Acquired, Extension, Fence, Ledger, Owner, Token};

/// One renewal of one claim. It holds what it needs, so the claim may be released meanwhile: the ledger that both share
/// sees to it that nothing is sent after the release.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(super) redlock: Arc<Redlock>,
    pub(super) wire: Arc<str>,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) ledger: Arc<Ledger>,
    pub(super) fence: Option<Fence>,
}

/// What came of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// A majority has the lock as ours: it may be believed until then, if it still could when this is heard.
    Until(Instant),
    /// Too few answers to tell: what the nodes said. The lease stands as it was.
    Inconclusive(Vec<NodeVote>),
    /// Somebody else has a majority.
    Taken,
}

impl Renewal {
    /// Asks all nodes, those too that lack the lock. `until`: when the lease ends that is being renewed.
    ///
    /// `decided` is told as soon as no later answer can change the result; the rest is waited for all the same, as for an
    /// acquire.
    pub(crate) async fn run(self, until: Instant, decided: impl FnOnce(Renewed)) {
        let sent = Instant::now();
        let nodes = self.redlock.nodes.len();
        let extension = Arc::new(Extension {
            key: self.wire,
            token: self.token,
            ttl: self.ttl,
            fence: self.fence,
            until,
            limit: self.redlock.limit(),
            ledger: self.ledger,
            command: OnceLock::new(),
        });
        let mut replies = Replies::of(nodes);
        for (position, node) in self.redlock.nodes.iter().enumerate() {
            let reply = Arc::clone(node).extend(Arc::clone(&extension), position);
            replies.push(position, extension.limit.clone(), reply);
        }
        let mut tally: Tally<Owner> = Tally::new(nodes);
        let mut votes = Vec::new();
        let decision = loop {
            if let Some(decision) = tally.decide() {
                break decision;
            }
            let Some((node, answer)) = replies.next().await else {
                break Decision::NoQuorum;
            };
            let (ballot, vote) = match answer {
                Ok(Acquired::Granted(_)) => (Ballot::Granted, Vote::Granted),
                Ok(Acquired::Held(owner)) => (Ballot::Held(owner), Vote::Busy),
                Err(error) => (Ballot::Failed, Vote::from(&error)),
            };
            tally.record(node, ballot);
            votes.push(NodeVote {
                node: Arc::clone(self.redlock.nodes[node].name()),
                vote,
            });
        };
        decided(match decision {
            Decision::Granted => match validity::deadline(sent.into_std(), self.ttl) {
                Some(deadline) => Renewed::Until(Instant::from_std(deadline)),
                None => Renewed::Inconclusive(votes),
            },
            Decision::Busy(_) => Renewed::Taken,
            Decision::NoQuorum | Decision::Split => Renewed::Inconclusive(votes),
        });
        while replies.next().await.is_some() {}
    }
}
