//! The example `lock` as operators run it: what it says, what it does, and its exit code.

use lock_runtime::{LockError, LockManager};
use lock_tests::processes::{example_says, example_with_says, run_example};
use lock_tests::{DEADLINE, Fleet, eventually};
use std::time::Duration;

/// Renewed every two seconds.
const TTL: Duration = Duration::from_secs(6);

const PREFIX: &str = "shop:";

async fn lock(lock_nodes: Option<&str>, arguments: &[&str]) -> (Option<i32>, String) {
    run_example("lock", lock_nodes, arguments).await
}

async fn says(nodes: &str, arguments: &[&str], code: i32, expected: impl Fn(&str) -> bool) {
    example_says("lock", nodes, arguments, code, expected).await;
}

async fn service(fleet: &Fleet) -> LockManager {
    fleet.found().await;
    let locks = fleet.builder().prefix(PREFIX).holder_label("web-1 pid 7");
    let locks = locks.build().unwrap();
    lock_tests::ready(&locks).await;
    locks
}

/// Whether every node says that of the lock.
fn on_all(fleet: &Fleet, said: &str, what: &str) -> bool {
    fleet.servers().iter().all(|server| {
        let mut lines = said.lines().filter(|line| line.contains(&server.name()));
        lines.any(|line| line.contains(what))
    })
}

#[tokio::test]
async fn it_says_who_has_a_lock_and_takes_it_from_him_only_when_told() {
    let fleet = Fleet::start(3);
    let (nodes, locks) = (fleet.lock_nodes(), service(&fleet).await);
    let holding = locks.lock("order:1").ttl(TTL);
    let (began, begins) = tokio::sync::oneshot::channel();
    let holding = tokio::spawn(holding.run(|_| async {
        began.send(()).expect("the test waits for it");
        std::future::pending::<()>().await;
    }));
    begins.await.expect("it holds the lock");
    eventually(DEADLINE, "all have it", || {
        fleet.nodes_with("shop:order:1") == 3
    })
    .await;

    let inspect = ["inspect", "order:1", "--prefix", PREFIX];
    says(&nodes, &inspect, 0, |said| {
        said.starts_with("order:1: held by ") && on_all(&fleet, said, "web-1 pid 7")
    })
    .await;
    says(&nodes, &["inspect", "order:1"], 0, |said| {
        let is_another = said.contains("its key on the nodes is \"order:1\"");
        said.starts_with("order:1: free") && on_all(&fleet, said, "nobody") && is_another
    })
    .await;
    // As where the service runs. What the command line says counts more.
    let of_the_service = [("LOCK_NODES", &*nodes), ("LOCK_PREFIX", PREFIX)];
    for (prefix, says, key) in [
        (&[][..], "order:1: held by ", "shop:order:1"),
        (&["--prefix", ""], "order:1: free", "order:1"),
    ] {
        let arguments = [&["inspect", "order:1"], prefix].concat();
        example_with_says("lock", &of_the_service, &arguments, 0, |said| {
            let key = format!("its key on the nodes is {key:?}");
            said.starts_with(says) && said.contains(&key)
        })
        .await;
    }

    let release = ["release", "order:1", "--prefix", PREFIX];
    says(&nodes, &release, 2, |said| {
        said.starts_with("order:1: held by ") && !said.contains("taken")
    })
    .await;
    let values = fleet.values("shop:order:1");
    assert!(
        values.iter().flatten().all(|v| v.ends_with("web-1 pid 7")),
        "{values:?}"
    );
    assert!(!holding.is_finished());

    let release = [&release[..], &["--yes"]].concat();
    says(&nodes, &release, 0, |said| {
        let taken = said.contains("order:1: it was taken from whoever had it, and is free in ");
        taken && on_all(&fleet, said, "web-1 pid 7")
    })
    .await;
    let ended = tokio::time::timeout(DEADLINE, holding).await;
    let error = ended.expect("in time").expect("no panic");
    assert!(matches!(error, Err(LockError::Lost { .. })), "{error:?}");
    says(&nodes, &inspect, 0, |said| {
        said.starts_with("order:1: free")
    })
    .await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn it_says_so_where_too_few_nodes_answer() {
    let fleet = Fleet::start(3);
    let (nodes, _locks) = (fleet.lock_nodes(), service(&fleet).await);
    for server in &fleet.servers()[1..] {
        server.kill();
    }
    says(&nodes, &["inspect", "order:1"], 1, |said| {
        said.starts_with("order:1: not known")
    })
    .await;
    says(&nodes, &["release", "order:1", "--yes"], 1, |said| {
        said.contains("order:1: too few nodes were reached")
    })
    .await;
}

#[tokio::test]
async fn what_is_not_understood_does_nothing() {
    let embedded = Some("memory()");
    for (nodes, arguments) in [
        (None, &["inspect", "k"][..]),
        (Some(""), &["inspect", "k"]),
        (Some("http://127.0.0.1:1"), &["inspect", "k"]),
        (embedded, &[]),
        (embedded, &["inspect"]),
        (embedded, &["look", "k"]),
        (embedded, &["inspect", "k", "l"]),
        (embedded, &["inspect", "k", "--yes"]),
        (embedded, &["inspect", "k", "--unknown"]),
        (embedded, &["inspect", "k", "--max-ttl", "a while"]),
        (embedded, &["inspect", "lock-runtime:votes"]),
        (embedded, &["release", " ", "--yes"]),
    ] {
        let (code, said) = lock(nodes, arguments).await;
        assert_eq!((code, &*said), (Some(2), ""), "{nodes:?} {arguments:?}");
    }
    let (code, said) = lock(embedded, &["release", "k"]).await;
    assert_eq!(code, Some(2));
    assert!(said.starts_with("k: free"), "{said}");
    let (code, said) = lock(None, &["--help"]).await;
    assert_eq!(code, Some(0));
    assert!(said.contains("LOCK_NODES"), "{said}");
}
