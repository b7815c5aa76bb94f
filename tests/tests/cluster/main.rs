//! A Redis Cluster as a node: its keys are locks wherever they are, while slots move, and when primaries fail.

mod behind_tls;
mod everyday;
mod failover;
mod heavy;
mod quorum;
mod reshard;
mod seeds;

use std::time::Duration;

/// So long that no key goes away by itself while a test looks.
const TTL: Duration = Duration::from_secs(60);
