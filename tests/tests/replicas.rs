//! `replicas = k`: a lock counts once k replicas have it, and what too few have is given back.

use lock_runtime::{LockError, LockManager, LockManagerBuilder, NodeSpec};
use lock_tests::{DEADLINE, Disk, Fleet, RedisServer, cycle, eventually, eventually_async, ready};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(60);

/// How many acquire at once.
const CROWD: usize = 2_000;

const PATIENCE: Duration = Duration::from_secs(1);

/// A primary, and replicas that have all it has.
async fn group(replicas: usize) -> (RedisServer, Vec<RedisServer>) {
    let options = || RedisServer::options().argument("--repl-diskless-sync-delay", "0");
    let primary = options().start();
    let replicas = RedisServer::start_all((0..replicas).map(|_| options().replica_of(&primary)));
    for replica in &replicas {
        replica.follows(&primary).await;
    }
    // One that follows is sent what is written only when it has said once how far it is.
    let all = replicas.len().to_string();
    eventually(DEADLINE, "the replicas have what is written", || {
        let _: String = primary.command(&["SET", "first", "", "PX", "60000"]);
        primary.command::<usize>(&["WAIT", &all, "100"]) == replicas.len()
    })
    .await;
    let _: u64 = primary.command(&["DEL", "first"]);
    (primary, replicas)
}

fn builder(node: NodeSpec) -> LockManagerBuilder {
    LockManager::builder().node_timeout(PATIENCE).node(node)
}

async fn manager(primary: &RedisServer, replicas: usize) -> LockManager {
    let node = NodeSpec::from(primary.url()).replicas(replicas);
    let locks = builder(node).build().expect("a good configuration");
    ready(&locks).await;
    locks
}

async fn refused(locks: &LockManager, key: &str, fenced: bool) -> LockError {
    let request = locks.lock(key).ttl(TTL).fenced(fenced);
    request.acquire().await.expect_err("too few replicas")
}

#[tokio::test]
async fn a_lock_that_is_granted_is_on_the_replicas() {
    let (primary, replicas) = group(2).await;
    let locks = manager(&primary, 2).await;
    for round in 0..200 {
        let key = format!("k:{round}");
        let fenced = round % 2 == 0;
        let request = locks.lock(&*key).ttl(TTL).fenced(fenced);
        let lease = request.acquire().await.expect("free");
        for replica in &replicas {
            assert_eq!(replica.get(&key), primary.get(&key));
            let fence = format!("{{{key}}}:fence");
            assert_eq!(
                replica.get(&fence),
                fenced.then(|| lease.fence().to_string())
            );
        }
        lease.extend().await.expect("renewed");
        lease.release().await.expect("released");
    }
}

#[tokio::test]
async fn what_too_few_replicas_have_is_not_granted_and_given_back() {
    let (primary, replicas) = group(2).await;
    let locks = manager(&primary, 2).await;
    cycle(&locks, "before", TTL).await;
    replicas[1].pause();
    for fenced in [false, true] {
        let error = refused(&locks, "k", fenced).await;
        assert!(error.is_outage() && !error.is_busy(), "{error}");
        let words = error.to_string();
        assert!(words.contains("2 replicas asked for, 1 has it"), "{words}");
        eventually(DEADLINE, "it is given back", || !primary.exists("k")).await;
    }
    // One is enough for others.
    let one = manager(&primary, 1).await;
    cycle(&one, "one", TTL).await;

    replicas[1].resume();
    eventually_async(DEADLINE, "locks are granted again", || async {
        let lease = locks.lock("k").ttl(TTL).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        lease.release().await.map_err(|error| error.to_string())
    })
    .await;
    eventually(DEADLINE, "nothing is left", || {
        primary.keys("*") == ["{k}:fence"]
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_on_the_replicas_is_lost_when_its_time_is_over() {
    let (primary, replicas) = group(1).await;
    let locks = manager(&primary, 1).await;
    let ttl = Duration::from_secs(4);
    let begun = Instant::now();
    let lease = locks.lock("k").ttl(ttl).acquire().await.expect("free");
    replicas[0].pause();
    let words = lease.extend().await.expect_err("no replica").to_string();
    assert!(words.contains("1 replica asked for, 0 have it"), "{words}");
    assert!(!lease.is_lost(), "it has it for as long as it was told");
    lease.lost().await;
    assert!(begun.elapsed() > ttl / 2, "{:?}", begun.elapsed());
    replicas[0].resume();
    drop(lease);
    eventually(DEADLINE, "nothing is left", || primary.keys("*").is_empty()).await;

    let lease = locks.lock("k").ttl(ttl).wait(DEADLINE).acquire().await;
    let lease = lease.expect("the replica is back");
    replicas[0].pause();
    lease.extend().await.expect_err("no replica");
    replicas[0].resume();
    eventually_async(DEADLINE, "it is renewed", || async {
        lease.extend().await.map_err(|error| error.to_string())
    })
    .await;
    tokio::time::timeout(ttl, lease.lost())
        .await
        .expect_err("it is renewed");
    lease.release().await.expect("released");
}

/// Many who acquire at once share the waiting, and those who do not ask for replicas wait for none.
#[tokio::test]
async fn waiting_is_shared_and_nobody_else_pays() {
    let (primary, _replicas) = group(1).await;
    let (with, without) = (manager(&primary, 1).await, manager(&primary, 0).await);
    let calls = |name: &str| primary.command_stats().get(name).copied().unwrap_or(0);
    primary.reset_command_stats();
    for round in 0..100 {
        cycle(&without, &format!("k:{round}"), TTL).await;
    }
    assert_eq!(calls("wait"), 0);

    let cycles = (0..CROWD).map(|round| {
        let with = with.clone();
        async move { cycle(&with, &format!("k:{round}"), TTL).await }
    });
    futures_util::future::join_all(cycles).await;
    let (acquired, waited) = (calls("set"), calls("wait"));
    assert!(acquired >= CROWD as u64);
    assert!(
        (1..=acquired / 4).contains(&waited),
        "{waited} for {acquired}"
    );
}

#[tokio::test]
async fn of_several_nodes_those_with_too_few_replicas_give_no_vote() {
    let fleet = Fleet::start(2);
    let (primary, _replicas) = group(1).await;
    let with = |replicas| {
        let node = NodeSpec::from(primary.url()).replicas(replicas);
        let urls = fleet.urls().into_iter();
        urls.fold(builder(node), LockManagerBuilder::node)
            .build()
            .expect("a good configuration")
    };
    let (enough, too_few) = (with(1), with(2));
    ready(&enough).await;
    cycle(&enough, "k", TTL).await;
    cycle(&too_few, "k", TTL).await;
    fleet.servers()[0].kill();
    cycle(&enough, "k", TTL).await;
    let words = refused(&too_few, "k", false).await.to_string();
    assert!(words.contains("2 replicas asked for, 1 has it"), "{words}");
    eventually(DEADLINE, "it is given back", || {
        !primary.exists("k") && fleet.nodes_with("k") == 0
    })
    .await;
    cycle(&enough, "k", TTL).await;
}

#[tokio::test]
async fn a_user_who_may_not_wait_for_replicas_is_refused_when_connecting() {
    let primary = RedisServer::options().user("locks", "secret").start();
    let _: () = primary.command(&["ACL", "SETUSER", "locks", "-wait"]);
    let url = format!("redis://locks:secret@{}", primary.name());
    let locks = |replicas| {
        let node = NodeSpec::from(&url).replicas(replicas);
        builder(node).build().expect("a good configuration")
    };
    cycle(&locks(0), "k", TTL).await;
    let words = eventually_async(DEADLINE, "it is known why", || async {
        let words = refused(&locks(1), "k", false).await.to_string();
        (!words.contains("not connected yet")).then_some(words)
    })
    .await;
    assert!(
        words.contains("NOPERM") && words.contains("wait"),
        "{words}"
    );
    assert!(!primary.exists("k"));
}

/// The last try of a wait follows at once on the one before it, and must not find what that one has not given back yet.
#[tokio::test]
async fn whoever_waits_for_a_lock_that_cannot_be_had_is_told_of_an_outage_and_not_of_himself() {
    let primary = RedisServer::start();
    let node = NodeSpec::from(primary.url()).replicas(1);
    // A try takes a third of it, so the wait is over in the middle of the first.
    let patience = Duration::from_millis(300);
    let builder = LockManager::builder().node(node).node_timeout(patience);
    let locks = builder.build().unwrap();
    for round in 0..20 {
        let request = locks.lock("k").ttl(TTL).wait(patience / 10);
        let error = request.acquire().await.expect_err("there is no replica");
        assert!(error.is_outage() && !error.is_busy(), "{round}: {error}");
    }
}

#[tokio::test]
async fn without_enough_replicas_a_manager_is_not_ready() {
    let (primary, replicas) = group(1).await;
    let locks = manager(&primary, 1).await;
    replicas[0].kill();
    eventually_async(DEADLINE, "nobody could have a lock", || async {
        !locks.ready().await
    })
    .await;
    replicas[0].restart(Disk::Lose).await;
    ready(&locks).await;
}
