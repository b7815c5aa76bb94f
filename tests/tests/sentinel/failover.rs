//! One group is the only node: the primary is killed, or replaced by hand, and whoever uses locks goes on.

use super::{TTL, locks_at, manager};
use lock_runtime::{LockManager, NodeSpec};
use lock_tests::sentinel::FAILOVER;
use lock_tests::{
    DEADLINE, Disk, RedisServer, Watched, cycle, eventually, eventually_async, ready,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[tokio::test]
async fn the_primary_is_killed_while_a_lock_is_held_and_others_wait() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let locks = manager(watched.url(group));
    let request = locks.lock("k").ttl(TTL).wait(DEADLINE);
    let lease = request.acquire().await.expect("free");
    eventually(DEADLINE, "it is replicated", || {
        group.servers()[1].exists("k")
    })
    .await;
    let token = old.get("k");

    let mut waiters = JoinSet::new();
    for waiter in 0..3 {
        let locks = manager(watched.url(group));
        waiters.spawn(async move {
            let request = locks.lock("k").ttl(TTL).wait(FAILOVER * 2);
            let lease = request
                .acquire()
                .await
                .unwrap_or_else(|error| panic!("{waiter}: {error}"));
            lease.release().await.expect("released");
        });
    }
    old.kill();
    let new = watched.moved_from(group, old).await;
    assert_eq!(new.get("k"), token, "it was replicated");
    let before = new.pttl("k");
    eventually_async(
        FAILOVER,
        "it is renewed on the promoted replica",
        || async {
            // The renewer's next is due in a third of the TTL.
            let renewed = lease.extend().await;
            renewed.map_err(|error| error.to_string())
        },
    )
    .await;
    assert!(new.pttl("k") > before, "{} after {before}", new.pttl("k"));
    assert!(!lease.is_lost());
    lease
        .release()
        .await
        .expect("released on the promoted replica");
    waiters.join_all().await;
    assert_eq!(locks_at(new), [""; 0]);
}

/// What was not replicated is lost, and its holder is told, or has it again if nobody came in between.
#[tokio::test]
async fn a_lock_that_was_not_replicated_is_taken_again_or_lost() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let (old, replica) = (&group.servers()[0], &group.servers()[1]);
    let locks = manager(watched.url(group));
    ready(&locks).await;
    replica.pause();
    let _: u64 = old.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    let acquire = |key: &'static str| locks.lock(key).ttl(TTL).acquire();
    let (again, gone) = (acquire("again").await, acquire("gone").await);
    let (again, gone) = (again.expect("free"), gone.expect("free"));
    old.kill();
    replica.resume();
    let new = watched.moved_from(group, old).await;
    assert_eq!(locks_at(new), [""; 0], "this test is about nothing");
    let _: () = new.command(&["SET", "gone", "somebody", "PX", "60000"]);

    eventually_async(FAILOVER, "its holder has it again", || async {
        again.extend().await.map_err(|error| error.to_string())
    })
    .await;
    assert!(new.exists("again") && !again.is_lost());
    let refused = gone.extend().await.expect_err("somebody has it");
    assert!(gone.is_lost(), "{refused}");
    assert_eq!(new.get("gone").as_deref(), Some("somebody"));
    drop(gone);
    again.release().await.expect("released");
    assert_eq!(locks_at(new), ["gone"]);
}

#[tokio::test]
async fn a_failover_by_hand_does_not_disturb_a_holder() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let locks = manager(watched.url(group));
    ready(&locks).await;
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    group.servers()[1].follows(old).await;
    let token = old.get("k");
    watched.fail_over(group).await;
    let new = watched.moved_from(group, old).await;
    eventually_async(DEADLINE, "others use the promoted replica", || async {
        let other = locks.lock("other").ttl(TTL).acquire().await;
        let other = other.map_err(|error| error.to_string())?;
        let there = new.exists("other");
        other.release().await.map_err(|error| error.to_string())?;
        there
            .then_some(())
            .ok_or_else(|| "on the old one".to_owned())
    })
    .await;
    lease
        .extend()
        .await
        .expect("renewed on the promoted replica");
    assert_eq!(new.get("k"), token);
    lease.release().await.expect("released");
    old.follows(new).await;
    assert_eq!(locks_at(new), [""; 0]);
}

/// Every lock that was granted before the primary died is on the replica that was promoted; and the old primary, back as a
/// replica, is of use again.
#[tokio::test]
async fn with_replicas_whatever_was_granted_is_on_the_promoted_replica() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let node = || NodeSpec::from(watched.url(group)).replicas(1);
    let locks = manager(node());
    ready(&locks).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut takers = JoinSet::new();
    for taker in 0..8 {
        let (locks, is_over) = (locks.clone(), Arc::clone(&is_over));
        takers.spawn(async move {
            let mut leases = Vec::new();
            for number in 0.. {
                let key = format!("{taker}:{number}");
                let request = locks
                    .lock(&*key)
                    .ttl(TTL)
                    .extend(false)
                    .fenced(number % 2 == 0);
                match request.acquire().await {
                    Ok(lease) => leases.push((key, lease)),
                    Err(error) => assert!(error.is_outage(), "{error}"),
                }
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
            leases
        });
    }
    eventually(DEADLINE, "locks are taken", || locks_at(old).len() > 300).await;
    old.kill();
    is_over.store(true, Ordering::SeqCst);
    let leases: Vec<_> = takers.join_all().await.into_iter().flatten().collect();
    assert!(leases.len() > 100);
    let new = watched.moved_from(group, old).await;
    for (key, _) in &leases {
        assert!(
            new.exists(key),
            "{key} was granted, and is not on the promoted replica"
        );
    }

    // Nobody can have another lock before there is a replica again.
    let refused = eventually_async(FAILOVER, "the promoted replica is asked", || async {
        let error = locks
            .lock("more")
            .ttl(TTL)
            .acquire()
            .await
            .expect_err("no replica");
        let words = error.to_string();
        words
            .contains("1 replica asked for, 0 have it")
            .then_some(error)
    })
    .await;
    assert!(refused.is_outage(), "{refused}");
    let (key, _) = &leases[0];
    let busy = manager(node())
        .lock(&**key)
        .ttl(TTL)
        .wait(DEADLINE / 5)
        .acquire()
        .await;
    assert!(
        busy.as_ref().is_err_and(lock_runtime::LockError::is_busy),
        "{busy:?}"
    );

    old.restart(Disk::Lose).await;
    old.follows(new).await;
    eventually_async(FAILOVER, "locks are taken again", || async {
        let lease = locks.lock("more").ttl(TTL).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        lease.release().await.map_err(|error| error.to_string())
    })
    .await;
    for (key, lease) in leases {
        lease
            .release()
            .await
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    eventually(DEADLINE, "nothing is left", || {
        locks_at(new).iter().all(|key| key.ends_with(":fence"))
    })
    .await;
}

/// How long after the sentinels have switched a lock can be had, on top of what they take.
#[tokio::test]
async fn locks_can_be_had_as_soon_as_the_sentinels_have_switched() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let locks = manager(watched.url(group));
    ready(&locks).await;
    let killed = Instant::now();
    old.kill();
    let first = tokio::spawn(first_lock(locks));
    watched.moved_from(group, old).await;
    let switched = killed.elapsed();
    let first = first.await.expect("no panic") - killed;
    println!("switched after {switched:?}, first lock after {first:?}");
    assert!(
        first < switched + Duration::from_secs(5),
        "{first:?}, where the sentinels took {switched:?}"
    );
}

/// Tries without a pause: when it had one.
async fn first_lock(locks: LockManager) -> Instant {
    eventually_async(FAILOVER, "a lock is had", || async {
        let lease = locks.lock("k").ttl(TTL).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        let now = Instant::now();
        lease.release().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(now)
    })
    .await
}

/// The whole of it with a password at the servers, and a login at the sentinels.
#[tokio::test]
async fn sentinels_and_servers_have_logins_of_their_own() {
    let setting = Watched::options().password("s3rver");
    let watched = setting.sentinel_login("locks", "s3ntinel").start().await;
    let group = watched.group();
    let old = &group.servers()[0];
    let url = watched.url(group);
    let locks = manager(&url);
    ready(&locks).await;
    cycle(&locks, "before", TTL).await;
    for (wrong, says) in [
        (url.replace("s3ntinel", "hunter2"), "WRONGPASS"),
        (url.split_once('?').expect("a login").0.to_owned(), "NOAUTH"),
        (url.replace("s3rver", "hunter2"), "WRONGPASS"),
    ] {
        let error = refused(&manager(&wrong)).await;
        assert!(error.contains(says), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    old.kill();
    watched.moved_from(group, old).await;
    first_lock(locks).await;
}

/// Why no lock can be had.
pub(super) async fn refused(locks: &LockManager) -> String {
    eventually_async(DEADLINE, "it is known why", || async {
        let refused = locks.lock("k").ttl(TTL).acquire().await;
        let error = refused.expect_err("nobody grants it").to_string();
        if error.contains("not connected yet") || error.contains("not answered yet") {
            Err(error)
        } else {
            Ok(error)
        }
    })
    .await
}

/// A server that lost its role under a connection that stays: found by what it answers, and given up.
#[tokio::test]
async fn a_server_that_is_a_replica_now_is_given_up() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let locks = manager(server.url());
    cycle(&locks, "k", TTL).await;
    let port = other.port().to_string();
    let _: () = server.command(&["REPLICAOF", "127.0.0.1", &port]);
    eventually_async(DEADLINE, "no lock is had", || async {
        locks.lock("k").ttl(TTL).acquire().await.is_err()
    })
    .await;
    let _: () = server.command(&["REPLICAOF", "NO", "ONE"]);
    eventually_async(DEADLINE, "it is used again", || async {
        let lease = locks.lock("k").ttl(TTL).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        lease.release().await.map_err(|error| error.to_string())
    })
    .await;
}

/// What is left in the place of the lock is replicated as a lock is, so its holder does not get it back.
#[tokio::test]
async fn the_primary_is_killed_after_a_lock_was_taken_by_force() {
    let watched = Watched::options().start().await;
    let group = watched.group();
    let [old, replica] = group.servers() else {
        panic!("a primary and a replica")
    };
    let (holder, other) = (manager(watched.url(group)), manager(watched.url(group)));
    let lease = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    ready(&other).await;
    let forced = other.force_release("k").await.expect("a key");
    assert!(forced.is_complete() && !forced.was_free(), "{forced}");
    let mark = old.get("k");
    eventually(DEADLINE, "the mark is replicated", || {
        replica.get("k") == mark
    })
    .await;
    old.kill();
    let new = watched.moved_from(group, old).await;
    assert_eq!(new.get("k"), mark);
    eventually_async(
        FAILOVER,
        "it is busy, although nobody renews it",
        || async {
            let busy = other.lock("k").ttl(TTL).acquire().await;
            let error = busy.expect_err("its holder does not know yet");
            if error.is_busy() { Ok(()) } else { Err(error) }
        },
    )
    .await;
    eventually_async(
        FAILOVER,
        "its holder is told by the new primary",
        || async {
            let renewed = lease.extend().await;
            assert!(renewed.is_err(), "it was taken from him");
            lease.is_lost()
        },
    )
    .await;
    lease.release().await.expect("it ends the mark");
    let next = other.lock("k").ttl(TTL).wait(DEADLINE).acquire().await;
    let next = next.expect("his release has ended the mark");
    next.release().await.expect("released");
}
