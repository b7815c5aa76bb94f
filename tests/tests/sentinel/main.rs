//! A Sentinel group is a node: its primary, wherever that is, and never two of them at a time.
//!
//! Real Sentinels watch over real servers that are killed and come back. Where a test is about what real ones do once in a blue
//! moon, they are played.

mod behind_tls;
mod failover;
mod quorum;
mod sentinels;

use lock_runtime::{LockManager, LockManagerBuilder, NodeSpec};
use lock_tests::RedisServer;
use lock_tests::fleet::is_kept;
use std::time::Duration;

/// Longer than any failover takes.
const TTL: Duration = Duration::from_secs(60);

/// A builder that is patient with busy machines.
fn patient() -> LockManagerBuilder {
    LockManager::builder().node_timeout(Duration::from_secs(1))
}

/// A manager of one node.
fn manager(node: impl Into<NodeSpec>) -> LockManager {
    patient().node(node).build().expect("a good configuration")
}

/// The keys of locks that a server has.
fn locks_at(server: &RedisServer) -> Vec<String> {
    let mut keys = server.keys("*");
    keys.retain(|key| !is_kept(key));
    keys
}
