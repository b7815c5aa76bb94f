//! The first moments of a deployment: nodes that all have just started need not wait until they are old enough to vote.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Redlock;
use super::quorum::quorum;
use super::replies::Replies;
use crate::node::{Limit, Node, NodeError, Reply, Standing};

/// While somebody else is admitting the nodes, how often that is waited for, and how long each time.
const ROUNDS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Admits the nodes if all of them are young and none remembers having been a node of this deployment. True: a majority
/// has its vote now, whoever gave it to them.
///
/// If one of them cannot be asked, it may be the one that remembers, so nobody is admitted.
pub(super) async fn found(redlock: &Redlock) -> bool {
    let majority = quorum(redlock.nodes.len());
    for _ in 0..ROUNDS {
        let standings = ask_all(redlock, Node::standing).await;
        let is_new = |standing: &Result<Standing, NodeError>| {
            matches!(standing, Ok(Standing::Abstains { unknown: true, .. }))
        };
        let votes = |standing: &&Result<Standing, NodeError>| **standing == Ok(Standing::Votes);
        let voting = standings.iter().filter(votes).count();
        if voting >= majority {
            return true;
        }
        if standings.iter().all(is_new) {
            tracing::info!("the lock nodes are new, and vote from now on");
            let admitted = ask_all(redlock, Node::admit).await;
            return admitted.iter().filter(|admitted| admitted.is_ok()).count() >= majority;
        }
        let being_admitted = voting > 0 && standings.iter().any(is_new);
        if !being_admitted {
            return false;
        }
        sleep(PAUSE).await;
    }
    false
}

async fn ask_all<T>(
    redlock: &Redlock,
    question: impl Fn(Arc<dyn Node>, Limit) -> Reply<T>,
) -> Vec<Result<T, NodeError>> {
    let limit = redlock.limit();
    let mut replies = Replies::of(redlock.nodes.len());
    for (position, node) in redlock.nodes.iter().enumerate() {
        let reply = question(Arc::clone(node), limit.clone());
        replies.push(position, limit.clone(), reply);
    }
    let mut answers = Vec::with_capacity(redlock.nodes.len());
    while let Some((_, answer)) = replies.next().await {
        answers.push(answer);
    }
    answers
}
