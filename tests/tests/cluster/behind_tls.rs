//! A cluster whose servers are reached over TLS, by one another too.

use super::TTL;
use lock_runtime::{LockManager, NodeSpec, Tls};
use lock_tests::cluster::Step;
use lock_tests::{Authority, Cluster, DEADLINE, cycle, eventually_async};
use std::time::Duration;

/// To a server that had no slots before: it is heard of from those who send there, and asked over TLS too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_over_tls() {
    let certificate = Authority::default().certificate();
    let setting = Cluster::options().primaries(2).without_slots(1);
    let setting = setting.server(|server| server.behind_tls(&certificate));
    let cluster = setting.start().await;
    assert!(cluster.url().starts_with("rediss+cluster://"));
    let (locks, rival) = (cluster.manager().await, cluster.manager().await);
    for key in cluster.key_on_each("k") {
        cycle(&locks, &key, TTL).await;
    }

    let slot = cluster.slot("k");
    let (from, to) = (cluster.owner(slot), &cluster.servers()[2]);
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    cluster
        .reshard(slot, from, to, async |step: Step| {
            let renewed = lease.extend().await;
            renewed.unwrap_or_else(|error| panic!("{step:?}: {error}"));
            let busy = rival.lock("k").ttl(TTL).acquire().await;
            let error = busy.expect_err("it is held");
            assert!(error.is_busy(), "{step:?}: {error}");
        })
        .await;
    assert!(to.exists("k"));
    lease.release().await.expect("released where it is");
    cycle(&rival, "k", TTL).await;
    cluster.assert_no_keys("k*").await;
}

#[tokio::test]
async fn its_servers_have_to_be_trusted() {
    let certificate = Authority::default().certificate();
    let setting = Cluster::options().server(|server| server.behind_tls(&certificate));
    let cluster = setting.start().await;
    let url = cluster.url();
    let (url, _) = url.split_once('?').expect("options");
    let another = Tls::new().ca_pem(Authority::new("another").pem());
    let locks = LockManager::builder().node(NodeSpec::from(url).tls(another));
    let locks = locks.node_timeout(Duration::from_secs(1)).build().unwrap();
    let words = "is of an authority that is not trusted";
    eventually_async(DEADLINE, words, || async {
        let error = locks.lock("k").ttl(TTL).acquire().await;
        let said = error.expect_err("not trusted").to_string();
        if said.contains(words) {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
}
