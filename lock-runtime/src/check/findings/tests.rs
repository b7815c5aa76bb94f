//! Deployments as tables: what is found in each, and that it is said in words.

mod clocks;
mod servers;

use super::*;
use crate::check::finding::DownCause;

const DAY: Duration = Duration::from_secs(20_000 * 24 * 3600);

fn good() -> Facts {
    Facts {
        round_trip: Duration::from_micros(200),
        standing: Standing::Votes,
        transport: Transport::Tls,
        waits_for: 0,
        sentinels: None,
        info: Ok(Info {
            product: "redis".to_owned(),
            version: "7.0.15".to_owned(),
            like: Some((7, 0)),
            is_primary: true,
            aof: true,
            maxmemory: 100 << 20,
            used_memory: 1 << 20,
            eviction: "noeviction".to_owned(),
            ..Info::default()
        }),
        appendfsync: Ok("everysec".to_owned()),
        save: Ok(String::new()),
        clock: None,
        missing: Vec::new(),
        refuses_writes: None,
        is_deaf: None,
    }
}

fn node(number: usize, found: Found) -> Examined {
    let node: Arc<str> = format!("node-{number}:6379").into();
    let server = Server {
        name: Arc::clone(&node),
        found,
    };
    Examined {
        node,
        servers: vec![server],
    }
}

/// These nodes, with the numbers that managers have by default.
fn deployment(found: impl IntoIterator<Item = Found>) -> Deployment {
    let nodes = (1..).zip(found).map(|(number, found)| node(number, found));
    let nodes: Vec<_> = nodes.collect();
    Deployment {
        needed: nodes.len() / 2 + 1,
        nodes,
        node_timeout: Duration::from_millis(50),
        max_ttl: Duration::from_secs(60),
        own_clock: (Instant::now(), DAY),
    }
}

fn facts(facts: Facts) -> Found {
    Found::Facts(Box::new(facts))
}

/// The first of so many nodes is like this, the others are good.
fn first_of(count: usize, first: Found) -> Deployment {
    let others = std::iter::repeat_with(|| facts(good()));
    deployment(std::iter::once(first).chain(others).take(count))
}

/// What is found beyond what there is to be said of one good node.
#[track_caller]
fn of(deployment: &Deployment) -> Vec<Finding> {
    let mut found = findings(deployment);
    found.retain(|finding| {
        let fsync =
            matches!(&finding.kind, FindingKind::Fsync { policy } if &**policy == "everysec");
        !(matches!(finding.kind, FindingKind::OneNode {}) || fsync && finding.is_single)
    });
    for finding in &found {
        for said in [&finding.found(), finding.risk(), &finding.change()] {
            let plain = said.ends_with(|last: char| last.is_alphanumeric() || "*)'".contains(last));
            assert!(plain && !said.contains("  "), "{said:?}");
        }
    }
    found
}

/// The one thing that is found.
#[track_caller]
fn only(deployment: &Deployment) -> (Severity, FindingKind, Vec<String>) {
    match &*of(deployment) {
        [one] => {
            let nodes = one.nodes().map(str::to_owned).collect();
            (one.severity, one.kind.clone(), nodes)
        }
        other => panic!("not one: {other:?}"),
    }
}

fn changed(change: impl FnOnce(&mut Facts)) -> Found {
    let mut changed = good();
    change(&mut changed);
    facts(changed)
}

fn changed_info(change: impl FnOnce(&mut Info)) -> Found {
    changed(|facts| change(facts.info.as_mut().expect("it is good")))
}

#[test]
fn there_is_nothing_to_say_of_good_nodes() {
    for count in [3, 5, 7] {
        assert_eq!(findings(&first_of(count, facts(good()))), []);
    }
    let kinds: Vec<_> = findings(&first_of(1, facts(good())))
        .into_iter()
        .map(|finding| (finding.severity, finding.kind))
        .collect();
    let policy = "everysec".into();
    assert_eq!(
        kinds,
        [
            (Severity::Warning, FindingKind::Fsync { policy }),
            (Severity::Note, FindingKind::OneNode {}),
        ]
    );
}

#[test]
fn what_drops_keys_is_bad_and_worse_with_a_limit() {
    for policy in [
        "volatile-lru",
        "volatile-ttl",
        "allkeys-lfu",
        "allkeys-random",
    ] {
        for (maxmemory, severity) in [(100 << 20, Severity::Problem), (0, Severity::Warning)] {
            let found = of(&first_of(
                3,
                changed_info(|info| {
                    info.eviction = policy.to_owned();
                    info.maxmemory = maxmemory;
                }),
            ));
            let eviction =
                |finding: &&Finding| matches!(finding.kind, FindingKind::Eviction { .. });
            let finding = found.iter().find(eviction).expect(policy);
            assert_eq!(finding.severity, severity, "{policy}");
            let limited = severity == Severity::Problem;
            assert_eq!(
                finding.risk().contains("TTL"),
                limited && policy.starts_with("volatile")
            );
        }
    }
}

#[test]
fn who_has_no_vote_is_a_warning_until_too_many_have_none() {
    let down = || Found::Trouble("connection refused".into());
    let full = || changed(|facts| facts.refuses_writes = Some("OOM".into()));
    let young = || {
        changed(|facts| {
            facts.standing = Standing::Abstains {
                for_another: Duration::from_millis(40_100),
                unknown: None,
            };
        })
    };
    for (first, kind) in [
        (
            down(),
            FindingKind::Down {
                reason: "connection refused".into(),
                cause: DownCause::Other,
            },
        ),
        (
            full(),
            FindingKind::RefusesWrites {
                reason: "OOM".into(),
            },
        ),
        (
            young(),
            FindingKind::Young {
                for_another: Duration::from_secs(41),
            },
        ),
    ] {
        let one = only(&first_of(3, first.clone()));
        assert_eq!(
            one,
            (
                Severity::Warning,
                kind.clone(),
                vec!["node-1:6379".to_owned()]
            )
        );

        let two = of(&deployment([first.clone(), first, facts(good())]));
        let [no_quorum, both] = &*two else {
            panic!("{two:?}")
        };
        assert_eq!(
            no_quorum.kind,
            FindingKind::NoQuorum {
                voting: 1,
                needed: 2
            }
        );
        assert_eq!(no_quorum.nodes().len(), 0);
        assert_eq!((both.severity, &both.kind), (Severity::Problem, &kind));
        assert_eq!(both.nodes().len(), 2, "what is the same is said once");
    }
}

#[test]
fn a_deployment_that_is_new_is_no_outage() {
    let new = || {
        changed(|facts| {
            facts.standing = Standing::Abstains {
                for_another: Duration::from_secs(60),
                unknown: Some("its life".into()),
            };
        })
    };
    let all = only(&deployment([new(), new(), new()]));
    assert_eq!(all, (Severity::Note, FindingKind::New {}, Vec::new()));
    let full = || {
        let Found::Facts(mut full) = new() else {
            panic!("it is new")
        };
        full.refuses_writes = Some("OOM command not allowed".into());
        Found::Facts(full)
    };
    let found = of(&deployment([full(), full(), new()]));
    let kinds: Vec<_> = found.iter().map(|one| (one.severity, &one.kind)).collect();
    let refuses = FindingKind::RefusesWrites {
        reason: "OOM command not allowed".into(),
    };
    let no_quorum = FindingKind::NoQuorum {
        voting: 1,
        needed: 2,
    };
    assert_eq!(
        kinds,
        [
            (Severity::Problem, &no_quorum),
            (Severity::Problem, &refuses)
        ],
        "nobody gets a lock there, however new it is"
    );
    let found = of(&deployment([full(), new(), new()]));
    let kinds: Vec<_> = found.iter().map(|one| (one.severity, &one.kind)).collect();
    assert_eq!(
        kinds,
        [
            (Severity::Warning, &refuses),
            (Severity::Note, &FindingKind::New {})
        ]
    );
    let found = of(&deployment([new(), new(), facts(good())]));
    assert!(
        found[0]
            .to_string()
            .contains("1 node has a vote, and 2 must"),
        "{}",
        found[0]
    );
}

#[test]
fn refused_nodes_name_the_other() {
    let replica = |of: &str| {
        let of = Some(of.into());
        Found::Trouble(Unfit::Replica { of }.into())
    };
    let primary = || changed_info(|info| info.replicas = vec!["node-1:6379".to_owned()]);
    for (of, node, says) in [
        (
            "node-2:6379",
            Some("node-2:6379"),
            "it is a replica of node node-2:6379",
        ),
        (
            "10.0.0.2:6379",
            Some("node-3:6379"),
            "it is a replica of 10.0.0.2:6379, which is node node-3:6379",
        ),
        ("10.0.0.2:6379", None, "it is a replica of 10.0.0.2:6379"),
    ] {
        let third = match node {
            Some("node-3:6379") => primary(),
            _ => facts(good()),
        };
        let deployment = deployment([replica(of), facts(good()), third]);
        let found = of_kind(&deployment);
        assert_eq!(
            found.kind,
            FindingKind::Replica {
                of: Some(of.into()),
                node: node.map(Arc::from)
            }
        );
        assert_eq!(found.severity, Severity::Problem);
        assert_eq!(found.found(), says);
    }
    let of_cluster = Found::Trouble(Unfit::OfCluster.into());
    let (severity, kind, _) = only(&first_of(3, of_cluster));
    assert_eq!(
        (severity, kind),
        (Severity::Problem, FindingKind::InCluster {})
    );
    let node: Arc<str> = "node-2:6379".into();
    let same = Found::Trouble(
        Unfit::SameServer {
            node: Arc::clone(&node),
        }
        .into(),
    );
    let (severity, kind, _) = only(&first_of(3, same));
    assert_eq!(
        (severity, kind),
        (Severity::Problem, FindingKind::SameServer { node })
    );
}

/// The one finding, whole.
#[track_caller]
fn of_kind(deployment: &Deployment) -> Finding {
    let mut found = of(deployment);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn numbers_that_do_not_fit() {
    for (nodes, severity) in [(2, Severity::Warning), (4, Severity::Warning)] {
        let found = only(&first_of(nodes, facts(good())));
        assert_eq!(found, (severity, FindingKind::EvenNodes { nodes }, vec![]));
    }
    let millis = Duration::from_millis;
    let with = |node_timeout, max_ttl| Deployment {
        node_timeout,
        max_ttl,
        ..first_of(3, facts(good()))
    };
    assert_eq!(of(&with(millis(50), millis(500))), []);
    let (node_timeout, max_ttl) = (millis(50), millis(499));
    let short = FindingKind::ShortMaxTtl {
        max_ttl,
        node_timeout,
    };
    assert_eq!(
        only(&with(node_timeout, max_ttl)),
        (Severity::Warning, short, vec![])
    );
    let max_ttl = Duration::from_secs(3600);
    let long = FindingKind::LongMaxTtl { max_ttl };
    assert_eq!(
        only(&with(node_timeout, max_ttl)),
        (Severity::Note, long, vec![])
    );
}

/// With several nodes a promoted replica is kept out; with one, only its replicas keep a lock over a failover.
#[test]
fn replicas_that_must_have_a_lock_are_there_and_asked() {
    let with = |replicas: usize, waits_for| {
        changed(|facts| {
            let info = facts.info.as_mut().expect("it is good");
            info.replicas = vec!["10.0.0.9:6379".to_owned(); replicas];
            facts.waits_for = waits_for;
        })
    };
    let node = vec!["node-1:6379".to_owned()];
    assert_eq!(of(&first_of(3, with(1, 0))), []);
    assert_eq!(of(&first_of(1, with(2, 1))), []);
    assert_eq!(of(&first_of(3, with(1, 1))), []);
    let spare = FindingKind::NoSpareReplica { replicas: 1 };
    assert_eq!(
        only(&first_of(1, with(1, 1))),
        (Severity::Warning, spare, node.clone())
    );
    let asked = FindingKind::ReplicasNotAsked { replicas: 1 };
    assert_eq!(
        only(&first_of(1, with(1, 0))),
        (Severity::Warning, asked, node.clone())
    );
    let few = FindingKind::TooFewReplicas {
        replicas: 1,
        wanted: 2,
    };
    assert_eq!(
        only(&first_of(3, with(1, 2))),
        (Severity::Warning, few.clone(), node)
    );
    let alone = of(&first_of(1, with(1, 2)));
    assert_eq!(
        alone[0].kind,
        FindingKind::NoQuorum {
            voting: 0,
            needed: 1
        }
    );
    assert_eq!(
        (alone[1].severity, &alone[1].kind),
        (Severity::Problem, &few)
    );
}

#[test]
fn the_worst_comes_first() {
    let bad = changed(|facts| {
        let info = facts.info.as_mut().expect("it is good");
        info.eviction = "allkeys-lru".to_owned();
        facts.appendfsync = Err("NOPERM".into());
        facts.transport = Transport::Plain;
    });
    let found = of(&deployment([
        bad,
        facts(good()),
        facts(good()),
        facts(good()),
    ]));
    let severities: Vec<_> = found.iter().map(Finding::severity).collect();
    assert!(
        severities.is_sorted_by(|one, other| one >= other),
        "{severities:?}"
    );
    assert_eq!(severities.len(), 4);
}
