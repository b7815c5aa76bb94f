//! A primary dies, or falls silent, and one of its replicas takes its place: locks live on, and those who wait get them.

use super::TTL;
use lock_runtime::{LockError, LockManager, NodeSpec};
use lock_tests::{Cluster, DEADLINE, Disk, RedisServer, eventually, eventually_async, ready};
use std::time::Duration;
use tokio::time::timeout;

/// After how long a server that is silent has failed.
const SILENCE: Duration = Duration::from_secs(1);

/// In which a failover is over, on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

async fn replicated() -> Cluster {
    Cluster::options()
        .replicas(1)
        .node_timeout(SILENCE)
        .start()
        .await
}

/// Waits until the replicas have a key, or rather a second server has it.
async fn on_a_replica(cluster: &Cluster, key: &str) {
    eventually(DEADLINE, "a replica has it", || {
        let having = cluster.running().filter(|server| {
            let keys = server.keys("*");
            keys.iter().any(|known| known == key)
        });
        having.count() == 2
    })
    .await;
}

#[derive(Clone, Copy, Debug)]
enum End {
    Dies,
    FallsSilent,
}

/// What is held stays held, and is given back where it is then.
async fn a_held_lock_survives(end: End) {
    let cluster = replicated().await;
    let (locks, rival) = (cluster.manager().await, cluster.manager().await);
    let lease = locks.lock("k").ttl(TTL).fenced(true).acquire().await;
    let lease = lease.expect("free");
    on_a_replica(&cluster, "k").await;
    on_a_replica(&cluster, "{k}:fence").await;
    let slot = cluster.slot("k");
    let old = cluster.owner(slot);
    match end {
        End::Dies => old.kill(),
        End::FallsSilent => old.pause(),
    }
    cluster.failed_over(slot, old).await;

    eventually_async(LONG, "it is renewed", || lease.extend()).await;
    eventually_async(LONG, "it is held for everybody else", || async {
        let busy = rival.lock("k").ttl(TTL).acquire().await;
        let error = busy.expect_err("it is held");
        if error.is_busy() { Ok(()) } else { Err(error) }
    })
    .await;
    assert!(!lease.is_lost());
    let first = lease.fence();
    lease.release().await.expect("held");
    let next = rival.lock("k").ttl(TTL).fenced(true).acquire().await;
    let next = next.expect("free");
    assert!(next.fence() > first, "{} after {first}", next.fence());

    // It comes back as a replica, and is asked nothing.
    match end {
        End::Dies => old.restart(Disk::Keep).await,
        End::FallsSilent => old.resume(),
    }
    eventually(LONG, "the old one is a replica", || !old.is_primary()).await;
    cluster.settled().await;
    next.extend().await.expect("held");
    next.release().await.expect("held");
    cluster.assert_no_keys("k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_survives_the_death_of_its_server() {
    a_held_lock_survives(End::Dies).await;
}

/// No connection breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_survives_the_silence_of_its_server() {
    a_held_lock_survives(End::FallsSilent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_gets_the_lock_from_the_new_server() {
    let cluster = replicated().await;
    let (holder, waiter) = (cluster.manager().await, cluster.manager().await);
    let slot = cluster.slot("k");
    let old = cluster.owner(slot);
    let held = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    on_a_replica(&cluster, "k").await;
    let waiting = tokio::spawn(waiter.lock("k").ttl(TTL).wait(LONG * 2).acquire());
    eventually(DEADLINE, "it listens", || cluster.listened_to() == 1).await;
    old.kill();
    cluster.failed_over(slot, old).await;
    let new = cluster.owner(slot);
    eventually(LONG, "it listens to the new server", || {
        let channels: Vec<String> = new.command(&["PUBSUB", "CHANNELS", "*"]);
        channels == ["{k}:released"]
    })
    .await;
    held.release().await.expect("held");
    let lease = timeout(DEADLINE, waiting).await.expect("woken");
    let lease = lease.expect("no panic").expect("released");
    lease.release().await.expect("held");
    cluster.assert_nobody_listens().await;
    cluster.assert_no_keys("k").await;
}

/// A lock that no replica has is none, and is given back; and what is granted is on the replica when the primary dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replicas_whatever_was_granted_is_on_the_promoted_replica() {
    let cluster = replicated().await;
    let node = || NodeSpec::from(cluster.url()).replicas(1);
    let builder = || {
        LockManager::builder()
            .node(node())
            .node_timeout(SILENCE * 3)
    };
    let (locks, rival) = (
        builder().build().expect("a good configuration"),
        builder().build().expect("a good configuration"),
    );
    ready(&locks).await;
    let slot = cluster.slot("k");
    let old = cluster.owner(slot);
    let all = cluster.servers()[3..].iter();
    let replicas: Vec<_> = all.filter(|server| !server.owns(slot)).collect();
    for server in &replicas {
        server.pause();
    }
    let refused = locks.lock("k").ttl(TTL).acquire().await;
    let error = refused.expect_err("its replica does not have it");
    assert!(error.is_outage(), "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
    for server in &replicas {
        server.resume();
    }
    cluster.settled().await;

    let lease = locks.lock("k").ttl(TTL).wait(LONG).acquire().await;
    let lease = lease.expect("its replica has it");
    old.kill();
    cluster.failed_over(slot, old).await;
    let new = cluster.owner(slot);
    assert!(new.exists("k"), "it was granted");
    let busy = rival.lock("k").ttl(TTL).acquire().await;
    let error = busy.expect_err("it is held");
    // There is no replica any more, and so no new lock; but nobody has taken it.
    assert!(error.is_busy(), "{error}");
    lease.release().await.expect("held");
    cluster.assert_no_keys("k").await;
}

/// A connection to a server that has gone is not kept up, and none is made twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_connection_to_each_primary_after_a_failover() {
    let cluster = replicated().await;
    let clients = || {
        let ours = |server: &RedisServer| {
            let list: String = server.command(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
            // Without the one that asks.
            list.lines().count() - 1
        };
        cluster
            .running()
            .map(|server| (server.is_primary(), ours(server)))
            .collect::<Vec<_>>()
    };
    let locks = cluster.manager().await;
    let old = cluster.owner_of("k");
    let slot = cluster.slot("k");
    old.kill();
    cluster.failed_over(slot, old).await;
    old.restart(Disk::Keep).await;
    cluster.settled().await;
    eventually(LONG, "one to each primary, and none to a replica", || {
        let clients = clients();
        let is_good = clients
            .iter()
            .all(|(primary, count)| *count == usize::from(*primary));
        if is_good {
            Ok(())
        } else {
            Err(format!("{clients:?}"))
        }
    })
    .await;
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    lease.release().await.expect("held");
}

/// Where the servers are told to go on without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_one_of_its_servers_a_cluster_has_the_other_keys() {
    let options = Cluster::options().node_timeout(SILENCE);
    let options = options.server(|server| server.argument("--cluster-require-full-coverage", "no"));
    let cluster = options.start().await;
    let locks = cluster.manager().await;
    let keys = cluster.key_on_each("k");
    let take = async |locks: &LockManager, key: &str| {
        let lease = locks.lock(key).ttl(TTL).acquire().await?;
        lease.release().await.expect("held");
        Ok::<_, LockError>(())
    };
    cluster.servers()[0].kill();
    for (index, key) in keys.iter().enumerate() {
        match take(&locks, key).await {
            Ok(()) => assert_ne!(index, 0, "its server is down"),
            Err(error) => assert!(index == 0 && error.is_outage(), "{key}: {error}"),
        }
    }
    // Two thirds of the slots.
    eventually_async(DEADLINE, "most locks can be had", || locks.ready()).await;
    let all = locks.lock_all(&keys).ttl(TTL).acquire().await;
    let error = all.expect_err("one of them cannot be had");
    assert!(error.is_outage(), "{error}");
    // Each has a last try right after its first, which must not find the others as the first had them.
    for round in 0..2 {
        let all = locks
            .lock_all(&keys)
            .ttl(TTL)
            .wait(Duration::from_millis(1));
        let error = all.acquire().await.expect_err("the same");
        assert!(error.is_outage() && !error.is_busy(), "{round}: {error}");
    }
    for key in &keys[1..] {
        eventually_async(DEADLINE, "none of the others is kept", || take(&locks, key)).await;
    }
    cluster.servers()[1].kill();
    eventually_async(DEADLINE, "most locks cannot be had", || async {
        !locks.ready().await
    })
    .await;
    for server in &cluster.servers()[..2] {
        server.restart(Disk::Keep).await;
    }
    cluster.settled().await;
    for key in &keys {
        eventually_async(DEADLINE, "all can be had again", || take(&locks, key)).await;
    }
    assert!(locks.ready().await);
}
