//! What `deploy/runbook.md` tells an operator, done on real servers: what he does by the book keeps a lock to one holder, and
//! what the book warns of does not.
//!
//! A process of a service is a manager here, with the list of nodes that it was started with.

mod book;
mod by_hand;
mod fences;
mod loss;
mod max_ttl;
mod replace;
mod resize;
mod upgrade;

use lock_runtime::{LockError, LockManager, LockManagerBuilder, Vote};
use lock_tests::{DEADLINE, Fleet, RedisServer, ready};
use std::time::Duration;

/// Longer than what is shown takes. The default `max_ttl` permits it.
const LONG: Duration = Duration::from_secs(40);

/// A process that was started with these nodes, and does not take a busy machine for an outage.
fn process<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> LockManagerBuilder {
    let patient = LockManager::builder().node_timeout(Duration::from_secs(5));
    let urls = servers.into_iter().map(RedisServer::url);
    urls.fold(patient, LockManagerBuilder::node)
}

/// One whose longest lease is so short that a test waits for its end.
fn impatient_process<'a>(
    servers: impl IntoIterator<Item = &'a RedisServer>,
    max_ttl: Duration,
) -> LockManagerBuilder {
    let timeout = (max_ttl / 3).min(Duration::from_secs(5));
    process(servers).node_timeout(timeout).max_ttl(max_ttl)
}

async fn started(process: LockManagerBuilder) -> LockManager {
    let locks = process.build().expect("the nodes can be used");
    ready(&locks).await;
    locks
}

/// A process with these nodes of a fleet, by position.
async fn process_with(fleet: &Fleet, nodes: &[usize]) -> LockManager {
    started(process(nodes.iter().map(|&node| &fleet.servers()[node]))).await
}

/// Somebody else is on these nodes: who asks now does not get the lock there, as if his request had come too late.
fn occupy<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, key: &str) {
    for server in servers {
        let _: String = server.command(&["SET", key, "somebody", "PX", "60000"]);
    }
}

fn vacate<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, key: &str) {
    for server in servers {
        assert_eq!(server.get(key).as_deref(), Some("somebody"));
        let _: u64 = server.command(&["DEL", key]);
    }
}

/// For how much longer a node has no vote, as an error says.
fn abstention(error: &LockError, node: &str) -> Option<Duration> {
    let mut votes = error.votes().iter();
    match votes.find(|vote| vote.node() == node)?.vote() {
        Vote::Abstains(left) => Some(*left),
        _ => None,
    }
}

/// Asks until it is given the lock, also while there is an outage.
async fn sooner_or_later(locks: &LockManager, key: &str, ttl: Duration) -> lock_runtime::Lease {
    let request = locks.lock(key).ttl(ttl).wait(DEADLINE);
    request.acquire().await.expect("within the deadline")
}
