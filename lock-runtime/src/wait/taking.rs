//! One try at all the keys of an order: all of them, or none.

use std::sync::Arc;

use tokio::time::Instant;

use crate::key::LockKey;
use crate::redlock::claim::Claim;
use crate::redlock::{Redlock, Refusal, Stragglers, Want};

/// How the nodes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// All at once.
    AllAtOnce,
    /// Each key's first node, and the others only once that has granted. A refusal is none of a majority.
    InOrder,
}

/// Takes one after the other. A refusal gives back what was taken before it; the nodes are handed that before it is told.
pub(super) async fn take_all(
    redlock: &Arc<Redlock>,
    keys: &[LockKey],
    want: Want,
    manner: Manner,
) -> (Result<Vec<Claim>, Refusal>, Stragglers) {
    let mut claims: Vec<Claim> = Vec::with_capacity(keys.len());
    let mut stragglers = Stragglers::none();
    for key in keys {
        let (taken, late) = match manner {
            Manner::AllAtOnce => redlock.acquire(key, want).await,
            Manner::InOrder => redlock.acquire_in_order(key, want).await,
        };
        stragglers.add(late);
        match taken {
            Ok(claim) => claims.push(claim),
            Err(refusal) => return (Err(refuse(claims, refusal).await), stragglers),
        }
    }
    if let Err(refusal) = share_fence(&mut claims).await {
        return (Err(refuse(claims, refusal).await), stragglers);
    }
    let now = Instant::now();
    // While the later ones were taken, the first ones have aged.
    if let Some(late) = claims
        .iter()
        .find(|claim| claim.deadline().is_none_or(|end| end <= now))
    {
        let refusal = late.outlived();
        return (Err(refuse(claims, refusal).await), stragglers);
    }
    (Ok(claims), stragglers)
}

async fn refuse(claims: Vec<Claim>, refusal: Refusal) -> Refusal {
    for claim in claims {
        claim.hand_back().await;
    }
    refusal
}

/// Raises the fencing tokens of several locks to one that is larger than that of every earlier holder of any of them.
async fn share_fence(claims: &mut [Claim]) -> Result<(), Refusal> {
    let largest = |claims: &[Claim]| claims.iter().filter_map(Claim::token).max();
    while let Some(token) = largest(claims)
        && claims.iter().any(|claim| claim.token() != Some(token))
    {
        for claim in &mut *claims {
            if !claim.raise_fence(token).await {
                return Err(claim.unfenced());
            }
        }
    }
    Ok(())
}
