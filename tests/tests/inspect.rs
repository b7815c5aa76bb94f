//! Who has a lock, as each node says, and what that amounts to.

use lock_runtime::{Inspection, LockManager, LockManagerBuilder, NodeSpec, Verdict, memory};
use lock_tests::{DEADLINE, Disk, Fleet, RedisServer, eventually_async, ready};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

async fn inspect(locks: &LockManager, key: &str) -> Inspection {
    locks.inspect(key).await.expect("a key")
}

#[tokio::test]
async fn a_lock_that_is_held_is_the_same_on_all_nodes() {
    let fleet = Fleet::start(3);
    let locks = fleet.builder().prefix("shop:").build().unwrap();
    ready(&locks).await;
    assert_eq!(inspect(&locks, "k").await.verdict(), Verdict::Free);

    let lease = locks
        .lock("k")
        .ttl(TTL)
        .fenced(true)
        .acquire()
        .await
        .expect("free");
    let all = eventually_async(DEADLINE, "all have it", || async {
        let inspection = inspect(&locks, "k").await;
        let all = inspection
            .nodes()
            .iter()
            .all(|node| node.holding().is_some());
        if all { Ok(inspection) } else { Err(inspection) }
    });
    let inspection = all.await;
    let Verdict::Held {
        owner, remaining, ..
    } = inspection.verdict()
    else {
        panic!("{inspection}")
    };
    assert!(
        remaining > Some(TTL / 2) && remaining <= Some(TTL),
        "{remaining:?}"
    );
    for (node, value) in inspection.nodes().iter().zip(fleet.values("shop:k")) {
        let value = value.expect("all have it");
        assert_eq!(
            node.holding().map(lock_runtime::Holding::owner),
            Some(&owner)
        );
        assert_eq!(owner.as_bytes(), value.as_bytes());
        assert_eq!(node.fence(), Some(lease.fence()));
        let text = inspection.to_string();
        assert!(
            text.contains(&value) && text.contains(node.node()),
            "{text}"
        );
        assert!(!format!("{inspection:?}").contains(&value));
    }
    lease.release().await.expect("released");
    let inspection = inspect(&locks, "k").await;
    assert_eq!(inspection.verdict(), Verdict::Free, "{inspection}");
    assert!(inspection.nodes().iter().all(|node| node.fence().is_some()));
}

/// Whatever their tokens are, and for ever.
#[tokio::test]
async fn locks_of_other_clients_are_shown_to_the_byte() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    ready(&locks).await;
    for (token, shown) in [
        (&b"\x00\xff\xfe'\"\n"[..], "\\x00\\xff\\xfe'\"\\n"),
        (b"0b5e1f7c9a774fcb", "0b5e1f7c9a774fcb"),
    ] {
        for server in fleet.servers() {
            // What a client library says of itself when it connects is not for the user of locks.
            let client = redis::Client::open(server.questions_url()).expect("a URL");
            let mut connection = client.get_connection().expect("it answers");
            redis::cmd("SET")
                .arg("k")
                .arg(token)
                .exec(&mut connection)
                .expect("it is set");
        }
        let inspection = inspect(&locks, "k").await;
        let Verdict::Held {
            owner,
            remaining: None,
            ..
        } = inspection.verdict()
        else {
            panic!("{inspection}")
        };
        assert_eq!(owner.as_bytes(), token);
        assert!(
            inspection
                .to_string()
                .contains(&format!("held by {shown}, for ever")),
            "{inspection}"
        );
    }
}

/// Whoever looks at a key that holds a document is told so, and his terminal is not flooded.
#[tokio::test]
async fn a_value_may_be_longer_than_any_line() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    ready(&locks).await;
    let document = "x".repeat(10_000_000);
    fleet.servers()[0].command::<()>(&["SET", "k", &document]);
    let inspection = inspect(&locks, "k").await;
    let is_short = |shown: &str| shown.len() < 5_000 && shown.contains("xx… (10000000 bytes)");
    assert!(is_short(&inspection.to_string()), "{inspection}");
    let holding = inspection.nodes()[0].holding().expect("it is there");
    assert_eq!(holding.owner().as_bytes(), document.as_bytes());
    let forced = locks.force_release("k").await.expect("a key");
    assert!(is_short(&forced.to_string()), "{forced}");
}

/// A key may be what somebody has typed into a form.
#[tokio::test]
async fn a_key_does_nothing_to_a_terminal() {
    let locks = LockManager::in_memory();
    let key = "order:\x1b[2J\n7";
    let held = locks.lock(key).ttl(TTL).acquire().await.expect("free");
    let busy = locks.lock(key).ttl(TTL).acquire().await;
    let said = [
        busy.expect_err("held").to_string(),
        inspect(&locks, key).await.to_string(),
        locks.force_release(key).await.expect("a key").to_string(),
    ];
    for said in said {
        let first = said.lines().next().expect("a line");
        assert!(first.contains("order:?[2J?7"), "{said}");
    }
    assert_eq!(inspect(&locks, key).await.key(), key);
    drop(held);
}

#[tokio::test]
async fn what_the_nodes_do_not_agree_on_or_do_not_say() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(100))
        .build()
        .unwrap();
    ready(&locks).await;
    let set = |server: &RedisServer, owner: &str| {
        server.command::<()>(&["SET", "k", owner, "PX", "60000"]);
    };
    let servers = fleet.servers();
    set(&servers[0], "a");
    set(&servers[1], "a");
    assert_eq!(
        inspect(&locks, "k").await.verdict(),
        Verdict::Free,
        "three would grant it"
    );
    set(&servers[2], "b");
    assert_eq!(inspect(&locks, "k").await.verdict(), Verdict::Split);
    for (server, key) in [(&servers[3], "k"), (&servers[4], "k")] {
        server.command::<()>(&["RPUSH", key, "x"]);
    }
    let inspection = inspect(&locks, "k").await;
    assert_eq!(
        inspection.verdict(),
        Verdict::Unknown,
        "whoever is there may have a majority"
    );
    assert!(
        inspection.nodes()[4]
            .error()
            .is_some_and(|error| error.contains("WRONGTYPE"))
    );

    servers[3].kill();
    servers[4].pause();
    eventually_async(DEADLINE, "why they do not answer is said", || async {
        let inspection = inspect(&locks, "k").await;
        let says = |node: usize| {
            inspection.nodes()[node]
                .error()
                .map(str::to_owned)
                .unwrap_or_default()
        };
        let said = says(3).contains("refused") && !says(4).is_empty();
        if said && inspection.verdict() == Verdict::Unknown {
            Ok(())
        } else {
            Err(inspection)
        }
    })
    .await;
}

/// It has the lock, and its word would not count.
#[tokio::test]
async fn a_node_without_a_vote_is_asked_and_known_as_that() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let locks = fleet.manager();
    ready(&locks).await;
    fleet.servers()[0].restart(Disk::Lose).await;
    let young = eventually_async(DEADLINE, "it is connected again", || async {
        let inspection = inspect(&locks, "k").await;
        let young = inspection.nodes()[0].abstains().is_some();
        if young {
            Ok(inspection)
        } else {
            Err(inspection)
        }
    });
    assert_eq!(young.await.verdict(), Verdict::Free);
    fleet.servers()[1].kill();
    eventually_async(DEADLINE, "one would grant it", || async {
        let inspection = inspect(&locks, "k").await;
        if inspection.verdict() == Verdict::Unknown {
            Ok(())
        } else {
            Err(inspection)
        }
    })
    .await;
}

#[tokio::test]
async fn embedded_nodes_answer_too() {
    let nodes: Vec<NodeSpec> = std::iter::repeat_with(memory).take(3).collect();
    let locks = nodes
        .into_iter()
        .fold(LockManager::builder(), LockManagerBuilder::node);
    let locks = locks.build().unwrap();
    let lease = locks
        .lock("k")
        .ttl(TTL)
        .fenced(true)
        .acquire()
        .await
        .expect("free");
    let inspection = inspect(&locks, "k").await;
    assert!(
        matches!(inspection.verdict(), Verdict::Held { .. }),
        "{inspection}"
    );
    assert!(
        inspection
            .nodes()
            .iter()
            .all(|node| node.fence() == Some(lease.fence()))
    );
}

/// Through everything that is done with a lock, next to clients without one.
#[tokio::test]
async fn a_label_says_who_holds_it_and_changes_nothing_else() {
    let fleet = Fleet::start(3);
    let embedded: Vec<NodeSpec> = std::iter::repeat_with(memory).take(3).collect();
    let of_embedded = || {
        let nodes = embedded.iter().cloned();
        nodes.fold(LockManager::builder(), LockManagerBuilder::node)
    };
    for (labelled, plain) in [
        (fleet.builder(), fleet.builder()),
        (of_embedded(), of_embedded()),
    ] {
        let (ours, theirs) = (
            labelled.holder_label("web-1 (ключ)").build().unwrap(),
            plain.build().unwrap(),
        );
        ready(&ours).await;
        ready(&theirs).await;
        let request = |locks: &LockManager| locks.lock("k").ttl(TTL).fenced(true).wait(DEADLINE);
        let lease = request(&ours).acquire().await.expect("free");
        let Verdict::Held { owner, .. } = inspect(&theirs, "k").await.verdict() else {
            panic!("it is held")
        };
        assert_eq!(owner.label(), Some("web-1 (ключ)"));
        let written = std::str::from_utf8(owner.as_bytes()).expect("it is text");
        let (token, _) = written.split_once(' ').expect("a label");
        assert!(token.len() == 32 && token.bytes().all(|digit| digit.is_ascii_hexdigit()));
        lease.extend().await.expect("it is ours");
        let busy = theirs.lock("k").ttl(TTL).acquire().await;
        assert!(busy.expect_err("it is held").is_busy());
        let waiting = tokio::spawn(request(&theirs).acquire());
        let first = lease.fence();
        lease.release().await.expect("it is ours");
        let lease = waiting.await.expect("no panic").expect("it is free");
        assert!(lease.fence() > first);
        let Verdict::Held { owner, .. } = inspect(&ours, "k").await.verdict() else {
            panic!("it is held")
        };
        assert_eq!((owner.label(), owner.as_bytes().len()), (None, 32));
        lease.release().await.expect("it is theirs");

        let lease = request(&ours).acquire().await.expect("free");
        let forced = theirs.force_release("k").await.expect("a key");
        let from = forced.nodes()[0].taken_from().expect("it was held");
        assert_eq!(from.label(), Some("web-1 (ключ)"));
        lease.release().await.expect("it was ours");
        assert_eq!(inspect(&ours, "k").await.verdict(), Verdict::Free);
    }
    fleet.assert_no_keys("k").await;
}
