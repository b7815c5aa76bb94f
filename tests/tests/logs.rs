//! What somebody on call reads: the trouble, its end, and what a response does not say.

use axum_core::response::IntoResponse;
use lock_runtime::LockManager;
use lock_tests::logs::{keep, kept};
use lock_tests::{DEADLINE, Disk, Fleet, Proxy, RedisServer, eventually, eventually_async, ready};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3);

/// Whether a line has all of these.
fn says(words: &[&str]) -> Result<(), String> {
    let log = kept();
    let said = |line: &str| words.iter().all(|word| line.contains(word));
    if log.lines().any(said) {
        Ok(())
    } else {
        Err(log)
    }
}

#[tokio::test]
async fn a_node_that_is_back_is_said_to_be_and_whether_it_votes() {
    keep();
    let fleet = Fleet::start(3);
    fleet.found().await;
    let locks = fleet.builder().max_ttl(Duration::from_secs(60)).build();
    let locks = locks.expect("the fleet's nodes are a good configuration");
    ready(&locks).await;
    let [first, second, _] = fleet.servers() else {
        panic!("not three servers");
    };
    eventually(DEADLINE, "it was connected, and is no more", || {
        let _: u64 = first.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        says(&["WARN", &first.name(), "lock node lost"])
    })
    .await;
    eventually(DEADLINE, "the first one is back", || {
        says(&["INFO", &first.name(), "lock node is back"])
    })
    .await;
    second.kill();
    eventually(DEADLINE, "it is said what is wrong", || {
        says(&["WARN", &second.name(), "lock node cannot be used"])
    })
    .await;
    second.restart(Disk::Lose).await;
    eventually(DEADLINE, "the second one is back without a vote", || {
        says(&[
            "WARN",
            &second.name(),
            "is back, and has no vote for another",
        ])
    })
    .await;
}

#[tokio::test]
async fn a_response_says_little_and_the_log_says_what_it_was() {
    keep();
    let locks = LockManager::in_memory();
    let held = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    let busy = locks.lock("k").ttl(TTL).acquire().await;
    let busy = busy.expect_err("held").into_response();
    assert_eq!(busy.status(), http::StatusCode::TOO_MANY_REQUESTS);
    assert!(!kept().contains("ERROR"), "{}", kept());
    held.release().await.expect("released");

    let refused = locks.lock("k").ttl(TTL * 1000).acquire().await;
    let refused = refused.expect_err("too long").into_response();
    assert_eq!(refused.status(), http::StatusCode::SERVICE_UNAVAILABLE);
    says(&["ERROR", "longer than max_ttl"]).expect("it is logged");
}

/// A name that leads to one server and to another, and each is of no use.
#[tokio::test]
async fn trouble_that_comes_and_goes_is_told_once_and_its_end_too() {
    keep();
    let good = RedisServer::start();
    let replica = RedisServer::options().replica_of(&good).start();
    // It does not know the user.
    let locked = RedisServer::options().everything_permitted().start();
    let proxy = Proxy::start(&good);
    let locks = LockManager::builder().node(proxy.url());
    let locks = locks.build().expect("a node");
    ready(&locks).await;
    let cannot = "lock node cannot be used";
    for _ in 0..10 {
        for (server, reason) in [(&replica, "it is a replica"), (&locked, "WRONGPASS")] {
            proxy.lead_to(server.address());
            proxy.reset();
            eventually_async(DEADLINE, reason, || async {
                // It may have been on its way to the server before.
                let said = match locks.lock("k").ttl(TTL).acquire().await {
                    Ok(_) => "granted".to_owned(),
                    Err(error) => error.to_string(),
                };
                if said.contains(reason) {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .await;
        }
    }
    let log = kept();
    for reason in ["it is a replica", "WRONGPASS"] {
        let lines = log.lines();
        let told = |line: &&str| {
            [cannot, &proxy.name(), reason]
                .iter()
                .all(|word| line.contains(word))
        };
        assert_eq!(lines.filter(told).count(), 1, "{log}");
    }
    proxy.lead_to(good.address());
    proxy.reset();
    ready(&locks).await;
    eventually(DEADLINE, "it is back", || {
        says(&["INFO", &proxy.name(), "lock node is back"])
    })
    .await;
}
