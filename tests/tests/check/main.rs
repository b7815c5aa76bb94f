//! What a check finds: nothing where there is nothing, and each wrong deployment, built for real.

use lock_runtime::{
    FindingKind, LockManager, LockManagerBuilder, NodeSpec, Report, ServerState, Severity,
};
use lock_tests::server::Options;
use lock_tests::{
    DEADLINE, Disk, Fleet, Mode, Proxy, RedisServer, WallClock, cycle, dropped_after,
    eventually_async, ready,
};
use std::time::{Duration, Instant};

mod down;
mod settings;

const TTL: Duration = Duration::from_secs(1);

/// What a check looks at besides.
const LOOKS_AT: &str = "+config|get";

/// A server as the README says to run it.
fn good() -> Options {
    RedisServer::options()
        .also_permitted(LOOKS_AT)
        .append_only("everysec")
        .argument("--maxmemory", "100mb")
}

/// A deployment that is used already, whose first server is like this.
async fn first_of_three(first: Options) -> (Fleet, LockManager) {
    let fleet = Fleet::of([first, good(), good()]);
    fleet.found().await;
    let locks = fleet.manager();
    (fleet, locks)
}

/// A check of nodes that are connected, or known not to be: a machine that is busy is not what these tests are about.
async fn check(locks: &LockManager) -> Report {
    let report = locks.check().await;
    assert_eq!(
        report.is_safe(),
        !report
            .findings()
            .iter()
            .any(|finding| finding.severity() == Severity::Problem)
    );
    report
}

/// The one finding, about these nodes.
#[track_caller]
fn only(report: &Report, nodes: &[String], severity: Severity) -> FindingKind {
    let [finding] = report.findings() else {
        panic!("not one finding:\n{report}")
    };
    assert_eq!(finding.severity(), severity, "{report}");
    assert!(finding.nodes().eq(nodes), "{report}");
    finding.kind().clone()
}

#[tokio::test]
async fn of_good_nodes_there_is_nothing_to_say() {
    let (fleet, locks) = first_of_three(good()).await;
    let changes = |server: &RedisServer| {
        let info: redis::InfoDict = server.command(&["INFO", "persistence"]);
        info.get::<u64>("rdb_changes_since_last_save")
            .expect("a number")
    };
    let changes = || -> Vec<_> { fleet.servers().iter().map(changes).collect() };
    let report = check(&locks).await;
    assert_eq!(report.findings(), [], "{report}");
    assert!(report.is_safe());
    let text = report.to_string();
    for (server, found) in fleet.servers().iter().zip(report.servers()) {
        assert_eq!(
            (found.node(), found.server()),
            (&*server.name(), &*server.name())
        );
        assert_eq!(*found.state(), ServerState::Votes);
        assert!(found.round_trip() > Some(Duration::ZERO));
        assert_eq!(found.replicas(), Some(0));
        let info: redis::InfoDict = server.command(&["INFO", "server"]);
        // Valkey says of which Redis it does what, too.
        let version = |of: &str| {
            let version: Option<String> = info.get(&format!("{of}_version"));
            version.map(|version| format!("{of} {version}"))
        };
        let version = version("valkey").or_else(|| version("redis"));
        assert_eq!(found.version(), version.as_deref());
        assert!(text.contains(&server.name()), "{text}");
    }
    assert!(
        text.contains("3 of 3 nodes vote, and 2 must. 0 problems, 0 warnings, 0 notes."),
        "{text}"
    );

    // Whoever connects has the servers remember that they vote, so once there may be a change.
    eventually_async(DEADLINE, "a check changes nothing", || async {
        let before = changes();
        check(&locks).await;
        before == changes()
    })
    .await;
    fleet.assert_no_keys("*").await;
    fleet.assert_nobody_listens().await;
}

#[tokio::test]
async fn nodes_that_are_not_independent() {
    let fleet = Fleet::of([good(), good(), good()]);
    fleet.found().await;
    let servers = fleet.servers();
    let port = servers[0].port().to_string();
    servers[1].command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
    let locks = fleet.manager();
    eventually_async(DEADLINE, "the primary knows its replica", || async {
        let report = check(&locks).await;
        let known = report.servers()[0].replicas() == Some(1);
        if known { Ok(()) } else { Err(report) }
    })
    .await;
    let report = check(&locks).await;
    let found = only(&report, &[servers[1].name()], Severity::Problem);
    let names_it = matches!(&found, FindingKind::Replica { of: Some(of), node: Some(node), .. }
        if **of == servers[0].name() && **node == servers[0].name());
    assert!(names_it, "{found:?}");
    assert_eq!(*report.servers()[1].state(), ServerState::Refused);

    let proxy = Proxy::start(&servers[0]);
    proxy.set(Mode::Refuse);
    let urls = [servers[0].url(), proxy.url(), servers[2].url()];
    let builder = LockManager::builder().node_timeout(TTL);
    let locks = urls
        .into_iter()
        .fold(builder, LockManagerBuilder::node)
        .build()
        .unwrap();
    ready(&locks).await;
    proxy.set(Mode::Pass);
    eventually_async(DEADLINE, "the second way to it is refused", || async {
        let report = check(&locks).await;
        let refused = *report.servers()[1].state() == ServerState::Refused;
        if refused { Ok(()) } else { Err(report) }
    })
    .await;
    let found = only(&check(&locks).await, &[proxy.name()], Severity::Problem);
    let names_it =
        matches!(&found, FindingKind::SameServer { node, .. } if **node == servers[0].name());
    assert!(names_it, "{found:?}");
}

/// With one node a failover is all that it takes to lose a lock.
#[tokio::test]
async fn replicas_that_are_not_asked_or_not_there() {
    let [primary, replica] = [good().append_only("always").start(), RedisServer::start()];
    let port = primary.port().to_string();
    replica.command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
    let with = |replicas| {
        let node = NodeSpec::from(primary.url()).replicas(replicas);
        let builder = LockManager::builder().node(node);
        builder.node_timeout(TTL).build().unwrap()
    };
    let locks = with(0);
    eventually_async(DEADLINE, "the primary knows its replica", || async {
        check(&locks).await.servers()[0].replicas() == Some(1)
    })
    .await;
    let worst = |report: &Report| {
        let worst = &report.findings()[0];
        (worst.severity(), worst.kind().clone())
    };
    let report = check(&locks).await;
    let not_asked = matches!(
        worst(&report),
        (
            Severity::Warning,
            FindingKind::ReplicasNotAsked { replicas: 1, .. }
        )
    );
    assert!(not_asked, "{report}");
    let report = check(&with(1)).await;
    let no_spare = matches!(
        worst(&report),
        (
            Severity::Warning,
            FindingKind::NoSpareReplica { replicas: 1, .. }
        )
    );
    assert!(no_spare, "{report}");
    assert_eq!(*report.servers()[0].state(), ServerState::Votes);
    let report = check(&with(2)).await;
    assert_eq!(*report.servers()[0].state(), ServerState::LacksReplicas);
    let few = |finding: &lock_runtime::Finding| {
        matches!(
            finding.kind(),
            FindingKind::TooFewReplicas {
                replicas: 1,
                wanted: 2,
                ..
            }
        )
    };
    assert!(
        !report.is_safe() && report.findings().iter().any(few),
        "{report}"
    );
}

/// Also when a node is silent, the answer comes in time, and locks go on meanwhile.
#[tokio::test]
async fn nodes_that_do_not_answer() {
    let (fleet, _) = first_of_three(good()).await;
    let locks = fleet.builder().node_timeout(Duration::from_millis(200));
    let locks = locks.build().unwrap();
    let [first, second, _] = fleet.servers() else {
        unreachable!("three servers")
    };
    cycle(&locks, "k", TTL).await;
    first.kill();
    eventually_async(DEADLINE, "it is known to be down, and why", || async {
        let report = check(&locks).await;
        let found = only(&report, &[first.name()], Severity::Warning);
        let state = report.servers()[0].state();
        match &found {
            FindingKind::Down { reason, .. }
                if reason.contains("refused") && *state == ServerState::Down =>
            {
                Ok(())
            }
            _ => Err(report),
        }
    })
    .await;

    first.restart(Disk::Keep).await;
    eventually_async(DEADLINE, "it votes again", || async {
        let report = check(&locks).await;
        let young = report.servers()[0].state();
        if matches!(young, ServerState::Votes | ServerState::Abstains(_)) {
            Ok(())
        } else {
            Err(report)
        }
    })
    .await;
    first.pause();
    let asked = Instant::now();
    let checking = check(&locks);
    let locking = cycle(&locks, "k", TTL);
    let (report, ()) = tokio::join!(checking, locking);
    // It gives up after two, and the machine may be busy.
    let taken = asked.elapsed();
    assert!(taken < Duration::from_secs(10), "{taken:?}");
    let found = only(&report, &[first.name()], Severity::Warning);
    assert!(matches!(found, FindingKind::Down { .. }), "{found:?}");

    second.kill();
    eventually_async(DEADLINE, "there is no majority", || async {
        let report = check(&locks).await;
        let kinds = report.findings().iter().map(lock_runtime::Finding::kind);
        let no_quorum = kinds.into_iter().any(|kind| {
            matches!(
                kind,
                FindingKind::NoQuorum {
                    voting: 1,
                    needed: 2,
                    ..
                }
            )
        });
        if no_quorum && !report.is_safe() {
            Ok(())
        } else {
            Err(report)
        }
    })
    .await;
}

#[tokio::test]
async fn nodes_that_are_young() {
    let fleet = Fleet::of([good(), good(), good()]);
    let locks = fleet.manager();
    let report = check(&locks).await;
    let found = only(&report, &[], Severity::Note);
    assert!(matches!(found, FindingKind::New { .. }), "{report}");
    assert!(
        matches!(report.servers()[0].state(), ServerState::Abstains(_)),
        "{report}"
    );

    cycle(&locks, "k", TTL).await;
    fleet.servers()[0].restart(Disk::Lose).await;
    let young = eventually_async(DEADLINE, "it is connected again", || async {
        let report = check(&locks).await;
        let young = matches!(report.servers()[0].state(), ServerState::Abstains(_));
        if young { Ok(report) } else { Err(report) }
    });
    let found = only(
        &young.await,
        &[fleet.servers()[0].name()],
        Severity::Warning,
    );
    let left = matches!(found, FindingKind::Young { for_another, .. }
        if (Duration::from_secs(1)..=Duration::from_secs(61)).contains(&for_another));
    assert!(left, "{found:?}");
}

#[tokio::test]
async fn clocks_that_differ() {
    let clock = WallClock::new();
    let (fleet, locks) = first_of_three(good().clock(&clock)).await;
    assert_eq!(check(&locks).await.findings(), []);
    let nodes = [fleet.servers()[0].name()];
    for (ahead, is_ahead) in [(30, true), (-30, false)] {
        clock.set(ahead);
        let report = check(&locks).await;
        let found = only(&report, &nodes, Severity::Warning);
        let FindingKind::ClockApart { by, ahead, .. } = found else {
            panic!("{report}")
        };
        assert_eq!(ahead, is_ahead);
        assert!(
            (Duration::from_secs(29)..Duration::from_secs(31)).contains(&by),
            "{by:?}"
        );
    }

    clock.set(0);
    let slow = fleet
        .builder()
        .wall_clock(|| std::time::SystemTime::now() - Duration::from_secs(30));
    let slow = slow.build().unwrap();
    let report = check(&slow).await;
    let found = only(&report, &[], Severity::Note);
    assert!(
        matches!(found, FindingKind::OwnClockApart { ahead: false, .. }),
        "{report}"
    );
}

#[tokio::test]
async fn numbers_of_nodes_and_ways_to_them() {
    let fleet = Fleet::of([good(), good()]).behind_proxies();
    fleet.found().await;
    let locks = fleet
        .builder()
        .node_timeout(Duration::from_millis(400))
        .build()
        .unwrap();
    let report = check(&locks).await;
    let found = only(&report, &[], Severity::Warning);
    assert!(
        matches!(found, FindingKind::EvenNodes { nodes: 2, .. }),
        "{report}"
    );

    let way = Duration::from_millis(60);
    fleet.proxies()[0].set(Mode::Delay {
        requests: way,
        answers: way,
    });
    let report = check(&locks).await;
    let tight = |kind: &FindingKind| matches!(kind, FindingKind::TightTimeout { round_trip, .. } if *round_trip >= 2 * way);
    let found = report
        .findings()
        .iter()
        .find(|finding| tight(finding.kind()));
    let found = found.unwrap_or_else(|| panic!("{report}"));
    assert!(
        found.nodes().any(|node| node == fleet.proxies()[0].name()),
        "{report}"
    );
}

/// Its answers to most locks would be that they are elsewhere.
#[tokio::test]
async fn a_server_of_a_cluster_that_is_named_as_one_by_itself() {
    let server = good().in_cluster().start();
    let locks = LockManager::builder()
        .node(server.url())
        .node_timeout(TTL)
        .build()
        .unwrap();
    let report = check(&locks).await;
    let mut kinds = report.findings().iter().map(lock_runtime::Finding::kind);
    assert!(
        kinds.any(|kind| matches!(kind, FindingKind::InCluster { .. })),
        "{report}"
    );
    assert!(!report.is_safe());
}

#[tokio::test]
async fn embedded_nodes_are_for_one_process() {
    let locks = LockManager::in_memory();
    let report = check(&locks).await;
    let [finding] = report.findings() else {
        panic!("{report}")
    };
    assert!(
        matches!(finding.kind(), FindingKind::Embedded { .. }),
        "{report}"
    );
    assert_eq!(finding.nodes().len(), 5);
    assert!(report.is_safe());
}

/// Whenever it is dropped: nothing stays, and locks are as good as before.
#[tokio::test]
async fn a_check_may_be_dropped_at_any_await() {
    let (fleet, locks) = first_of_three(good()).await;
    let mut polls = 0;
    while dropped_after(polls, locks.check()).await.is_none() {
        polls += 1;
        cycle(&locks, "k", TTL).await;
    }
    assert!(polls > 0, "it is not ready at once");
    drop(locks);
    fleet.assert_no_keys("*").await;
    fleet.assert_nobody_listens().await;
}

/// After a shutdown too, as it takes nothing.
#[tokio::test]
async fn a_manager_that_was_shut_down_still_tells() {
    let (_fleet, locks) = first_of_three(good()).await;
    ready(&locks).await;
    locks.shutdown(Duration::ZERO).await;
    assert_eq!(check(&locks).await.findings(), []);
}
