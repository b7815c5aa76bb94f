//! Another `max_ttl`, process by process.

use super::{abstention, impatient_process, occupy, sooner_or_later, started, vacate};
use lock_tests::{Disk, Fleet};
use std::time::Duration;

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);

/// A process that was not told of the longer leases counts a node that has forgotten one of them.
#[tokio::test]
async fn whoever_knows_the_longest_lease_waits_for_it_and_whoever_does_not_is_the_second_holder() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let process = |max_ttl| started(impatient_process(fleet.servers(), max_ttl));
    let (new, old, told) = (
        process(LONG).await,
        process(SHORT).await,
        process(LONG).await,
    );
    let (c, d_and_e) = (&fleet.servers()[2], &fleet.servers()[3..]);
    occupy(d_and_e, "k");
    let request = new.lock("k").ttl(LONG).extend(false);
    let lease = request.acquire().await.expect("free on A, B and C");
    c.restart(Disk::Lose).await;
    vacate(d_and_e, "k");

    let second = sooner_or_later(&old, "k", SHORT).await;
    assert!(!lease.is_lost(), "two hold it");
    second.release().await.expect("released");

    let error = told.lock("k").ttl(SHORT).acquire().await;
    let error = error.expect_err("C may not tell");
    let left = abstention(&error, &c.name()).expect("C has no vote");
    assert!(!lease.is_lost() && left > SHORT, "{left:?}");
}
