//! Connections: found dead before a request needs them, made anew, and never a queue that is taken for silence.

use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Disk, Fleet, Mode, RedisServer, cycle, eventually, ready};
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(60);

/// In use again soon after it answers: the upper bound of the pauses between tries is 100 ms.
#[tokio::test]
async fn a_restarted_node_is_used_again() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    cycle(&locks, "before", TTL).await;
    for _ in 0..3 {
        fleet.servers()[0].kill();
        let error = locks
            .lock("k")
            .ttl(TTL)
            .acquire()
            .await
            .expect_err("it is down");
        assert!(error.is_outage(), "{error}");
        fleet.servers()[0].restart(Disk::Lose).await;
        let lease = locks
            .lock("k")
            .ttl(TTL)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("it is back");
        lease.release().await.expect("released");
    }
}

/// What a router does that has forgotten an idle connection: nothing passes, and nobody is told. A job that runs once an
/// hour must not be what finds out.
#[tokio::test]
async fn an_idle_connection_that_was_forgotten_is_found_without_a_request() {
    let fleet = Fleet::start(3).behind_proxies();
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    cycle(&locks, "before", TTL).await;
    let connections = || fleet.proxies().iter().map(lock_tests::Proxy::connections);
    let before: Vec<_> = connections().collect();
    for proxy in fleet.proxies() {
        proxy.set(Mode::Blackhole);
    }
    eventually(DEADLINE, "all are given up and tried anew", || {
        connections()
            .zip(&before)
            .all(|(now, before)| now > *before)
    })
    .await;
}

/// What is said before a server is known is kept until it can be understood, so there has to be an end to it.
#[tokio::test]
async fn a_stranger_that_does_not_stop_talking_is_hung_up_on() {
    const MUCH: usize = 1 << 26;
    for (begins, goes_on) in [
        ("+", "a"),
        ("$536870912\r\n", "a"),
        ("*2147483647\r\n", ":1\r\n"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("it is bound");
        let talking = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("the manager connects");
            let text = goes_on.repeat(1 << 16);
            let mut said = client.write(begins.as_bytes()).unwrap_or(0);
            while said < MUCH
                && let Ok(more) = client.write(text.as_bytes())
            {
                said += more;
            }
            said
        });
        let locks = LockManager::builder().node(format!("redis://{address}"));
        // Much longer than it takes to say so much.
        let locks = locks.node_timeout(Duration::from_secs(10)).build().unwrap();
        let error = locks.lock("k").ttl(TTL).acquire().await;
        let error = error.expect_err("not Redis").to_string();
        assert!(error.contains("what answers there is not Redis"), "{error}");
        let said = talking.join().expect("no panic");
        assert!(said < MUCH, "{begins:?}: {said} bytes were read");
    }
}

/// Whatever else it may: what it takes it could not release.
#[tokio::test]
async fn a_user_who_may_load_scripts_and_not_call_them_is_refused() {
    let server = RedisServer::options().user("locks", "pw").start();
    server.command::<()>(&["ACL", "SETUSER", "locks", "-evalsha"]);
    let url = format!("redis://locks:pw@{}", server.name());
    let locks = LockManager::builder()
        .node(url)
        .node_timeout(Duration::from_secs(1));
    let locks = locks.build().unwrap();
    let error = locks.lock("k").ttl(TTL).acquire().await;
    let error = error.expect_err("it could not be released").to_string();
    assert!(error.contains("NOPERM"), "{error}");
    assert!(error.contains("evalsha"), "{error}");
    assert!(!server.exists("k"));
}

/// A node that is known to be silent is not sent more and more requests.
#[tokio::test]
async fn a_silent_node_is_not_asked_again_and_again() {
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(100))
        .build()
        .unwrap();
    cycle(&locks, "before", TTL).await;
    fleet.proxies()[0].set(Mode::HoldAnswers);
    let silent = &fleet.servers()[0];
    cycle(&locks, "noticed", TTL).await;
    eventually(DEADLINE, "its silence is noticed", || {
        silent.keys("noticed").is_empty()
    })
    .await;
    silent.reset_command_stats();
    for round in 0..200 {
        cycle(&locks, &format!("k{round}"), TTL).await;
    }
    let asked = silent.command_stats().get("set").copied().unwrap_or(0);
    assert!(asked < 100, "it was asked {asked} times for 200 locks");
}

/// Thousands of calls at once wait for their turn here, and the time is not held against the nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_a_queue_and_no_outage() {
    const CALLS: usize = 4_000;
    let fleet = Fleet::start(5);
    fleet.found().await;
    // Less than all of them take together, and much more than those that are under way at a time.
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(400))
        .build()
        .unwrap();
    ready(&locks).await;
    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let locks = locks.clone();
        calls.spawn(async move {
            let lease = locks.lock(format!("k{call}")).ttl(TTL).acquire().await?;
            drop(lease);
            Ok::<_, lock_runtime::LockError>(())
        });
    }
    for outcome in calls.join_all().await {
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(locks.stats().no_quorum, 0);
    fleet.assert_no_keys("*").await;
}

/// Settling a split vote has an end, also where nodes answer slowly, refuse, or belong to the dead.
#[tokio::test]
async fn a_vote_that_cannot_be_settled_ends_in_time() {
    let small = || lock_tests::RedisServer::options().argument("--maxmemory", "1");
    let open = lock_tests::RedisServer::options;
    let fleet = Fleet::of([small(), small(), open(), open(), open()]).behind_proxies();
    // Its servers cannot all be told that they vote, so they are old enough as they are.
    let node_timeout = Duration::from_millis(200);
    let locks = fleet
        .builder()
        .max_ttl(Duration::from_millis(500))
        .node_timeout(node_timeout)
        .build()
        .unwrap();
    ready(&locks).await;
    eventually(DEADLINE, "the servers are older than max_ttl", || {
        fleet.servers().iter().all(|server| {
            let info: String = server.command(&["INFO", "server"]);
            let uptime = info
                .lines()
                .find_map(|line| line.strip_prefix("uptime_in_seconds:"));
            uptime.and_then(|uptime| uptime.trim().parse::<u64>().ok()) > Some(1)
        })
    })
    .await;
    let _: String = fleet.servers()[2].command(&["SET", "k", "a dead client", "PX", "60000"]);
    for proxy in fleet.proxies() {
        let way = Duration::from_millis(20);
        proxy.set(Mode::Delay {
            requests: way,
            answers: way,
        });
    }
    for _ in 0..3 {
        let asked = Instant::now();
        let ttl = Duration::from_millis(400);
        locks
            .lock("k")
            .ttl(ttl)
            .acquire()
            .await
            .expect_err("two cannot, one is held");
        let taken = asked.elapsed();
        assert!(
            taken < node_timeout * 12 + Duration::from_secs(1),
            "{taken:?}"
        );
    }
}
