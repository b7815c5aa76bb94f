//! What must not be done to a node by hand, and what is to be done when it was.

use super::{LONG, abstention, occupy, process_with, vacate};
use lock_runtime::LockError;
use lock_tests::{DEADLINE, Disk, Fleet, Recorder, eventually, eventually_async};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The holder finds out with his next renewal, when a third of his TTL is over, and not before.
#[tokio::test]
async fn a_lock_that_is_deleted_has_two_holders_until_the_first_one_renews_it() {
    const TTL: Duration = Duration::from_secs(9);
    let fleet = Fleet::start(3);
    fleet.found().await;
    let (first, second) = (
        process_with(&fleet, &[0, 1, 2]).await,
        process_with(&fleet, &[0, 1, 2]).await,
    );
    let record = Recorder::new();
    let (began, begins) = oneshot::channel();
    let holding = {
        let record = record.clone();
        let request = first.lock("k").ttl(TTL);
        tokio::spawn(request.run(|_| async move {
            let _inside = record.enter("k", "first");
            began.send(()).expect("the test waits for it");
            std::future::pending::<()>().await;
        }))
    };
    begins.await.expect("it is free");
    eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;
    for server in fleet.servers() {
        assert!(server.command::<bool>(&["DEL", "k"]));
    }
    let deleted = Instant::now();
    let lease = second.lock("k").ttl(TTL).acquire().await.expect("deleted");
    let inside = record.enter("k", "second");
    assert_eq!(record.inside("k"), ["first", "second"]);

    let ended = tokio::time::timeout(DEADLINE, holding).await;
    let ended = ended.expect("in time").expect("no panic");
    let next_to_one_another = deleted.elapsed();
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(
        next_to_one_another < TTL * 2 / 3,
        "{next_to_one_another:?}, and a renewal is due after {:?}",
        TTL / 3
    );
    assert!(!lease.is_lost());
    drop(inside);
    lease.release().await.expect("released");
}

/// One node is enough: it has forgotten, and goes on with its vote. Started again, it has none.
#[tokio::test]
async fn a_node_that_is_flushed_grants_what_is_held_until_it_is_restarted() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let (first, second) = (
        process_with(&fleet, &[0, 1, 2]).await,
        process_with(&fleet, &[0, 1, 2]).await,
    );
    let [_, b, c] = fleet.servers() else {
        unreachable!("three")
    };
    for key in ["used", "restarted"] {
        occupy([c], key);
        let request = first.lock(key).ttl(LONG).extend(false);
        let lease = request.acquire().await.expect("free on A and B");
        vacate([c], key);
        b.flush();
        if key == "used" {
            let again = second.lock(key).ttl(LONG).acquire().await;
            let again = again.expect("free on B and C");
            assert!(!lease.is_lost(), "two hold it");
            again.release().await.expect("released");
        } else {
            b.restart(Disk::Keep).await;
            eventually_async(DEADLINE, "B is there, and has no vote", || async {
                let error = second.lock(key).ttl(LONG).acquire().await;
                let error = error.expect_err("A has it and B has no vote");
                abstention(&error, &b.name()).ok_or(error)
            })
            .await;
        }
        assert!(!lease.is_lost());
    }
}
