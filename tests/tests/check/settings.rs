//! What a check finds of how servers keep things: memory and disk.

use super::*;

#[tokio::test]
async fn memory_that_is_limited_badly() {
    let (fleet, locks) = first_of_three(good()).await;
    let server = &fleet.servers()[0];
    let nodes = [server.name()];

    server.set_config("maxmemory-policy", "volatile-lru");
    let found = only(&check(&locks).await, &nodes, Severity::Problem);
    let drops = |policy, maxmemory: Option<u64>| {
        matches!(&found, FindingKind::Eviction { policy: is, maxmemory: limit, evicted: 0, .. }
            if &**is == policy && *limit == maxmemory)
    };
    assert!(drops("volatile-lru", Some(100 << 20)), "{found:?}");

    server.set_config("maxmemory", "0");
    let report = check(&locks).await;
    let [eviction, no_limit] = report.findings() else {
        panic!("{report}")
    };
    assert!(
        matches!(
            eviction.kind(),
            FindingKind::Eviction {
                maxmemory: None,
                ..
            }
        ),
        "{report}"
    );
    assert_eq!(eviction.severity(), Severity::Warning);
    assert!(
        matches!(no_limit.kind(), FindingKind::NoMemoryLimit { .. }),
        "{report}"
    );

    server.set_config("maxmemory-policy", "noeviction");
    let memory: redis::InfoDict = server.command(&["INFO", "memory"]);
    let used: u64 = memory.get("used_memory").expect("a number");
    server.set_config("maxmemory", &(used + used / 20).to_string());
    let found = only(&check(&locks).await, &nodes, Severity::Warning);
    assert!(
        matches!(found, FindingKind::MemoryNearlyFull { .. }),
        "{found:?}"
    );

    server.set_config("maxmemory", "1");
    let report = check(&locks).await;
    let refuses = |kind: &FindingKind| matches!(kind, FindingKind::RefusesWrites { reason, .. } if reason.starts_with("OOM"));
    assert!(
        report
            .findings()
            .iter()
            .any(|finding| refuses(finding.kind())),
        "{report}"
    );
    assert_eq!(*report.servers()[0].state(), ServerState::RefusesWrites);
    assert!(report.is_safe(), "two others vote");
}

/// Keys were dropped already.
#[tokio::test]
async fn evictions_are_counted() {
    let (fleet, locks) = first_of_three(good().argument("--maxmemory-policy", "allkeys-lru")).await;
    let server = &fleet.servers()[0];
    for number in 0..50 {
        server.command::<()>(&["SET", &format!("k{number}"), "x", "PX", "60000"]);
    }
    let memory: redis::InfoDict = server.command(&["INFO", "memory"]);
    let used: u64 = memory.get("used_memory").expect("a number");
    server.set_config("maxmemory", &(used / 2).to_string());
    let dropped = |report: &Report| {
        let mut kinds = report.findings().iter().map(lock_runtime::Finding::kind);
        kinds.any(|kind| matches!(kind, FindingKind::Eviction { evicted: 1.., .. }))
    };
    eventually_async(DEADLINE, "it drops keys, and that is seen", || async {
        let report = check(&locks).await;
        if dropped(&report) {
            Ok(())
        } else {
            Err(report)
        }
    })
    .await;
}

#[tokio::test]
async fn disks_that_keep_too_little() {
    let snapshots = RedisServer::options()
        .also_permitted(LOOKS_AT)
        .argument("--maxmemory", "100mb");
    let (fleet, locks) = first_of_three(snapshots).await;
    let server = &fleet.servers()[0];
    let nodes = [server.name()];
    for (save, writes) in [("", false), ("3600 1", true)] {
        server.set_config("save", save);
        let found = only(&check(&locks).await, &nodes, Severity::Warning);
        let expected = matches!(found, FindingKind::NoAppendOnlyFile { snapshots: Some(is), .. } if is == writes);
        assert!(expected, "{found:?}");
    }
    server.set_config("appendonly", "yes");
    server.set_config("appendfsync", "no");
    let found = only(&check(&locks).await, &nodes, Severity::Warning);
    assert!(
        matches!(&found, FindingKind::Fsync { policy, .. } if &**policy == "no"),
        "{found:?}"
    );
}

/// What is a warning among three is a problem where there is nobody else.
#[tokio::test]
async fn one_node_that_forgets_is_a_problem() {
    let server = RedisServer::options().also_permitted(LOOKS_AT).start();
    let locks = LockManager::builder()
        .node(server.url())
        .node_timeout(TTL)
        .build()
        .unwrap();
    let report = check(&locks).await;
    assert!(!report.is_safe(), "{report}");
    let kinds: Vec<_> = report
        .findings()
        .iter()
        .map(lock_runtime::Finding::kind)
        .collect();
    assert!(
        matches!(kinds[0], FindingKind::NoAppendOnlyFile { .. }),
        "{report}"
    );
    assert!(
        matches!(kinds.last(), Some(FindingKind::OneNode { .. })),
        "{report}"
    );

    server.set_config("appendonly", "yes");
    server.set_config("appendfsync", "always");
    let report = check(&locks).await;
    assert!(report.is_safe(), "{report}");
}
