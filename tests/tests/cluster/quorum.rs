//! Clusters as some of several nodes: each of their servers has a vote for its own keys, or has none for a while.

use super::TTL;
use lock_runtime::{LockError, LockManager, LockManagerBuilder};
use lock_tests::fleet::MARKER;
use lock_tests::{
    Cluster, DEADLINE, Disk, RedisServer, cycle, eventually, eventually_async, ready,
};
use std::time::Duration;

/// Longer than a test: who is kept out for so long is kept out.
const MAX_TTL: Duration = Duration::from_secs(3600);

fn builder<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> LockManagerBuilder {
    let builder = LockManager::builder().max_ttl(MAX_TTL);
    let builder = builder.node_timeout(Duration::from_secs(2));
    let urls = clusters.into_iter().map(Cluster::url);
    urls.fold(builder, LockManagerBuilder::node)
}

/// A manager of clusters that have all been voting for a while.
async fn manager(clusters: &[Cluster]) -> LockManager {
    let locks = builder(clusters).build().expect("a good configuration");
    ready(&locks).await;
    locks
}

async fn clusters(primaries: usize, replicas: usize) -> Vec<Cluster> {
    let start = || {
        let options = Cluster::options().primaries(primaries);
        options.replicas(replicas).start()
    };
    futures_util::future::join_all([start(), start(), start()]).await
}

/// Waits until a lock cannot be had, and one node says that it has no vote.
async fn kept_out(locks: &LockManager, key: &str) {
    eventually_async(DEADLINE, "one node is kept out", || async {
        match locks.lock(key).ttl(TTL).acquire().await {
            Err(LockError::NoQuorum { votes, .. }) => {
                let said = format!("{votes:?}");
                if said.contains("Abstains") {
                    Ok(())
                } else {
                    Err(said)
                }
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restarted_has_no_vote_for_its_keys_and_the_others_have() {
    let clusters = clusters(2, 0).await;
    let locks = manager(&clusters).await;
    let keys = clusters[0].key_on_each("k");
    for key in &keys {
        cycle(&locks, key, TTL).await;
    }
    // All that were new remember that they vote, each in a slot of its own.
    let markers = |server: &RedisServer| server.keys(&format!("*{MARKER}*")).len();
    for server in clusters.iter().flat_map(Cluster::servers) {
        eventually(DEADLINE, "it remembers", || markers(server) == 1).await;
    }
    // Who comes later need not wait, and neither need he find all of them.
    clusters[1].servers()[0].kill();
    let later = builder(&clusters).build().expect("a good configuration");
    for key in &keys {
        cycle(&later, key, TTL).await;
    }

    // With data that may be out of date.
    let restarted = &clusters[0].servers()[0];
    restarted.restart(Disk::Keep).await;
    clusters[0].settled().await;
    for locks in [&locks, &later] {
        kept_out(locks, &keys[0]).await;
        cycle(locks, &keys[1], TTL).await;
    }
    clusters[1].servers()[0].restart(Disk::Keep).await;
    clusters[1].settled().await;
    kept_out(&locks, &keys[0]).await;
    cycle(&locks, &keys[1], TTL).await;
}

/// All locks are in one slot, and so is what is remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_with_a_tag_concerns_one_server_of_each() {
    let clusters = clusters(3, 0).await;
    let tagged = || builder(&clusters).prefix("{shop}:");
    let locks = tagged().build().expect("a good configuration");
    ready(&locks).await;
    cycle(&locks, "k", TTL).await;
    for cluster in &clusters {
        let owner = cluster.owner_of("{shop}");
        eventually(DEADLINE, "it remembers", || {
            owner.keys("*") == [format!("{{shop}}:{MARKER}")]
        })
        .await;
        let other = cluster.another("{shop}");
        assert!(other.keys("*").is_empty());
        other.kill();
    }
    // The servers that have none of the keys are not missed.
    for cluster in &clusters {
        cluster.running().for_each(|server| {
            server.set_config("cluster-require-full-coverage", "no");
        });
    }
    ready(&locks).await;
    cycle(&locks, "k", TTL).await;
    let later = tagged().build().expect("a good configuration");
    ready(&later).await;
    cycle(&later, "k", TTL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_has_no_vote_for_a_while() {
    let clusters = clusters(1, 1).await;
    let locks = manager(&clusters).await;
    cycle(&locks, "k", TTL).await;
    let [primary, replica] = clusters[0].servers() else {
        panic!("a primary and its replica");
    };
    primary.kill();
    // There is no other primary that could agree to it.
    replica.command::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    eventually(DEADLINE, "it takes over", || replica.is_primary()).await;
    let lease = locks.lock("k").ttl(TTL).acquire().await;
    let lease = lease.expect("the two others are a majority");
    eventually_async(DEADLINE, "it is told of renewals", || async {
        lease.extend().await.expect("held");
        replica
            .try_command(&["EXISTS", "k"])
            .is_ok_and(|exists: bool| exists)
    })
    .await;
    lease.release().await.expect("held");
    clusters[1].servers().iter().for_each(RedisServer::kill);
    kept_out(&locks, "k").await;
}

/// No connection breaks, and no request goes there meanwhile: what a server has lost as a replica it does not tell unasked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_a_replica_for_a_while_has_no_vote_over_its_old_connection() {
    let clusters = clusters(1, 1).await;
    let locks = manager(&clusters).await;
    cycle(&locks, "k", TTL).await;
    let [primary, replica] = clusters[0].servers() else {
        panic!("a primary and its replica");
    };
    let take_over = async |new: &RedisServer, old: &RedisServer| {
        new.command::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        eventually(DEADLINE, "it takes over", || {
            new.is_primary() && !old.is_primary()
        })
        .await;
    };
    take_over(replica, primary).await;
    take_over(primary, replica).await;
    clusters[1].servers().iter().for_each(RedisServer::kill);
    kept_out(&locks, "k").await;
}
