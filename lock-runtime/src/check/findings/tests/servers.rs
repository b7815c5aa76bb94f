//! What is wrong with one server, how bad that is where it is one of three, and where it is the only one.

use Severity::{Note, Problem, Warning};

use super::*;
use crate::check::{ServerState, report};

#[track_caller]
fn are_found<const FAULTS: usize>(faults: [(Found, FindingKind, [Severity; 2]); FAULTS]) {
    for (first, kind, severities) in faults {
        for (count, severity) in [3, 1].into_iter().zip(severities) {
            let expected = (severity, kind.clone(), vec!["node-1:6379".to_owned()]);
            assert_eq!(only(&first_of(count, first.clone())), expected);
        }
    }
}

#[test]
fn what_it_is_and_how_it_keeps_things() {
    are_found([
        (
            changed_info(|info| info.eviction = "volatile-lru".to_owned()),
            FindingKind::Eviction {
                policy: "volatile-lru".into(),
                maxmemory: Some(100 << 20),
                evicted: 0,
            },
            [Problem, Problem],
        ),
        (
            changed_info(|info| info.used_memory = 90 << 20),
            FindingKind::MemoryNearlyFull {
                used: 90 << 20,
                maxmemory: 100 << 20,
            },
            [Warning, Warning],
        ),
        (
            changed_info(|info| info.maxmemory = 0),
            FindingKind::NoMemoryLimit {},
            [Note, Note],
        ),
        (
            changed_info(|info| info.aof = false),
            FindingKind::NoAppendOnlyFile {
                snapshots: Some(false),
            },
            [Warning, Problem],
        ),
        (
            changed(|facts| facts.appendfsync = Ok("no".to_owned())),
            FindingKind::Fsync {
                policy: "no".into(),
            },
            [Warning, Warning],
        ),
        (
            changed_info(|info| info.disk_errors = vec!["a snapshot"]),
            FindingKind::DiskError { what: "a snapshot" },
            [Warning, Warning],
        ),
        (
            changed_info(|info| {
                info.version = "6.0.20".to_owned();
                info.like = Some((6, 0));
            }),
            FindingKind::OldVersion {
                version: "6.0.20".into(),
            },
            [Problem, Problem],
        ),
    ]);
}

#[test]
fn how_it_is_reached_and_what_it_permits() {
    let missing = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| Missing::Permission((*rule).into()));
        let rules = rules.collect();
        changed(|facts| facts.missing = rules)
    };
    let reason = || Arc::<str>::from("why");
    are_found([
        (
            changed(|facts| facts.transport = Transport::Plain),
            FindingKind::PlainText {},
            [Warning, Warning],
        ),
        (
            missing(&["+pttl", "&shop:*"]),
            FindingKind::NotPermitted {
                rules: vec!["+pttl".into(), "&shop:*".into()],
            },
            [Warning, Warning],
        ),
        (
            missing(&["~{shop:*"]),
            FindingKind::NotPermitted {
                rules: vec!["~{shop:*".into()],
            },
            [Warning, Warning],
        ),
        (
            changed(|facts| facts.is_deaf = Some(reason())),
            FindingKind::Deaf { reason: reason() },
            [Warning, Warning],
        ),
        (
            changed(|facts| facts.appendfsync = Err(reason())),
            FindingKind::NotLookedAt {
                what: "how it writes to disk (CONFIG GET)",
                rule: "+config|get",
                reason: reason(),
            },
            [Note, Note],
        ),
        (
            changed(|facts| facts.info = Err(reason())),
            FindingKind::NotLookedAt {
                what: "version, role, uptime, memory and disk (INFO)",
                rule: "+info",
                reason: reason(),
            },
            [Warning, Warning],
        ),
        (
            changed(|facts| facts.round_trip = Duration::from_millis(13)),
            FindingKind::TightTimeout {
                round_trip: Duration::from_millis(13),
                node_timeout: Duration::from_millis(50),
            },
            [Warning, Warning],
        ),
        (
            Found::Embedded,
            FindingKind::Embedded {},
            [Warning, Warning],
        ),
    ]);
}

/// A check that does not know the prefix tries other names than the service uses. What it says does not open the node to everybody.
#[test]
fn names_that_are_not_permitted_may_be_the_wrong_ones() {
    let change = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| Missing::Permission((*rule).into()));
        let rules = rules.collect();
        of_kind(&first_of(3, changed(|facts| facts.missing = rules))).change()
    };
    assert_eq!(change(&["+pttl"]), "ACL SETUSER <user> +pttl, on the node");
    for (rules, opens_all) in [
        (&["~*", "&*"][..], true),
        (&["&*"], true),
        (&["+pttl", "~*"], true),
        (&["~shop:*"], false),
        (&["~{shop:*", "&shop:*"], false),
    ] {
        let said = change(rules);
        assert!(said.starts_with("the prefix of the service"), "{said}");
        let permit = format!("only if not, ACL SETUSER <user> {}", rules.join(" "));
        assert!(said.contains(&permit), "{said}");
        assert_eq!(said.contains("opens every key"), opens_all, "{said}");
    }
}

/// The table has no word for a vote where there is none.
#[test]
fn the_table_says_why_a_node_that_answers_has_no_vote() {
    let vote = |missing: Missing| changed(|facts| facts.missing = vec![missing]);
    let down = |cause: DownCause| {
        let reason = "why".into();
        Found::Trouble(Trouble {
            reason,
            cause,
            unfit: None,
        })
    };
    let young = |missing: Missing| {
        changed(|facts| {
            facts.missing = vec![missing];
            facts.standing = Standing::Abstains {
                for_another: Duration::from_secs(40),
                unknown: None,
            };
        })
    };
    let permission = || Missing::Permission("~*".into());
    for (found, state, word) in [
        (
            vote(permission()),
            ServerState::LacksPermission,
            "no permission",
        ),
        (
            young(permission()),
            ServerState::LacksPermission,
            "no permission",
        ),
        (
            vote(Missing::Command("set".into())),
            ServerState::LacksCommands,
            "lacks commands",
        ),
        (down(DownCause::Login), ServerState::Down, "refused"),
        (down(DownCause::Certificate), ServerState::Down, "refused"),
        (
            down(DownCause::ClientCertificate),
            ServerState::Down,
            "refused",
        ),
        (
            down(DownCause::NotPermitted),
            ServerState::Down,
            "no permission",
        ),
        (down(DownCause::NotListening), ServerState::Down, "down"),
    ] {
        let report = report(&first_of(1, found));
        assert_eq!(*report.servers()[0].state(), state);
        let said = report.to_string();
        let row = said.lines().find(|line| line.contains("node-1:6379"));
        assert!(row.is_some_and(|row| row.contains(word)), "{said}");
        assert!(said.contains("\n0 of 1 node votes, and 1 must"), "{said}");
    }
    let without_pttl = vote(Missing::Permission("+pttl".into()));
    let report = report(&first_of(1, without_pttl));
    assert_eq!(*report.servers()[0].state(), ServerState::Votes);
    assert!(report.to_string().contains("\n1 of 1 node votes"));
}

/// Whoever cannot take locks there has no vote of it.
#[test]
fn what_it_must_permit_to_have_a_vote() {
    for (missing, kind) in [
        (
            Missing::Permission("~shop:*".into()),
            FindingKind::NotPermitted {
                rules: vec!["~shop:*".into()],
            },
        ),
        (
            Missing::Command("del".into()),
            FindingKind::UnknownCommands {
                commands: vec!["del".into()],
            },
        ),
    ] {
        let first = changed(|facts| facts.missing = vec![missing]);
        let expected = (Problem, kind.clone(), vec!["node-1:6379".to_owned()]);
        assert_eq!(only(&first_of(3, first.clone())), expected);
        let no_quorum = FindingKind::NoQuorum {
            voting: 0,
            needed: 1,
        };
        let alone = of(&first_of(1, first));
        let alone: Vec<_> = alone.iter().map(|one| (one.severity, &one.kind)).collect();
        assert!(alone.contains(&(Problem, &no_quorum)), "{alone:?}");
        assert!(alone.contains(&(Problem, &kind)), "{alone:?}");
    }
}
