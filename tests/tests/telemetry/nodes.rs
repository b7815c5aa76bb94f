//! What is measured of nodes.

use crate::measured::{self, counter, gauge, samples};
use lock_runtime::LockManager;
use lock_tests::{Cluster, DEADLINE, Disk, Fleet, Mode, RedisServer, Watched};
use lock_tests::{cycle, eventually, eventually_async, ready};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(8);

fn stands(node: &str) -> (Option<f64>, Option<f64>) {
    let labels = [("node", node)];
    (
        gauge("lock_node_up", &labels),
        gauge("lock_node_votes", &labels),
    )
}

async fn until_stands(node: &str, up: f64, votes: f64) {
    eventually(DEADLINE, "the node stands like this", || {
        let stands = stands(node);
        if stands == (Some(up), Some(votes)) {
            Ok(())
        } else {
            Err(format!("{node}: up and votes are {stands:?}"))
        }
    })
    .await;
}

fn failures(node: &str, kind: &str) -> u64 {
    let failures = counter(
        "lock_node_failures_total",
        &[("node", node), ("kind", kind)],
    );
    failures.expect("it is there, at zero if nothing failed")
}

#[tokio::test]
async fn a_node_is_up_and_votes_until_it_is_killed_and_young_when_it_is_back() {
    measured::install();
    let fleet = Fleet::start(3);
    fleet.found().await;
    let locks = fleet.builder().max_ttl(Duration::from_secs(60)).build();
    let locks = locks.expect("a manager");
    let nodes: Vec<_> = fleet.servers().iter().map(RedisServer::name).collect();
    for node in &nodes {
        assert!(stands(node).0.is_some(), "it is there once the manager is");
    }
    ready(&locks).await;
    for node in &nodes {
        until_stands(node, 1.0, 1.0).await;
    }
    cycle(&locks, "k", TTL).await;
    for node in &nodes {
        eventually(DEADLINE, "an acquire and a release were timed", || {
            samples("lock_node_round_trip_seconds", &[("node", node)]).len() >= 2
        })
        .await;
        let all = samples("lock_node_round_trip_seconds", &[("node", node)]);
        assert!(all.iter().all(|time| (0.0..15.0).contains(time)), "{all:?}");
        for kind in ["timeout", "connection", "refused"] {
            assert_eq!(failures(node, kind), 0, "{node}: {kind}");
        }
    }

    let [killed, ..] = fleet.servers() else {
        panic!("no servers");
    };
    killed.kill();
    until_stands(&nodes[0], 0.0, 0.0).await;
    eventually_async(DEADLINE, "its failures are counted", || async {
        cycle(&locks, "k", TTL).await;
        failures(&nodes[0], "connection") > 0
    })
    .await;
    assert_eq!(failures(&nodes[1], "connection"), 0);

    killed.restart(Disk::Lose).await;
    until_stands(&nodes[0], 1.0, 0.0).await;

    drop(locks);
    for node in &nodes {
        until_stands(node, 0.0, 0.0).await;
    }
}

#[tokio::test]
async fn a_node_that_is_silent_is_not_up_and_its_failures_are_timeouts() {
    measured::install();
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(100))
        .build();
    let locks = locks.expect("a manager");
    ready(&locks).await;
    let silent = &fleet.proxies()[0];
    until_stands(&silent.name(), 1.0, 1.0).await;
    silent.set(Mode::HoldAnswers);
    eventually_async(DEADLINE, "its silence is counted", || async {
        // On a busy machine the others may be late too.
        drop(locks.lock("k").ttl(TTL).acquire().await);
        failures(&silent.name(), "timeout") > 0
    })
    .await;
    until_stands(&silent.name(), 0.0, 0.0).await;
    silent.set(Mode::Pass);
    until_stands(&silent.name(), 1.0, 1.0).await;
}

/// As two services in one process, or a service that builds another one before it drops the first.
#[tokio::test]
async fn a_node_that_another_manager_has_too_stays_up() {
    measured::install();
    let fleet = Fleet::start(1);
    let (first, second) = (fleet.ready_manager().await, fleet.ready_manager().await);
    let node = fleet.servers()[0].name();
    until_stands(&node, 1.0, 1.0).await;
    drop(first);
    // For the first one's last word, and the second one's next. Where that takes longer, less is proven.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    until_stands(&node, 1.0, 1.0).await;
    drop(second);
    until_stands(&node, 0.0, 0.0).await;
}

/// The series of a manager's only node, which is called as in errors.
async fn one_node(url: String, servers: impl Iterator<Item = &RedisServer>) {
    let locks = LockManager::builder().node(url).build().expect("a URL");
    ready(&locks).await;
    let inspection = locks.inspect("k").await.expect("a key");
    let [node] = inspection.nodes() else {
        panic!("{inspection}");
    };
    until_stands(node.node(), 1.0, 1.0).await;
    cycle(&locks, "k", TTL).await;
    let labels = [("node", node.node())];
    assert!(samples("lock_node_round_trip_seconds", &labels).len() >= 2);
    for server in servers {
        server.kill();
    }
    until_stands(node.node(), 0.0, 0.0).await;
    let refused = locks.lock("k").ttl(TTL).acquire().await;
    assert!(refused.expect_err("nobody is there").is_outage());
    eventually(DEADLINE, "that is counted", || {
        failures(node.node(), "connection") > 0
    })
    .await;
}

#[tokio::test]
async fn a_cluster_is_one_node() {
    measured::install();
    let cluster = Cluster::start().await;
    one_node(cluster.url(), cluster.servers().iter()).await;
}

#[tokio::test]
async fn a_group_is_one_node() {
    measured::install();
    let watched = Watched::options().start().await;
    let group = watched.group();
    one_node(watched.url(group), group.servers().iter()).await;
}
