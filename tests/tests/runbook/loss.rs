//! All nodes at once: without their data they cannot be told from new ones.

use super::{abstention, impatient_process, sooner_or_later, started};
use futures_util::future::join_all;
use lock_runtime::{Lease, LockManager};
use lock_tests::{DEADLINE, Disk, Fleet, RedisServer};
use std::time::{Duration, Instant};

const MAX_TTL: Duration = Duration::from_secs(3);

async fn holder(fleet: &Fleet, max_ttl: Duration) -> (LockManager, Lease) {
    fleet.found().await;
    let holder = started(impatient_process(fleet.servers(), max_ttl)).await;
    let lease = sooner_or_later(&holder, "k", max_ttl).await;
    (holder, lease)
}

fn kill(servers: &[RedisServer]) -> Instant {
    servers.iter().for_each(RedisServer::kill);
    Instant::now()
}

async fn restart(servers: &[RedisServer], disk: Disk) {
    join_all(servers.iter().map(|server| server.restart(disk))).await;
}

/// They all vote at once, whoever believes in what they have lost.
#[tokio::test]
async fn nodes_that_all_come_back_empty_grant_what_is_held() {
    let fleet = Fleet::start(5);
    let max_ttl = 2 * DEADLINE;
    let (_process, lease) = holder(&fleet, max_ttl).await;
    kill(fleet.servers());
    restart(fleet.servers(), Disk::Lose).await;
    let rival = started(impatient_process(fleet.servers(), max_ttl)).await;
    let second = rival.lock("k").ttl(max_ttl).acquire().await;
    let second = second.expect("nobody knows of the first");
    assert!(!lease.is_lost(), "two hold it");
    second.release().await.expect("released");
}

/// Then they wait until they are old enough, and nobody believes in anything that they have lost.
async fn nobody_is_granted_what_is_held(fleet: Fleet, disk: Disk, back: usize) {
    let (_process, lease) = holder(&fleet, MAX_TTL).await;
    let killed = kill(fleet.servers());
    restart(&fleet.servers()[..back], disk).await;
    let rival = impatient_process(fleet.servers(), MAX_TTL).build().unwrap();
    let mut had_no_vote = false;
    let second = loop {
        match rival.lock("k").ttl(MAX_TTL).acquire().await {
            Ok(second) => break second,
            Err(error) => had_no_vote |= abstention(&error, &fleet.servers()[0].name()).is_some(),
        }
        assert!(killed.elapsed() < DEADLINE, "nobody ever gets it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(had_no_vote, "nobody had a vote at first");
    assert!(lease.is_lost(), "{:?} are left", lease.remaining());
    assert!(killed.elapsed() >= MAX_TTL);
    second.release().await.expect("released");
}

#[tokio::test]
async fn while_one_of_them_is_kept_back_the_others_are_not_taken_for_new() {
    nobody_is_granted_what_is_held(Fleet::start(5), Disk::Lose, 4).await;
}

#[tokio::test]
async fn nodes_that_all_come_back_with_an_append_only_file_wait() {
    let options = || RedisServer::options().append_only("everysec");
    let fleet = Fleet::of([options(), options(), options(), options(), options()]);
    nobody_is_granted_what_is_held(fleet, Disk::Keep, 5).await;
}

/// However old it is: it says that they have voted in another life.
#[tokio::test]
async fn nodes_that_all_come_back_from_an_old_snapshot_wait() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    fleet.servers().iter().for_each(RedisServer::save);
    nobody_is_granted_what_is_held(fleet, Disk::Keep, 5).await;
}
