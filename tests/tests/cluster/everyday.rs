//! What works on a server by itself works on a cluster, for the same number of commands.

use super::TTL;
use lock_runtime::{ConfigError, LockError, LockManager, ServerState, Verdict};
use lock_tests::server::Options;
use lock_tests::{Cluster, DEADLINE, RedisServer, eventually, eventually_async, ready};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Braces that make a tag, that make none, and that make none of their own; and bytes of every kind.
const ODD: [&str; 22] = [
    "order:1",
    "{shop}order:1",
    "shop:{eu}order:1",
    "{a}{b}",
    "a{b",
    "a}b",
    "{}",
    "{}x",
    "x{}{y}",
    "}{",
    "{",
    "}",
    "{{a}}",
    "{a}b}",
    "ключ",
    "{ключ}",
    "with space",
    "tab\tand\nline",
    "*",
    "a:fence",
    "a:released",
    "%2F\\",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_taken_renewed_and_given_back_on_every_server() {
    let cluster = Cluster::start().await;
    let (locks, rival) = (cluster.manager().await, cluster.manager().await);
    for key in cluster.key_on_each("k") {
        let mut last = 0;
        for fenced in [true, false, true] {
            let ask = |locks: &LockManager| locks.lock(&*key).ttl(TTL).fenced(fenced);
            let lease = ask(&locks).acquire().await.expect("free");
            let owner = cluster.owner_of(&key);
            assert!(owner.exists(&key), "{key} is where its slot is");
            let busy = ask(&rival).acquire().await.expect_err("held");
            assert!(busy.is_busy(), "{busy}");
            lease.extend().await.expect("held");
            if fenced {
                let fence = lease.fence();
                assert!(fence > last, "{fence} after {last}");
                last = fence;
                assert!(owner.exists(&format!("{{{key}}}:fence")));
            }
            lease.release().await.expect("held");
            assert!(!owner.exists(&key));
        }
    }
    cluster.assert_no_keys("k?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_keys_are_locks_with_fences_and_wake_who_waits() {
    let cluster = Cluster::start().await;
    let (holder, waiter) = (cluster.manager().await, cluster.manager().await);
    for key in ODD {
        let mut last = 0;
        for _ in 0..2 {
            let ask = |locks: &LockManager| locks.lock(key).ttl(TTL).wait(DEADLINE).fenced(true);
            let held = ask(&holder).acquire().await;
            let held = held.unwrap_or_else(|error| panic!("{key}: {error}"));
            assert!(cluster.owner_of(key).exists(key));
            let waiting = tokio::spawn(ask(&waiter).acquire());
            eventually(DEADLINE, "it listens", || cluster.listened_to() == 1).await;
            let fence = held.fence();
            held.release().await.expect("held");
            let next = waiting.await.expect("no panic").expect("released");
            let next_fence = next.fence();
            assert!(last < fence && fence < next_fence, "{key}");
            last = next_fence;
            next.release().await.expect("held");
            cluster.assert_nobody_listens().await;
        }
    }
    let fences = cluster.running().flat_map(|server| server.keys("*"));
    for key in fences {
        assert!(key.contains(":fence"), "{key} is left");
        let server = cluster.owner_of(&key);
        assert!(server.pttl(&key) > 0, "{key} does not end");
    }
}

/// Polling alone would take more than three seconds for thirty releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_whoever_waits_elsewhere() {
    let cluster = Cluster::start().await;
    let (holder, waiter) = (cluster.manager().await, cluster.manager().await);
    let mut delays = Vec::new();
    for round in 0..30 {
        let key = format!("k{round}");
        let held = holder.lock(&*key).ttl(TTL).acquire().await.expect("free");
        let waiting = tokio::spawn(waiter.lock(&*key).ttl(TTL).wait(DEADLINE).acquire());
        let owner = cluster.owner_of(&key);
        eventually(DEADLINE, "it listens where its lock is", || {
            let channels: Vec<String> = owner.command(&["PUBSUB", "CHANNELS", "*"]);
            channels == [format!("{{{key}}}:released")]
        })
        .await;
        let released = Instant::now();
        held.release().await.expect("held");
        let lease = waiting.await.expect("no panic").expect("released");
        delays.push(released.elapsed());
        lease.release().await.expect("held");
        cluster.assert_nobody_listens().await;
    }
    delays.sort_unstable();
    assert!(delays[15] < Duration::from_millis(60), "{delays:?}");
}

/// Keys of all servers, one of which is held by somebody else: none of the others is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_on_several_servers_are_all_taken_or_none() {
    let cluster = Cluster::start().await;
    let (locks, rival) = (cluster.manager().await, cluster.manager().await);
    let keys = cluster.key_on_each("k");
    assert_eq!(keys.len(), 3);
    let mut last = 0;
    for taken in &keys {
        let held = rival.lock(&**taken).ttl(TTL).acquire().await.expect("free");
        let refused = locks.lock_all(&keys).ttl(TTL).acquire().await;
        match refused {
            Err(LockError::Busy { key, .. }) => assert_eq!(key.as_str(), *taken),
            other => panic!("{taken} is held by a rival: {other:?}"),
        }
        for key in keys.iter().filter(|key| *key != taken) {
            let free = rival.lock(&**key).ttl(TTL).wait(DEADLINE).acquire().await;
            free.expect("none is kept").release().await.expect("held");
        }
        let request = locks.lock_all(&keys).ttl(TTL).wait(DEADLINE).fenced(true);
        let waiting = tokio::spawn(request.acquire());
        held.release().await.expect("held");
        let all = waiting.await.expect("no panic").expect("released");
        for key in &keys {
            assert!(cluster.owner_of(key).exists(key), "{key}");
            let busy = rival.lock(&**key).ttl(TTL).acquire().await;
            assert!(busy.is_err_and(|error| error.is_busy()), "{key}");
        }
        let fence = all.fence();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        all.extend().await.expect("held");
        all.release().await.expect("held");
    }
    cluster.assert_no_keys("k?").await;
}

/// As many as on a server by itself, however often: no question of where a key is, and no redirect. Within the script that
/// releases, it is not published what nobody would hear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_is_two_commands() {
    const ROUNDS: u64 = 50;
    let cluster = Cluster::start().await;
    let locks = cluster.manager().await;
    let keys = cluster.key_on_each("k");
    let cycles = async |fenced: bool| {
        for round in 0..ROUNDS {
            let key = &*keys[usize::try_from(round).expect("small") % keys.len()];
            let request = locks.lock(key).ttl(TTL).fenced(fenced);
            let lease = request.acquire().await.expect("free");
            lease.release().await.expect("held");
        }
    };
    let asked = || {
        let mut asked: BTreeMap<String, u64> = BTreeMap::new();
        for server in cluster.servers() {
            for (name, calls) in server.command_stats() {
                let command = name.split('|').next().unwrap_or_default();
                *asked.entry(command.to_owned()).or_default() += calls;
            }
            assert!(!server.errors().contains("MOVED"), "nothing is sent on");
        }
        // The harness, and what is asked now and then.
        asked.retain(|name, _| !["info", "ping", "config", "cluster"].contains(&&**name));
        asked
    };
    // Each server has learnt the scripts.
    cycles(true).await;
    cycles(false).await;
    let version = cluster.servers()[0].info_field(&["INFO", "server"], "redis_version");
    // Before 7.0 it is a script that takes a lock.
    let by_script = u64::from(version.starts_with("6."));
    for (fenced, evalsha, get, set) in [(false, 1 + by_script, 1, 1), (true, 2, 2, 2)] {
        let each = [
            ("del", 1),
            ("evalsha", evalsha),
            ("get", get),
            ("pubsub", 1),
            ("set", set),
        ];
        let expected = each.map(|(name, calls)| (name.to_owned(), calls * ROUNDS));
        cluster
            .servers()
            .iter()
            .for_each(RedisServer::reset_command_stats);
        cycles(fenced).await;
        assert_eq!(asked(), BTreeMap::from(expected), "fenced: {fenced}");
    }
}

/// When the last handle is gone there is no connection, no key and nobody who listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_manager() {
    let cluster = Cluster::start().await;
    let clients = || {
        cluster
            .servers()
            .iter()
            .map(RedisServer::clients)
            .sum::<usize>()
    };
    let before = clients();
    for connections in [1, 3] {
        let builder = cluster.builder().connections_per_node(connections);
        let locks = builder.build().expect("a good configuration");
        ready(&locks).await;
        for key in cluster.key_on_each("k") {
            let lease = locks.lock(key).ttl(TTL).acquire().await.expect("free");
            lease.release().await.expect("held");
        }
        eventually(
            DEADLINE,
            "as many connections as were asked for",
            || match clients() - before {
                count if count == 3 * connections => Ok(()),
                count => Err(count.to_string()),
            },
        )
        .await;
        drop(locks);
        eventually(DEADLINE, "no connection is left", || clients() == before).await;
    }
    cluster.assert_nobody_listens().await;
    cluster.assert_no_keys("*").await;
}

/// The holder finds somebody else there when he renews, and frees the lock long before its TTL is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_who_has_a_lock_and_takes_it() {
    let cluster = Cluster::start().await;
    let (locks, operator) = (cluster.manager().await, cluster.manager().await);
    for key in cluster.key_on_each("k") {
        let lease = locks.lock(&*key).ttl(TTL).fenced(true).acquire().await;
        let lease = lease.expect("free");
        let seen = operator.inspect(&*key).await.expect("a key");
        assert!(matches!(seen.verdict(), Verdict::Held { .. }), "{seen}");
        let forced = operator.force_release(&*key).await.expect("a key");
        assert!(forced.is_complete() && !forced.was_free(), "{forced}");
        let renewed = lease.extend().await;
        assert!(renewed.is_err() && lease.is_lost(), "it was taken");
        drop(lease);
        cluster.assert_no_keys(&key).await;
        let seen = operator.inspect(&*key).await.expect("a key");
        assert_eq!(seen.verdict(), Verdict::Free, "{seen}");
    }
}

/// Each of its servers is looked at, and asked for what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_reports_every_server_of_a_cluster() {
    let options = Cluster::options().server(Options::everything_permitted);
    let cluster = options.start().await;
    for prefix in ["", "shop:", "{shop}:"] {
        let locks = cluster.builder().prefix(prefix).build();
        let locks = locks.expect("a good configuration");
        ready(&locks).await;
        let report = locks.check().await;
        let servers = if prefix.starts_with('{') { 1 } else { 3 };
        assert_eq!(report.servers().len(), servers, "{report}");
        let shown = report.to_string();
        for server in report.servers() {
            assert_eq!(*server.state(), ServerState::Votes, "{report}");
            // Its name says which cluster.
            assert!(
                shown.contains(&format!("\n{} ", server.server())),
                "{report}"
            );
        }
        for finding in report.findings() {
            let kind = format!("{:?}", finding.kind());
            assert!(
                !kind.contains("Missing") && !kind.contains("Writes"),
                "{report}"
            );
        }
        // Whoever checks leaves nothing.
        cluster.assert_no_keys("*").await;
    }
}

/// Each kind of node says what to write for the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_a_cluster_is_told_from_a_server_by_itself() {
    let cluster = Cluster::start().await;
    let single = RedisServer::start();
    let of_cluster = cluster.servers()[0].url();
    let by_itself = single.url().replacen("redis://", "redis+cluster://", 1);
    for (url, words) in [(of_cluster, "redis+cluster://"), (by_itself, "redis://")] {
        let locks = LockManager::builder().node(&url).build().expect("a URL");
        eventually_async(DEADLINE, "it says what to write", || async {
            let refused = locks.lock("k").ttl(TTL).acquire().await;
            let said = refused.expect_err("no such node").to_string();
            if said.contains(words) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
        assert!(!locks.ready().await);
    }
    let url = format!("{}/1", cluster.url());
    let refused = LockManager::builder().node(url).build();
    assert!(matches!(refused, Err(ConfigError::Node { .. })));
}
