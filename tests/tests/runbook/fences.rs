//! Fencing tokens while the list of nodes is changed. They are kept per lock, on the nodes that its holders had.

use super::{LONG, occupy, process, process_with, started, vacate};
use lock_runtime::LockManager;
use lock_tests::{Fleet, RedisServer};
use std::time::{Duration, SystemTime};

/// So far ahead is the clock of the first holder: no token that the time makes is as large as his.
const AHEAD: Duration = Duration::from_secs(600);

/// The token of a holder who has the lock on a majority without these nodes.
async fn token_without(locks: &LockManager, others: &[&RedisServer]) -> u64 {
    occupy(others.iter().copied(), "k");
    let request = locks.lock("k").ttl(LONG).fenced(true);
    let lease = request.acquire().await.expect("free on the rest");
    let token = lease.fence();
    vacate(others.iter().copied(), "k");
    lease.release().await.expect("released");
    token
}

/// A deployment of which three nodes were used by somebody whose clock is ahead, and two only could tell of him.
async fn used_by_three() -> (Fleet, u64) {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let ahead = process(&fleet.servers()[..3]).wall_clock(|| SystemTime::now() + AHEAD);
    let token = token_without(&started(ahead).await, &[&fleet.servers()[2]]).await;
    (fleet, token)
}

#[tokio::test]
async fn tokens_grow_from_step_to_step_whatever_the_clocks_say() {
    for left_out in 0..4 {
        let (fleet, first) = used_by_three().await;
        let servers = fleet.servers();
        let four = process_with(&fleet, &[0, 1, 2, 3]).await;
        let mut last = token_without(&four, &[&servers[left_out]]).await;
        assert!(last > first, "{last} after {first}");
        let five = process_with(&fleet, &[0, 1, 2, 3, 4]).await;
        for one in 0..5 {
            for other in one + 1..5 {
                let token = token_without(&five, &[&servers[one], &servers[other]]).await;
                assert!(token > last, "without {one}, {other}: {token} after {last}");
                last = token;
            }
        }
    }
}

/// A lock that nobody held in between has its token where the next but one need not look: then the clocks make it grow, as
/// after a node has lost its data. So there is the wait between the steps, and clocks that agree to within that.
#[tokio::test]
async fn over_a_lock_that_was_not_held_in_between_the_clocks_decide() {
    let (fleet, first) = used_by_three().await;
    let five = process_with(&fleet, &[0, 1, 2, 3, 4]).await;
    let blind = [&fleet.servers()[0], &fleet.servers()[1]];
    let token = token_without(&five, &blind).await;
    assert!(token < first, "{token} after {first}");
}
