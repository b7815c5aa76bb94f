//! Several servers, and the assertions over all of them.

use crate::client::Client;
use crate::{SILENCE, block_on, failure};
use lock_tests::{Fleet, Proxy, RedisServer};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn a_fleet_has_nodes_of_its_own_and_finds_their_keys() {
    let fleet = Fleet::start(5);
    let ports: BTreeSet<u16> = fleet.servers().iter().map(RedisServer::port).collect();
    assert_eq!(ports.len(), 5);
    assert_eq!(
        fleet.lock_nodes().split(',').collect::<Vec<_>>(),
        fleet.urls()
    );

    for server in &fleet.servers()[..2] {
        server.command::<()>(&["SET", "job", "me", "PX", "60000"]);
    }
    fleet.servers()[1].kill();
    assert_eq!(fleet.nodes_with("job"), 1);
    fleet.assert_no_key_without_ttl();
    let message = failure(|| block_on(fleet.assert_no_keys_within(SILENCE, "j*")));
    assert!(
        message.contains("job = me, ") && message.contains(&fleet.servers()[0].name()),
        "{message}"
    );

    fleet.servers()[4].command::<()>(&["HSET", "fence", "a", "1"]);
    let message = failure(|| fleet.assert_no_key_without_ttl());
    assert!(message.contains("fence = hash, -1 ms"), "{message}");

    fleet.servers()[0].command::<()>(&["PEXPIRE", "job", "100"]);
    block_on(fleet.assert_no_keys("job"));
}

#[test]
fn a_fleet_behind_proxies_is_reached_through_them() {
    let fleet = Fleet::start(2).behind_proxies();
    let urls: Vec<String> = fleet.proxies().iter().map(Proxy::url).collect();
    assert_eq!(fleet.urls(), urls);
    assert_eq!(
        Client::to(&fleet.proxies()[1])
            .ask(&["SET", "a", "1"])
            .expect("an answer"),
        "+OK"
    );
    assert_eq!(fleet.values("a"), [None, Some("1".to_owned())]);
}

#[tokio::test]
async fn a_manager_of_a_fleet_locks_on_its_nodes() {
    let fleet = Fleet::start(3).behind_proxies();
    let manager = fleet.manager();
    let request = manager.lock("job").ttl(Duration::from_secs(5));
    let lease = request.acquire().await.expect("nobody else is there");
    assert!(fleet.nodes_with("job") >= 2);
    fleet.assert_no_key_without_ttl();
    lease.release().await.expect("it is still ours");
    fleet.assert_no_keys("*").await;
}
