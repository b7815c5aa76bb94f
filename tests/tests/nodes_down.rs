//! Nodes that do not answer: a minority costs nothing, a majority is an outage, said in time, and no body runs.

use lock_runtime::{LockError, LockManager, LockManagerBuilder, Vote};
use lock_tests::version::is_before_7;
use lock_tests::{
    DEADLINE, Disk, Fleet, Mode, Proxy, RedisServer, cycle, eventually, eventually_async,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(60);

/// For tests in which nodes restart: so long one is kept out then.
const SHORT: Duration = Duration::from_secs(3);

/// How one node is made to fail, and how it comes back.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Refused,
    Blackholed,
    Killed,
    Paused,
}

impl Fault {
    const ALL: [Self; 4] = [Self::Refused, Self::Blackholed, Self::Killed, Self::Paused];

    fn break_node(self, server: &RedisServer, proxy: &Proxy) {
        match self {
            Self::Refused => proxy.set(Mode::Refuse),
            Self::Blackholed => proxy.set(Mode::Blackhole),
            Self::Killed => server.kill(),
            Self::Paused => server.pause(),
        }
    }

    async fn mend_node(self, server: &RedisServer, proxy: &Proxy) {
        match self {
            Self::Refused | Self::Blackholed => proxy.set(Mode::Pass),
            Self::Killed => server.restart(Disk::Lose).await,
            Self::Paused => server.resume(),
        }
    }
}

#[tokio::test]
async fn a_minority_that_fails_is_not_noticed() {
    for fault in Fault::ALL {
        let fleet = Fleet::start(5).behind_proxies();
        let locks = fleet.builder().max_ttl(SHORT).build().unwrap();
        cycle(&locks, "before", SHORT).await;
        for down in 0..2 {
            fault.break_node(&fleet.servers()[down], &fleet.proxies()[down]);
            for round in 0..20 {
                cycle(&locks, &format!("{fault:?}:{down}:{round}"), SHORT).await;
            }
        }
        for down in 0..2 {
            fault
                .mend_node(&fleet.servers()[down], &fleet.proxies()[down])
                .await;
        }
        let used_again = format!("{fault:?}: all five are used again");
        eventually_async(DEADLINE, &used_again, || async {
            let lease = locks
                .lock("after")
                .ttl(SHORT)
                .acquire()
                .await
                .expect("free");
            let nodes = fleet.nodes_with("after");
            lease.release().await.expect("released");
            if nodes == 5 {
                Ok(())
            } else {
                Err(format!("on {nodes} nodes"))
            }
        })
        .await;
        fleet.assert_no_keys("*").await;
    }
}

#[tokio::test]
async fn a_majority_that_fails_is_an_outage_and_no_body_runs() {
    for fault in Fault::ALL {
        let fleet = Fleet::start(5).behind_proxies();
        let locks = fleet.builder().max_ttl(SHORT).build().unwrap();
        cycle(&locks, "before", SHORT).await;
        for down in 0..3 {
            fault.break_node(&fleet.servers()[down], &fleet.proxies()[down]);
        }
        let ran = Arc::new(AtomicBool::new(false));
        let inside = Arc::clone(&ran);
        let request = locks.lock("k").ttl(SHORT);
        let outcome = request
            .run(|_| async move { inside.store(true, Ordering::SeqCst) })
            .await;
        let error = outcome.expect_err("two of five are no majority");
        assert!(!ran.load(Ordering::SeqCst), "{fault:?}");
        assert!(error.is_outage() && !error.is_busy(), "{fault:?}: {error}");
        let failed = error
            .votes()
            .iter()
            .filter(|vote| matches!(vote.vote(), Vote::Failed(_)));
        assert!(failed.count() >= 3, "{fault:?}: {error}");
        for proxy in &fleet.proxies()[..3] {
            assert!(
                error.to_string().contains(&proxy.name()),
                "{fault:?}: {error}"
            );
        }
        assert!(!locks.ready().await, "{fault:?}");

        for down in 0..3 {
            fault
                .mend_node(&fleet.servers()[down], &fleet.proxies()[down])
                .await;
        }
        // Recovers without being told.
        let lease = locks.lock("k").ttl(SHORT).wait(DEADLINE).acquire().await;
        let lease = lease.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        lease
            .release()
            .await
            .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        fleet.assert_no_keys("*").await;
    }
}

/// The bound is the node timeout, here so long that a busy machine does not blur it.
#[tokio::test]
async fn an_outage_is_told_after_the_node_timeout() {
    const NODE_TIMEOUT: Duration = Duration::from_secs(2);
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.builder().node_timeout(NODE_TIMEOUT).build().unwrap();
    cycle(&locks, "before", SHORT).await;
    for proxy in &fleet.proxies()[..3] {
        proxy.set(Mode::Blackhole);
    }
    let asked = Instant::now();
    let error = locks
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("an outage");
    let taken = asked.elapsed();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(
        taken + Duration::from_millis(10) >= NODE_TIMEOUT,
        "{taken:?}"
    );
    assert!(taken < NODE_TIMEOUT + Duration::from_secs(1), "{taken:?}");
    assert!(error.to_string().contains("no answer in 2s"), "{error}");
}

/// A decision does not wait for a node that cannot change it: not for a silent one, and not on a split vote.
#[tokio::test]
async fn a_silent_node_does_not_delay_a_decision() {
    const NODE_TIMEOUT: Duration = Duration::from_secs(10);
    let fleet = Fleet::start(5).behind_proxies();
    let locks = fleet.builder().node_timeout(NODE_TIMEOUT).build().unwrap();
    cycle(&locks, "before", SHORT).await;
    for proxy in &fleet.proxies()[..2] {
        proxy.set(Mode::Blackhole);
    }
    let asked = Instant::now();
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect("three of five");
    let error = locks.lock("k").ttl(TTL).acquire().await.expect_err("held");
    assert!(error.is_busy(), "{error}");
    lease.release().await.expect("three of five");
    let taken = asked.elapsed();
    assert!(
        taken < NODE_TIMEOUT / 2,
        "acquired, refused and released in {taken:?}"
    );
}

#[tokio::test]
async fn a_manager_is_built_while_nodes_are_down() {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.found().await;
    fleet.proxies()[0].set(Mode::Refuse);
    fleet.proxies()[1].set(Mode::Blackhole);
    let asked = Instant::now();
    let locks = fleet.manager();
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "building does not wait"
    );
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("three of five");
    lease.release().await.expect("three of five");

    fleet.proxies()[2].set(Mode::Refuse);
    eventually(DEADLINE, "the loss is noticed", || {
        fleet.proxies()[2].open_connections() == 0
    })
    .await;
    let error = locks
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("two of five");
    assert!(
        error.is_outage(),
        "the quorum is counted from five: {error}"
    );
}

#[tokio::test]
async fn nothing_is_asked_of_nodes_that_cannot_make_a_quorum_only_by_themselves() {
    // Five configured, two never there: three of three is a majority of five, two of three is not.
    let fleet = Fleet::start(5);
    fleet.found().await;
    for away in &fleet.servers()[3..] {
        away.kill();
    }
    let locks = fleet.manager();
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("three of five");
    lease.release().await.expect("three of five");
    let _: String = fleet.servers()[0].command(&["SET", "k", "somebody else"]);
    let error = locks
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("two of five");
    assert!(error.is_busy(), "somebody is in the way: {error}");
    assert_eq!(
        fleet.servers()[0].get("k").as_deref(),
        Some("somebody else")
    );
}

#[tokio::test]
async fn errors_of_a_node_are_votes_in_the_words_of_redis() {
    let open = RedisServer::options();
    let fleet = Fleet::of([open.clone(), open.clone(), open.password("right")]);
    fleet.found().await;
    let wrong = fleet
        .servers()
        .iter()
        .map(|server| format!("redis://:wrong@{}", server.name()));
    let nodes = fleet.urls().into_iter().take(2).chain(wrong.skip(2));
    let locks = nodes
        .fold(LockManager::builder(), LockManagerBuilder::node)
        .build()
        .unwrap();
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("two of three");
    let error = locks.lock("k").ttl(TTL).acquire().await.expect_err("held");
    assert!(error.is_busy());
    lease.release().await.expect("two of three");

    // A list of an application's own is in the way on one node, and stays there.
    let _: u64 = fleet.servers()[0].command(&["RPUSH", "k", "an application's own"]);
    let error = locks
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("one of three");
    assert!(error.is_outage(), "{error}");
    let text = error.to_string();
    assert!(text.contains("WRONGPASS"), "{text}");
    assert!(text.contains("WRONGTYPE"), "{text}");
    for word in ["right", "wrong"] {
        let shown = format!("{text} {error:?} {locks:?}");
        assert!(!shown.contains(&format!(":{word}@")), "{shown}");
    }
    let length: u64 = fleet.servers()[0].command(&["LLEN", "k"]);
    assert_eq!(length, 1);

    let silent = RedisServer::options().password("secret").start();
    let locks = LockManager::builder()
        .node(format!("redis://{}", silent.name()))
        .build()
        .unwrap();
    let error = locks
        .lock("k")
        .ttl(TTL)
        .wait(Duration::from_millis(200))
        .acquire()
        .await;
    let text = error.expect_err("no password given").to_string();
    assert!(text.contains("NOAUTH"), "{text}");
}

/// A manager that logs in to every node as a user with these permissions.
fn as_user(fleet: &Fleet, permissions: &[&str]) -> LockManager {
    let nodes = fleet.servers().iter().map(|server| {
        // Redis 6.2 gives a new user all channels.
        let user = ["ACL", "SETUSER", "locks", "on", ">p:w@d", "resetchannels"];
        let patterns = ["~shop:*", "~{shop:*", "&shop:*", "&{shop:*"];
        let _: String = server.command(&[&user[..], &patterns, permissions].concat());
        server.reset_command_stats();
        format!("redis://locks:p%3Aw%40d@{}", server.name())
    });
    let builder = nodes.fold(LockManager::builder(), LockManagerBuilder::node);
    builder.prefix("shop:").build().unwrap()
}

/// Acquires, is busy and releases, and returns the commands that the nodes were sent.
async fn commands_of_a_cycle(fleet: &Fleet, locks: &LockManager) -> BTreeSet<String> {
    let request = locks
        .lock("k")
        .ttl(TTL)
        .wait(DEADLINE)
        .hold_at_least(TTL / 1000);
    let lease = request.acquire().await.expect("free");
    let error = locks.lock("k").ttl(TTL).acquire().await.expect_err("held");
    assert!(error.is_busy(), "{error}");
    assert!(fleet.nodes_with("shop:k") >= 2, "the prefix is on the wire");
    fleet.assert_no_key_without_ttl();
    lease.release().await.expect("released");
    fleet.assert_no_keys("shop:*").await;
    let stats = fleet.servers().iter().flat_map(RedisServer::command_stats);
    stats.map(|(command, _)| command).collect()
}

/// A user without permission for `INFO` cannot be asked for the version, so the way of Redis 6.2 is taken.
#[tokio::test]
async fn servers_of_unknown_version_are_asked_by_script() {
    let fleet = Fleet::start(3);
    let locks = as_user(&fleet, &["+@all", "-info"]);
    let commands = commands_of_a_cycle(&fleet, &locks).await;
    assert!(commands.contains("eval"), "{commands:?}");
}

/// What the README lists.
#[tokio::test]
async fn the_permissions_of_the_readme_are_enough() {
    let readme = include_str!("../../README.md");
    let (_, listed) = readme.split_once("; and on them").unwrap();
    let (listed, _) = listed.split_once(". Without `INFO`").unwrap();
    let permissions: Vec<_> = listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(|command| format!("+{}", command.to_lowercase()))
        .collect();
    assert!(permissions.len() > 8, "{permissions:?}");
    let permissions: Vec<_> = permissions.iter().map(String::as_str).collect();

    let fleet = Fleet::start(3);
    let locks = as_user(&fleet, &permissions);
    lock_tests::ready(&locks).await;
    let commands = commands_of_a_cycle(&fleet, &locks).await;
    assert!(commands.contains("set"), "{commands:?}");
    // The text of a script is sent where acquiring is one, and has not been called before.
    assert_eq!(commands.contains("eval"), is_before_7(), "{commands:?}");
    let fenced = locks.lock("k").ttl(TTL).fenced(true).wait(DEADLINE);
    let lease = fenced.acquire().await.expect("free");
    lease.extend().await.expect("renewed");
    assert!(lease.fence() > 0);
    lease.release().await.expect("released");
    for server in fleet.servers() {
        let denied: Vec<Vec<redis::Value>> = server.command(&["ACL", "LOG"]);
        assert!(denied.is_empty(), "{denied:?}");
    }
}

/// The line to copy, as it is, and both sides of waiting.
#[tokio::test]
async fn the_line_of_the_readme_is_enough_to_lock_and_to_wait() {
    let words = lock_tests::acl::line(lock_tests::acl::USER);
    // The harness has such a user for keys without a prefix.
    let fleet = Fleet::of((0..3).map(|_| RedisServer::options().everything_permitted()));
    let mut builder = LockManager::builder().prefix("shop:");
    for server in fleet.servers() {
        let _: String = server.command(&words);
        builder = builder.node(format!("redis://shop:password@{}", server.name()));
    }
    let (holder, waiter) = (builder.clone().build().unwrap(), builder.build().unwrap());
    lock_tests::ready(&holder).await;
    lock_tests::ready(&waiter).await;
    for key in ["k", "{tag}k", "a}b"] {
        let request = |locks: &LockManager| locks.lock(key).ttl(TTL).fenced(true).wait(DEADLINE);
        let held = request(&holder).acquire().await.expect("free");
        let waiting = tokio::spawn(request(&waiter).acquire());
        eventually(DEADLINE, "it listens", || fleet.listened_to() == 1).await;
        held.release().await.expect("released");
        let lease = waiting.await.expect("no panic").expect("its turn");
        lease.release().await.expect("released");
        fleet.assert_nobody_listens().await;
    }
    for server in fleet.servers() {
        let denied: Vec<Vec<redis::Value>> = server.command(&["ACL", "LOG"]);
        assert!(denied.is_empty(), "{denied:?}");
    }
}

/// What a lock is in one database it is not in another of the same server.
#[tokio::test]
async fn a_node_may_be_another_database_of_a_server() {
    let server = RedisServer::start();
    let of = |database: &str| {
        let node = format!("{}{database}", server.url());
        LockManager::builder().node(node).build().unwrap()
    };
    let (first, second) = (of(""), of("/1"));
    lock_tests::ready(&first).await;
    lock_tests::ready(&second).await;
    let there = second.lock("k").ttl(TTL).acquire().await.expect("free");
    assert!(!server.exists("k"), "the harness asks the first");
    let here = first.lock("k").ttl(TTL).acquire().await;
    let here = here.expect("it is another lock");
    let again = of("/1").lock("k").ttl(TTL).wait(TTL / 1000).acquire().await;
    assert!(again.expect_err("held").is_busy());
    here.release().await.expect("released");
    there.release().await.expect("released");
}
