//! Where a cluster is found: at any of the servers that are named, whichever of them there are.

use super::TTL;
use lock_runtime::{LockError, LockManager};
use lock_tests::{Cluster, DEADLINE, Disk, RedisServer, cycle, eventually_async, ready};
use std::time::Duration;

const NODE_TIMEOUT: Duration = Duration::from_secs(1);

fn manager(url: &str) -> LockManager {
    let builder = LockManager::builder().node(url).node_timeout(NODE_TIMEOUT);
    builder.build().expect("a good configuration")
}

/// Waits until a lock cannot be had, and the reason has these words.
async fn refused(locks: &LockManager, words: &str) {
    eventually_async(DEADLINE, words, || async {
        let refused = locks.lock("k").ttl(TTL).acquire().await;
        let error = refused.expect_err("there is no such server");
        assert!(error.is_outage(), "{error}");
        let said = error.to_string();
        if said.contains(words) {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_that_is_there_is_enough() {
    let cluster = Cluster::start().await;
    let down = RedisServer::start();
    down.kill();
    let name = cluster.servers()[1].name();
    for url in [
        format!("redis+cluster://{},{name}", down.name()),
        format!("redis+cluster://{name},{}", down.name()),
        format!("redis+cluster://{name}"),
    ] {
        let locks = manager(&url);
        for key in cluster.key_on_each("k") {
            cycle(&locks, &key, TTL).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_down_at_first_are_found_when_they_are_up() {
    let cluster = Cluster::start().await;
    cluster.servers().iter().for_each(RedisServer::kill);
    let locks = manager(&cluster.url());
    refused(&locks, "no connection").await;
    assert!(!locks.ready().await);
    let waiting = locks.lock("k").ttl(TTL).wait(TTL).acquire();
    let waiting = tokio::spawn(waiting);
    for server in cluster.servers() {
        server.restart(Disk::Keep).await;
    }
    cluster.settled().await;
    let lease = waiting.await.expect("no panic").expect("they are up");
    lease.release().await.expect("held");
    ready(&locks).await;
}

/// The only server that was named dies, and the only one that is left was a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_is_found_without_its_name() {
    let options = Cluster::options().primaries(3).replicas(1);
    let cluster = options.node_timeout(NODE_TIMEOUT).start().await;
    let key = &cluster.key_on_each("k")[0];
    let slot = cluster.slot(key);
    let named = cluster.owner(slot);
    let locks = manager(&format!("redis+cluster://{}", named.name()));
    cycle(&locks, key, TTL).await;
    named.kill();
    cluster.failed_over(slot, named).await;
    eventually_async(DEADLINE, "it is followed", || async {
        locks
            .lock(&**key)
            .ttl(TTL)
            .acquire()
            .await?
            .release()
            .await
            .expect("held");
        Ok::<_, LockError>(())
    })
    .await;
}

/// All that are known die, and come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_restarted_is_found_again() {
    let cluster = Cluster::start().await;
    let locks = cluster.manager().await;
    for _ in 0..2 {
        cluster.servers().iter().for_each(RedisServer::kill);
        for server in cluster.servers() {
            server.restart(Disk::Keep).await;
        }
        cluster.settled().await;
        for key in cluster.key_on_each("k") {
            cycle(&locks, &key, TTL).await;
        }
    }
}

/// A server that has met no other does not know by which name it is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_one_server_is_where_it_was_found() {
    let cluster = Cluster::options().primaries(1).start().await;
    let locks = cluster.manager().await;
    cycle(&locks, "k", TTL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_nowhere_is_named() {
    let options = Cluster::options().primaries(1);
    // Nothing listens there on these ports.
    let options = options.server(|server| server.argument("--cluster-announce-ip", "127.0.0.2"));
    let cluster = options.start().await;
    let locks = manager(&cluster.url());
    let port = cluster.servers()[0].port();
    refused(
        &locks,
        &format!("127.0.0.2:{port}, as the cluster announces it: no connection"),
    )
    .await;
    assert!(!locks.ready().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_asked_for_and_not_shown() {
    let options = Cluster::options().primaries(1);
    let cluster = options
        .server(|server| server.password("s3cret"))
        .start()
        .await;
    cycle(&cluster.manager().await, "k", TTL).await;
    let name = cluster.servers()[0].name();
    let without = manager(&format!("redis+cluster://{name}"));
    refused(&without, "NOAUTH").await;
    let wrong = manager(&format!("redis+cluster://:hunter2@{name}"));
    refused(&wrong, "WRONGPASS").await;
    let said = wrong
        .lock("k")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("refused");
    assert!(!said.to_string().contains("hunter2"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_nobody_has_are_an_outage() {
    let cluster = Cluster::start().await;
    let locks = cluster.manager().await;
    let slot = cluster.slot("k");
    let other = cluster.another("k");
    let number = slot.to_string();
    for server in cluster.servers() {
        server.set_config("cluster-require-full-coverage", "no");
        server.command::<()>(&["CLUSTER", "DELSLOTS", &number]);
    }
    refused(&locks, "CLUSTERDOWN").await;
    other.command::<()>(&["CLUSTER", "ADDSLOTS", &number]);
    cluster.settled().await;
    cycle(&locks, "k", TTL).await;
}
