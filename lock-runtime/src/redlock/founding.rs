//! The first moments of a deployment: nodes that all have just started need not wait until they are old enough to vote.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Redlock;
use super::quorum::quorum;
use crate::node::{Node, NodeError, Standing};

/// While somebody else is admitting the nodes, how often that is waited for, and how long each time.
const ROUNDS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Admits the nodes if all of them are young and none remembers having been a node of this deployment. True: a majority
/// has its vote now, whoever gave it to them.
///
/// They are asked twice: what all of them said both times, in the same lives, was true of all at one moment between. So
/// whatever others have them grant meanwhile, they grant in these lives, and remember when they are admitted in them.
///
/// If one of them cannot be asked, it may be the one that remembers, so nobody is admitted.
pub(super) async fn found(redlock: &Redlock) -> bool {
    let majority = quorum(redlock.nodes.len());
    let mut new_before = None;
    for _ in 0..ROUNDS {
        let standings = redlock
            .ask_all(redlock.limit(), |node, _, limit| node.standing(limit))
            .await;
        let votes = |standing: &&Result<Standing, NodeError>| **standing == Ok(Standing::Votes);
        let voting = standings.iter().filter(votes).count();
        if voting >= majority {
            return true;
        }
        let lives: Vec<_> = standings.iter().map_while(new_life).collect();
        if lives.len() == standings.len() {
            if new_before.as_ref() != Some(&lives) {
                new_before = Some(lives);
                continue;
            }
            tracing::info!("the lock nodes are new, and vote from now on");
            let admit = |node: Arc<dyn Node>, position: usize, limit| {
                let life: &Arc<str> = &lives[position];
                node.admit(Arc::clone(life), limit)
            };
            let admitted = redlock.ask_all(redlock.limit(), admit).await;
            return admitted.iter().filter(|admitted| admitted.is_ok()).count() >= majority;
        }
        new_before = None;
        let being_admitted = voting > 0 && standings.iter().any(|node| new_life(node).is_some());
        if !being_admitted {
            return false;
        }
        sleep(PAUSE).await;
    }
    false
}

/// The life in which a node knows of no other.
fn new_life(standing: &Result<Standing, NodeError>) -> Option<Arc<str>> {
    match standing {
        Ok(Standing::Abstains { unknown, .. }) => unknown.clone(),
        Ok(Standing::Votes) | Err(_) => None,
    }
}
