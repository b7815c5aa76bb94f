//! Another server in the place of one, under an address of its own.

use super::resize::{Ways, nobody_in, ways_in_meanwhile};
use super::{abstention, impatient_process, occupy, process_with, started, vacate};
use lock_tests::{DEADLINE, Fleet, RedisServer};
use std::time::{Duration, Instant};

/// The longest lease, and so long a node that was started is kept out.
const MAX_TTL: Duration = Duration::from_secs(4);

/// All nodes vote, old and new, and processes with either list work next to one another.
#[tokio::test]
async fn while_the_old_server_is_there_two_hold_the_lock() {
    let two_held = |tried, two_held| Ways { tried, two_held };
    for (old, new, expected) in [
        (&[0, 1, 2][..], &[0, 1, 3][..], two_held(3, 2)),
        (&[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5], two_held(10, 6)),
    ] {
        let fleet = Fleet::start(old.len() + 1);
        fleet.found().await;
        let ways = ways_in_meanwhile(&fleet, old, new).await;
        assert_eq!(ways, [expected, expected]);
        fleet.assert_no_keys("*").await;
    }
}

/// Also if it was not the only one.
#[tokio::test]
async fn once_the_old_server_has_gone_nobody_else_gets_in() {
    for (old, new, [of_old, of_new]) in [
        (&[0, 1, 2][..], &[0, 1, 3][..], [1, 3]),
        (&[0, 1, 2, 3, 4], &[0, 1, 2, 3, 5], [4, 10]),
        (&[0, 1, 2, 3, 4], &[0, 1, 2, 5, 6], [1, 10]),
    ] {
        let gone = old.iter().filter(|node| !new.contains(node));
        let fleet = Fleet::start(old.len() + gone.clone().count());
        fleet.found().await;
        gone.for_each(|&node| fleet.servers()[node].kill());
        let ways = ways_in_meanwhile(&fleet, old, new).await;
        assert_eq!(ways, [nobody_in(of_old), nobody_in(of_new)]);
        fleet.assert_no_keys("*").await;
    }
}

/// First one more, then one less: so nothing has to be stopped before.
#[tokio::test]
async fn by_way_of_one_node_more_the_old_server_may_stay() {
    for (old, with_both, new, counts) in [
        (&[0, 1, 2][..], &[0, 1, 2, 3][..], &[0, 1, 3][..], [3, 4, 3]),
        (
            &[0, 1, 2, 3, 4],
            &[0, 1, 2, 3, 4, 5],
            &[0, 1, 2, 3, 5],
            [10, 15, 10],
        ),
    ] {
        let fleet = Fleet::start(with_both.len());
        fleet.found().await;
        let [of_old, of_both, of_new] = counts.map(nobody_in);
        let first = ways_in_meanwhile(&fleet, old, with_both).await;
        assert_eq!(first, [of_old, of_both]);
        let second = ways_in_meanwhile(&fleet, with_both, new).await;
        assert_eq!(second, [of_both, of_new]);
        fleet.assert_no_keys("*").await;
    }
}

/// The holder has it on A and on the old server, which is stopped then. A process with the new list asks for it.
struct Replaced {
    fleet: Fleet,
    lease: lock_runtime::Lease,
}

impl Replaced {
    async fn stop_the_old(fleet: Fleet) -> Self {
        let holder = impatient_process(&fleet.servers()[..3], MAX_TTL);
        let holder = started(holder).await;
        let b = &fleet.servers()[1];
        occupy([b], "k");
        let request = holder.lock("k").ttl(MAX_TTL).extend(false);
        let lease = request.acquire().await.expect("free on A and the old one");
        fleet.servers()[2].kill();
        vacate([b], "k");
        Self { fleet, lease }
    }
}

/// A lease that the old server voted for may still be believed when it has gone.
#[tokio::test]
async fn a_server_that_was_there_before_the_old_one_went_does_not_know_its_leases() {
    let fleet = Fleet::start(4);
    fleet.found().await;
    let Replaced { fleet, lease } = Replaced::stop_the_old(fleet).await;
    let rival = process_with(&fleet, &[0, 1, 3]).await;
    let second = rival.lock("k").ttl(MAX_TTL).acquire().await;
    let second = second.expect("free on B and the new one");
    assert!(!lease.is_lost(), "two hold it");
    second.release().await.expect("released");
}

/// It is too young to vote for as long as such a lease can last: there is nothing else to wait for.
#[tokio::test]
async fn a_server_that_is_started_after_the_old_one_has_gone_waits_for_its_leases_by_itself() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let Replaced { fleet, lease } = Replaced::stop_the_old(fleet).await;
    let gone = Instant::now();
    let new = RedisServer::start();
    let servers = fleet.servers()[..2].iter().chain([&new]);
    let rival = started(impatient_process(servers, MAX_TTL)).await;
    let mut had_no_vote = false;
    let second = loop {
        match rival.lock("k").ttl(MAX_TTL).acquire().await {
            Ok(second) => break second,
            Err(error) => had_no_vote |= abstention(&error, &new.name()).is_some(),
        }
        assert!(gone.elapsed() < DEADLINE, "nobody ever gets it");
    };
    assert!(had_no_vote, "the new one had no vote at first");
    assert!(lease.is_lost(), "{:?} are left", lease.remaining());
    second.release().await.expect("released");
}
