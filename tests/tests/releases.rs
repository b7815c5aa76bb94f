//! A release is its owner's, and says what came of it.

use lock_runtime::{LockManager, LockRequest};
use lock_tests::{DEADLINE, Fleet, Mode, RedisServer, eventually};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longer than any test takes: what is gone was not ended by its TTL.
const TTL: Duration = Duration::from_secs(60);

fn ask(locks: &LockManager) -> LockRequest {
    locks.lock("k").ttl(TTL)
}

#[tokio::test]
async fn a_stale_holder_does_not_free_the_next_ones_lock() {
    let fleet = Fleet::start(5);
    let (ours, theirs) = (fleet.ready_manager().await, fleet.ready_manager().await);
    let stale = ours.lock("k").ttl(Duration::from_millis(100)).extend(false);
    let stale = stale.acquire().await.expect("free");
    let next = ask(&theirs)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("it runs out");
    assert!(stale.is_lost());
    let error = stale.release().await.expect_err("too late");
    assert!(
        matches!(error, lock_runtime::ReleaseError::Expired { .. }),
        "{error}"
    );
    assert!(fleet.nodes_with("k") >= 3, "the next one's lock stays");
    assert_eq!(ours.stats().releases_unconfirmed, 1);
    next.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_release_tells_who_has_lost_the_lock_and_who_cannot_know() {
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.ready_manager().await;

    let lease = ask(&locks).acquire().await.expect("free");
    eventually(DEADLINE, "it is on every connected node", || {
        fleet.nodes_with("k") >= 3
    })
    .await;
    for server in fleet.servers() {
        let _: String = server.command(&["SET", "k", "somebody else"]);
    }
    let error = lease.release().await.expect_err("overwritten");
    assert!(
        matches!(error, lock_runtime::ReleaseError::NotOwner { .. }),
        "{error}"
    );
    for server in fleet.servers() {
        assert_eq!(server.get("k").as_deref(), Some("somebody else"));
        server.flush();
    }

    let lease = ask(&locks).acquire().await.expect("free");
    for proxy in fleet.proxies() {
        proxy.set(Mode::HoldAnswers);
    }
    let error = lease.release().await.expect_err("nobody answers");
    assert!(
        matches!(error, lock_runtime::ReleaseError::Unreachable { .. }),
        "{error}"
    );
    for proxy in fleet.proxies() {
        proxy.set(Mode::Pass);
    }
    fleet.assert_no_keys("*").await;
}

/// A release whose script was forgotten is sent again, behind whatever was sent since. Whoever came in between finds the old owner
/// there, which keeps him out, and never lets two in.
#[tokio::test]
async fn a_release_that_has_to_be_sent_again_is_overtaken_by_nobody_who_gets_in() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let (ours, theirs) = (fleet.ready_manager().await, fleet.ready_manager().await);
    let inside = AtomicBool::new(false);
    let body = async |locks: &LockManager, fenced: bool| {
        let request = ask(locks).wait(DEADLINE).fenced(fenced);
        let lease = request.acquire().await.expect("in its turn");
        assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
        tokio::task::yield_now().await;
        assert!(!lease.is_lost());
        inside.store(false, Ordering::SeqCst);
        lease.release().await.expect("it is ours");
    };
    for round in 0..50 {
        let fenced = round % 2 == 0;
        let request = ask(&ours).wait(DEADLINE).fenced(fenced);
        let lease = request.acquire().await.expect("free");
        for server in fleet.servers() {
            server.command::<()>(&["SCRIPT", "FLUSH"]);
        }
        drop(lease);
        tokio::join!(body(&ours, fenced), body(&theirs, fenced));
    }
    let unknown = |server: &RedisServer| server.errors().contains("NOSCRIPT");
    assert!(fleet.servers().iter().all(unknown), "that was met");
    fleet.assert_no_keys("k*").await;
}
