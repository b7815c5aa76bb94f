//! Another `max_ttl`, process by process.

use super::{abstention, impatient_process, occupy, sooner_or_later, started, vacate};
use lock_tests::fleet::MARKER;
use lock_tests::{DEADLINE, Disk, Fleet, eventually, eventually_async};
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// A process that was not told of the longer leases counts a node that has forgotten one of them. Those who were told do not
/// take its word for it.
#[tokio::test]
async fn whoever_does_not_know_the_longest_lease_counts_a_node_too_soon_and_for_himself() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let process = |max_ttl| started(impatient_process(fleet.servers(), max_ttl));
    let told = process(LONG).await;
    let (c, d_and_e) = (&fleet.servers()[2], &fleet.servers()[3..]);
    occupy(d_and_e, "k");
    let request = told.lock("k").ttl(LONG).extend(false);
    let lease = request.acquire().await.expect("free on A, B and C");
    c.restart(Disk::Lose).await;
    vacate(d_and_e, "k");

    let rival = process(LONG).await;
    eventually_async(DEADLINE, "C is there, and has no vote", || async {
        let error = rival.lock("k").ttl(LONG).acquire().await;
        let error = error.expect_err("C may not tell");
        let left = abstention(&error, &c.name());
        left.filter(|left| *left > LONG / 2).ok_or(error)
    })
    .await;

    let not_told = process(SHORT).await;
    let second = sooner_or_later(&not_told, "k", SHORT).await;
    assert!(!lease.is_lost(), "two hold it");
    second.release().await.expect("released");
    eventually(DEADLINE, "C remembers that it voted", || c.exists(MARKER)).await;
    let later = process(LONG).await;
    let error = later.lock("k").ttl(LONG).acquire().await;
    let error = error.expect_err("C may not tell");
    let left = abstention(&error, &c.name());
    assert!(left.is_some_and(|left| left > LONG / 2), "{error}");
    assert!(!lease.is_lost(), "still held");
}
