//! Nodes that are not independent servers: what would have two votes, or change its mind, has no vote.

use lock_runtime::{LockError, LockManager, LockManagerBuilder, Vote};
use lock_tests::{DEADLINE, Fleet, Mode, Proxy, RedisServer, cycle, eventually_async, ready};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);

/// Servers that were started a moment ago are soon older than the longest lease.
const SHORT: Duration = Duration::from_secs(1);

/// How long a node may take here, and with it how long a server is kept from another node.
const PATIENCE: Duration = Duration::from_millis(100);

fn manager(urls: impl IntoIterator<Item = String>) -> LockManager {
    let builder = LockManager::builder().node_timeout(PATIENCE);
    let builder = urls.into_iter().fold(builder, LockManagerBuilder::node);
    builder.build().expect("these are nodes")
}

/// What the node says why it has no vote.
fn why(error: &LockError, node: &str) -> String {
    let vote = error.votes().iter().find(|vote| vote.node() == node);
    match vote.map(lock_runtime::NodeVote::vote) {
        Some(Vote::Failed(reason)) => reason.to_string(),
        other => panic!("{node}: {other:?} in {error}"),
    }
}

async fn refused(locks: &LockManager, ttl: Duration) -> LockError {
    let error = locks.lock("k").ttl(ttl).acquire().await;
    let error = error.expect_err("there is no quorum");
    assert!(error.is_outage(), "{error}");
    error
}

fn replicate(replica: &RedisServer, primary: &RedisServer) {
    let port = primary.port().to_string();
    replica.command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
}

/// Also one that takes writes.
#[tokio::test]
async fn a_replica_is_refused_and_used_once_it_is_a_primary() {
    let fleet = Fleet::start(2);
    let [primary, replica] = fleet.servers() else {
        unreachable!("two servers")
    };
    replicate(replica, primary);
    replica.set_config("replica-read-only", "no");
    let locks = manager([replica.url()]);
    let says = format!(
        "it is a replica of {}: a node has to be a primary",
        primary.name()
    );
    assert_eq!(why(&refused(&locks, TTL).await, &replica.name()), says);
    assert!(!replica.exists("k"));

    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    ready(&locks).await;
    cycle(&locks, "k", TTL).await;
}

/// Three nodes of which one replicates another: two votes, and both are needed.
#[tokio::test]
async fn of_two_nodes_that_replicate_one_another_the_replica_has_no_vote() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let servers = fleet.servers();
    replicate(&servers[1], &servers[0]);
    let locks = manager(fleet.urls());
    ready(&locks).await;
    cycle(&locks, "before", TTL).await;
    servers[2].kill();
    let error = eventually_async(DEADLINE, "the third is missed", || async {
        locks.lock("k").ttl(TTL).acquire().await.err()
    })
    .await;
    let reason = why(&error, &servers[1].name());
    assert!(reason.contains("it is a replica of"), "{reason}");
}

/// By two names, by an address and a socket, and each node with several connections.
#[tokio::test]
async fn a_server_behind_two_nodes_has_one_vote() {
    let directory = tempfile::TempDir::with_prefix("lock-tests-").expect("a directory");
    let socket = directory.path().join("s").display().to_string();
    for connections in [1, 3] {
        let options = || RedisServer::options().argument("--unixsocket", &socket);
        let twice = options().start();
        let once = RedisServer::start();
        for second in [
            format!("redis://localhost:{}", twice.port()),
            format!("redis+unix://{socket}"),
        ] {
            let locks = LockManager::builder()
                .node(twice.url())
                .node(second)
                .node(once.url())
                .node_timeout(PATIENCE)
                .connections_per_node(connections)
                .max_ttl(SHORT)
                .build()
                .expect("these are nodes");
            ready(&locks).await;
            let lease = locks.lock("k").ttl(SHORT).wait(DEADLINE);
            let lease = lease.acquire().await.expect("two of three");
            assert!(twice.exists("k") && once.exists("k"), "both are needed");
            lease.release().await.expect("both answer");
            once.pause();
            let error = refused(&locks, SHORT).await;
            let votes = error.votes().iter();
            let refused =
                votes.filter(|vote| vote.to_string().contains("its vote would count twice"));
            assert_eq!(refused.count(), 1, "{error}");
            once.resume();
        }
    }
}

/// Two names that lead to one server, until one of them is led elsewhere, as by DNS or a failover.
#[tokio::test]
async fn the_node_that_was_refused_is_used_once_the_other_has_left_the_server() {
    let [server, third, other] = [(), (), ()].map(|()| RedisServer::start());
    let [first, second] = [Proxy::start(&server), Proxy::start(&server)];
    second.set(Mode::Refuse);
    let locks = LockManager::builder()
        .node(first.url())
        .node(second.url())
        .node(other.url())
        .node_timeout(PATIENCE)
        .max_ttl(SHORT)
        .build()
        .expect("these are nodes");
    ready(&locks).await;
    second.set(Mode::Pass);

    other.pause();
    let says = format!(
        "it is the server of node {} too: its vote would count twice",
        first.name()
    );
    eventually_async(DEADLINE, "the second is refused", || async {
        let reason = why(&refused(&locks, SHORT).await, &second.name());
        if reason == says { Ok(()) } else { Err(reason) }
    })
    .await;

    first.lead_to(third.address());
    let lease = locks.lock("k").ttl(SHORT).wait(DEADLINE).acquire().await;
    let lease = lease.expect("two of three");
    assert!(server.exists("k") && third.exists("k"));
    lease.release().await.expect("both answer");
}
