//! The numbers of a run.

use std::time::Duration;

pub(crate) const NODES: usize = 5;

/// So many servers are in trouble at most: a restarted one until it has its vote back.
pub(crate) const SERVERS_IN_TROUBLE: usize = 2;

pub(crate) const CLIENTS: usize = 8;

/// So many clients are stopped, or being replaced, at most.
pub(crate) const CLIENTS_IN_TROUBLE: usize = 3;

pub(crate) const KEYS: [&str; 4] = ["one", "two", "three", "four"];

/// So long a restarted server is kept out; clients ask for no longer TTL.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(2);

pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// Twice the default: the machine is busy, and a slow answer is not the fault that is meant here.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// How far a client's wall clock is from the right time, in milliseconds. Two of them differ by less than `MAX_TTL` less
/// the time that an acquire takes, which is what fencing assumes of clocks while servers lose data.
pub(crate) const CLOCKS: [i64; CLIENTS] = [0, 400, -400, 300, -300, 200, -200, 50];
