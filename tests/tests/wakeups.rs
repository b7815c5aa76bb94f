//! Waiting for a lock that another process holds: woken when it is released, when it expires, and soon enough in any case;
//! and no subscription is left behind.

use lock_runtime::{LockError, LockManager};
use lock_tests::version::{acquire_command, is_before_7};
use lock_tests::{DEADLINE, Fleet, Mode, RedisServer, eventually, eventually_async};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(60);

/// A machine that is busy is not an outage.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// A wait that is woken by nothing else ends by asking again: at the latest after this.
const POLL: Duration = Duration::from_millis(250);

fn set_everywhere(fleet: &Fleet, key: &str, millis: &str) {
    for server in fleet.servers() {
        let _: String = server.command(&["SET", key, "somebody", "PX", millis]);
    }
}

/// Polling alone would take more than six seconds for fifty releases, and ask many times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_whoever_waits_elsewhere() {
    let fleet = Fleet::start(5);
    let (holder, waiter) = (fleet.patient_manager().await, fleet.patient_manager().await);
    let median = fleet.median_wake(&holder, &waiter, 50).await;
    assert!(median < POLL / 4, "{median:?}");
}

/// Seven hear of the release at the same moment. Whoever does not get the lock has asked one node, and split no vote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_loses_the_race_has_asked_one_node() {
    // Not eight, which Valkey 9.1.2 gets wrong when it counts who listens.
    const WAITERS: u64 = 7;
    let fleet = Fleet::start(5);
    let holder = fleet.patient_manager().await;
    let mut managers = Vec::new();
    for _ in 0..WAITERS {
        managers.push(fleet.patient_manager().await);
    }
    let sets = || -> Vec<u64> {
        let stats = fleet.servers().iter().map(|server| server.command_stats());
        let mut sets: Vec<_> = stats
            .map(|stats| {
                let count = |name: &str| stats.get(name).copied().unwrap_or(0);
                // A script that acquires is told from one that releases by what the latter calls.
                let releases = if is_before_7() { count("del") } else { 0 };
                count(acquire_command()) - releases
            })
            .collect();
        sets.sort_unstable();
        sets
    };
    let mut asked_of_others = Vec::new();
    for round in 0..15 {
        let key = format!("k{round}");
        let channel = format!("{{{key}}}:released");
        let held = holder.lock(&*key).ttl(TTL).acquire().await.expect("free");
        let mut waits = JoinSet::new();
        for locks in &managers {
            waits.spawn(locks.lock(&*key).ttl(TTL).wait(DEADLINE).acquire());
        }
        eventually(DEADLINE, "all listen", || {
            let listeners = fleet.servers().iter().map(|server| {
                let (_, listeners): (String, u64) = server.command(&["PUBSUB", "NUMSUB", &channel]);
                listeners
            });
            listeners.max() == Some(WAITERS)
        })
        .await;
        for server in fleet.servers() {
            server.reset_command_stats();
        }
        held.release().await.expect("released");
        let won = waits
            .join_next()
            .await
            .expect("a waiter")
            .expect("no panic");
        eventually(DEADLINE, "all have asked", || sets()[4] >= WAITERS).await;
        asked_of_others.push(sets()[..4].iter().sum::<u64>());
        waits.shutdown().await;
        drop(won);
    }
    asked_of_others.sort_unstable();
    // One each by the winner. Whoever asks again in the meantime asks all, on a machine that is busy.
    assert!(asked_of_others[7] <= WAITERS, "{asked_of_others:?}");
    fleet.assert_nobody_listens().await;
}

/// The lock is released in the moment between the try that fails and the subscription, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_before_the_subscription_is_not_missed() {
    let fleet = Fleet::start(3);
    let (holder, waiter) = (fleet.patient_manager().await, fleet.patient_manager().await);
    let mut delays = Vec::new();
    for round in 0..200_u64 {
        let held = holder
            .lock("k")
            .ttl(TTL)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("free");
        let waiting = tokio::spawn(waiter.lock("k").ttl(TTL).wait(DEADLINE).acquire());
        sleep(Duration::from_micros(round * 37 % 3_000)).await;
        let released = Instant::now();
        held.release().await.expect("released");
        let lease = waiting.await.expect("no panic").expect("released");
        delays.push(released.elapsed());
        lease.release().await.expect("released");
    }
    let slow = delays.iter().filter(|delay| **delay >= POLL / 2).count();
    assert!(slow <= 20, "{slow} of 200 were found out by asking again");
    fleet.assert_nobody_listens().await;
}

/// Nothing is published for what nobody releases.
#[tokio::test]
async fn a_key_that_is_deleted_by_hand_is_found_by_asking_again() {
    let fleet = Fleet::start(3);
    let locks = fleet.patient_manager().await;
    set_everywhere(&fleet, "k", "60000");
    let waiting = tokio::spawn(locks.lock("k").ttl(TTL).wait(DEADLINE).acquire());
    eventually(DEADLINE, "it listens", || fleet.listened_to() == 1).await;
    for server in fleet.servers() {
        let _: u64 = server.command(&["DEL", "k"]);
    }
    let deleted = Instant::now();
    drop(waiting.await.expect("no panic").expect("deleted"));
    // The poll, and much for a machine that is busy.
    assert!(deleted.elapsed() < POLL * 12, "{:?}", deleted.elapsed());
}

#[tokio::test]
async fn a_key_that_expires_is_found_when_it_does() {
    let fleet = Fleet::start(3);
    let locks = fleet.patient_manager().await;
    for millis in ["40", "700", "2000"] {
        let began = Instant::now();
        set_everywhere(&fleet, "k", millis);
        let lease = locks
            .lock("k")
            .ttl(TTL)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("expired");
        let ttl = Duration::from_millis(millis.parse().unwrap());
        let waited = began.elapsed();
        assert!(waited >= ttl, "{ttl:?}: {waited:?}");
        assert!(waited < ttl + POLL * 8, "{ttl:?}: {waited:?}");
        lease.release().await.expect("released");
    }
}

/// Waits that end in every way: with the lock, without it, and dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waits_leave_no_subscription() {
    let fleet = Fleet::start(3);
    let (holder, waiter) = (fleet.patient_manager().await, fleet.patient_manager().await);
    for round in 0..10 {
        let mut held = Vec::new();
        let mut waits = JoinSet::new();
        for number in 0..100_u64 {
            let key = format!("k{number}");
            held.push(holder.lock(&*key).ttl(TTL).acquire().await.expect("free"));
            let wait = match number % 3 {
                0 => DEADLINE,
                _ => Duration::from_millis(5 * number % 40 + 1),
            };
            waits.spawn(waiter.lock(&*key).ttl(TTL).wait(wait).acquire());
        }
        eventually(DEADLINE, "they listen", || fleet.listened_to() > 0).await;
        if round % 2 == 1 {
            waits.abort_all();
        }
        drop(held);
        while let Some(ended) = waits.join_next().await {
            match ended {
                Ok(Ok(lease)) => drop(lease),
                Ok(Err(error)) => assert!(error.is_busy(), "{error}"),
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
        eventually(DEADLINE, "all are free", || {
            (0..100).all(|number| fleet.nodes_with(&format!("k{number}")) == 0)
        })
        .await;
    }
    fleet.assert_nobody_listens().await;
    assert_eq!(waiter.stats().no_quorum, 0);
}

/// Without permission for channels it works all the same, and nothing is said about it to the server again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_permission_for_channels_it_asks_again() {
    let fleet = Fleet::start(3);
    let mut builder = LockManager::builder().node_timeout(NODE_TIMEOUT);
    for server in fleet.servers() {
        let rules = [
            "ACL",
            "SETUSER",
            "deaf",
            "on",
            ">secret",
            "~*",
            "resetchannels",
            "+@all",
            "-publish",
            "-subscribe",
        ];
        let _: String = server.command(&rules);
        builder = builder.node(&*format!("redis://deaf:secret@127.0.0.1:{}", server.port()));
    }
    let (holder, waiter) = (
        builder.clone().build().expect("a manager"),
        builder.build().expect("a manager"),
    );
    lock_tests::ready(&holder).await;
    lock_tests::ready(&waiter).await;
    for server in fleet.servers() {
        let _: String = server.command(&["ACL", "LOG", "RESET"]);
    }
    for _ in 0..5 {
        let held = holder.lock("k").ttl(TTL).acquire().await.expect("free");
        let waiting = tokio::spawn(waiter.lock("k").ttl(TTL).wait(DEADLINE).acquire());
        sleep(Duration::from_millis(30)).await;
        held.release().await.expect("releases are confirmed");
        let lease = waiting.await.expect("no panic").expect("released");
        lease.release().await.expect("releases are confirmed");
    }
    assert_eq!(fleet.listened_to(), 0);
    for server in fleet.servers() {
        // Once for a connection it is tried.
        let refused: Vec<redis::Value> = server.command(&["ACL", "LOG"]);
        assert!(refused.len() <= 1, "{refused:?}");
    }
}

/// The connection breaks while somebody listens, and the lock is released meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_does_not_keep_anybody_waiting() {
    let fleet = Fleet::start(3).behind_proxies();
    let locks = fleet.patient_manager().await;
    for _ in 0..5 {
        set_everywhere(&fleet, "k", "60000");
        let waiting = tokio::spawn(locks.lock("k").ttl(TTL).wait(DEADLINE).acquire());
        eventually(DEADLINE, "it listens", || fleet.listened_to() == 1).await;
        for proxy in fleet.proxies() {
            proxy.set(Mode::Refuse);
        }
        for server in fleet.servers() {
            let _: u64 = server.command(&["DEL", "k"]);
        }
        for proxy in fleet.proxies() {
            proxy.set(Mode::Pass);
        }
        let lease = waiting.await.expect("no panic").expect("deleted");
        lease.release().await.expect("released");
        fleet.assert_nobody_listens().await;
    }
}

/// Somebody has the lock on all nodes but the one that is listened to. So each attempt has that one and gives it back; if it
/// told of that, it would wake itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_failed_wakes_nobody() {
    let fleet = Fleet::start(3);
    let waiters = [fleet.patient_manager().await, fleet.patient_manager().await];
    set_everywhere(&fleet, "k", "60000");
    let mut waiting = JoinSet::new();
    for locks in &waiters {
        waiting.spawn(locks.lock("k").ttl(TTL).wait_forever().acquire());
    }
    eventually(DEADLINE, "they listen", || {
        let listeners = fleet.servers().iter().map(|server| {
            let counts: (String, u64) = server.command(&["PUBSUB", "NUMSUB", "{k}:released"]);
            counts.1
        });
        listeners.sum::<u64>() == 2
    })
    .await;
    let first = fleet.servers().iter().find(|server| {
        let channels: Vec<String> = server.command(&["PUBSUB", "CHANNELS", "*"]);
        !channels.is_empty()
    });
    let first = first.expect("they listen");
    first.reset_command_stats();
    let _: u64 = first.command(&["DEL", "k"]);
    eventually(DEADLINE, "each asks a few times", || {
        first
            .command_stats()
            .get(acquire_command())
            .is_some_and(|asked| *asked >= 20)
    })
    .await;
    assert_eq!(first.command_stats().get("publish"), None);

    // Of what one of them has had, the other is told.
    for server in fleet.servers() {
        let _: u64 = server.command(&["DEL", "k"]);
    }
    let one = waiting.join_next().await.expect("a waiter");
    let one = one.expect("no panic").expect("deleted");
    one.release().await.expect("released");
    let other = waiting.join_next().await.expect("a waiter");
    drop(other.expect("no panic").expect("released"));
    assert!(first.command_stats()["publish"] > 0);
}

/// Somebody waits here, and has learned how long the first holder has it. That is not told of the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_says_how_long_the_last_holder_has_it() {
    let fleet = Fleet::start(3);
    let locks = fleet.patient_manager().await;
    set_everywhere(&fleet, "k", "3600000");
    // A connection begins with looking at what is remembered.
    fleet
        .servers()
        .iter()
        .for_each(RedisServer::reset_command_stats);
    let waiting = tokio::spawn(locks.lock("k").ttl(TTL).wait_forever().acquire());
    eventually(DEADLINE, "it listens", || fleet.listened_to() == 1).await;
    eventually(DEADLINE, "it looks", || {
        let stats = fleet.servers().iter().map(|server| server.command_stats());
        stats.filter(|stats| stats.contains_key("pttl")).count() == 1
    })
    .await;
    set_everywhere(&fleet, "k", "600000");
    for server in fleet.servers() {
        let _: u64 = server.command(&["PUBLISH", "{k}:released", ""]);
    }
    let last = Duration::from_secs(600);
    eventually_async(DEADLINE, "what is old is forgotten", || async {
        match locks.lock("k").ttl(TTL).acquire().await {
            Err(LockError::Busy { retry_after, .. }) if retry_after <= last => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    waiting.abort();
}
