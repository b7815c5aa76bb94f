//! The second round for a fencing token, where the first proposal was not larger than everything a majority had stored.

use std::sync::{Arc, OnceLock};

use super::claim::Claim;
use super::fence::{Block, Settled, settle};
use super::quorum::quorum;
use super::replies::Replies;
use crate::node::{Fence, Raise};

/// Each round proposes more than anything that was seen, so more than two are only needed while other clients propose too.
const ROUNDS: u32 = 8;

impl Claim {
    /// Has its fencing token be at least this. False: no majority stored it.
    pub(crate) async fn raise_fence(&mut self, token: u64) -> bool {
        let Some(block) = self.fence.filter(|block| block.token() < token) else {
            return true;
        };
        let raised = raise(self, block.moved_to(token)).await;
        self.fence = raised.or(self.fence);
        raised.is_some()
    }
}

/// Has a majority store tokens for a lock that is ours, from this proposal on. `None`: no majority did.
async fn raise(claim: &Claim, mut proposal: Block) -> Option<Block> {
    let redlock = &claim.redlock;
    for _ in 0..ROUNDS {
        redlock.fences.note(proposal.last());
        let raise = Arc::new(Raise {
            key: Arc::clone(&claim.wire),
            token: claim.token.clone(),
            fence: Fence::of(&claim.wire, proposal.last(), redlock.fences.ttl),
            limit: redlock.limit(),
            command: OnceLock::new(),
        });
        let mut replies = Replies::of(redlock.nodes.len());
        for (position, node) in redlock.nodes.iter().enumerate() {
            if claim.ledger.holds(position) {
                let reply = Arc::clone(node).raise(Arc::clone(&raise));
                replies.push(position, raise.limit.clone(), reply);
            }
        }
        let mut stored = Vec::with_capacity(redlock.nodes.len());
        while let Some((_, answer)) = replies.next().await {
            stored.extend(answer.ok());
        }
        match settle(proposal, stored.into_iter(), quorum(redlock.nodes.len())) {
            Settled::Accepted => return Some(proposal),
            Settled::Raise(next) => proposal = proposal.moved_to(next),
        }
    }
    None
}
