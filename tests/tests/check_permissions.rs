//! What a check finds of a user who may do less than locks need.

use lock_runtime::{FindingKind, LockManager, Report, Severity};
use lock_tests::version::is_before_7;
use lock_tests::{RedisServer, acl};
use std::time::Duration;

/// For a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(1);

/// The user that the README describes, with further rules, and its nodes.
struct Deployment {
    server: RedisServer,
    locks: LockManager,
}

impl Deployment {
    fn start(rules: &[&str]) -> Self {
        // The harness has such a user for keys without a prefix.
        let server = RedisServer::options().everything_permitted().start();
        server.command::<()>(&acl::line(acl::USER));
        let further: Vec<_> = ["ACL", "SETUSER", "shop"]
            .iter()
            .chain(rules)
            .copied()
            .collect();
        server.command::<()>(&further);
        let locks = LockManager::builder()
            .node(format!("redis://shop:password@{}", server.name()))
            .node_timeout(PATIENCE)
            .prefix("shop:");
        let locks = locks.build().expect("a good configuration");
        Self { server, locks }
    }

    async fn check(&self) -> Report {
        let report = self.locks.check().await;
        assert_eq!(self.server.keys("*"), Vec::<String>::new());
        report
    }
}

fn kinds(report: &Report) -> impl Iterator<Item = &FindingKind> {
    report.findings().iter().map(lock_runtime::Finding::kind)
}

/// What the report says is missing, and how bad that is.
fn missing(report: &Report) -> Option<(Severity, Vec<&str>)> {
    report
        .findings()
        .iter()
        .find_map(|finding| match finding.kind() {
            FindingKind::NotPermitted { rules, .. } => {
                let rules = rules.iter().map(|rule| &**rule).collect();
                Some((finding.severity(), rules))
            }
            _ => None,
        })
}

/// All that could not be looked at is how it writes to disk.
#[tokio::test]
async fn nothing_is_missing_with_the_line_of_the_readme() {
    let deployment = Deployment::start(&[]);
    let report = deployment.check().await;
    assert_eq!(missing(&report), None, "{report}");
    let unseen: Vec<_> = kinds(&report)
        .filter_map(|kind| match kind {
            FindingKind::NotLookedAt { rule, .. } => Some(*rule),
            _ => None,
        })
        .collect();
    assert_eq!(unseen, ["+config|get"], "{report}");

    let deployment = Deployment::start(&["+config|get"]);
    let report = deployment.check().await;
    let unseen = kinds(&report).any(|kind| matches!(kind, FindingKind::NotLookedAt { .. }));
    assert!(
        !unseen,
        "what it says has to be permitted is enough\n{report}"
    );
}

/// What is named as missing is what was taken away.
#[tokio::test]
async fn each_command_that_is_missing_is_named() {
    use Severity::{Problem, Warning};
    for (command, severity) in [
        ("get", Problem),
        ("set", Problem),
        ("del", Problem),
        ("pttl", Warning),
        ("pexpire", Warning),
        ("publish", Warning),
        ("subscribe", Warning),
        ("unsubscribe", Warning),
        ("ping", Warning),
    ] {
        let deployment = Deployment::start(&[&format!("-{command}")]);
        let report = deployment.check().await;
        let rule = format!("+{command}");
        assert_eq!(missing(&report), Some((severity, vec![&*rule])), "{report}");

        deployment
            .server
            .command::<()>(&["ACL", "SETUSER", "shop", &rule]);
        assert_eq!(missing(&deployment.check().await), None, "{rule} is enough");
    }
}

#[tokio::test]
async fn each_pattern_that_is_missing_is_named() {
    use Severity::{Problem, Warning};
    for (patterns, severity, expected) in [
        (&["resetkeys", "~{shop:*"][..], Problem, &["~shop:*"][..]),
        (&["resetkeys", "~shop:*"], Warning, &["~{shop:*"]),
        (&["resetkeys"], Problem, &["~shop:*", "~{shop:*"]),
        (&["resetchannels", "&shop:*"], Warning, &["&{shop:*"]),
        (&["resetchannels", "&{shop:*"], Warning, &["&shop:*"]),
    ] {
        let deployment = Deployment::start(patterns);
        let report = deployment.check().await;
        assert_eq!(
            missing(&report),
            Some((severity, expected.to_vec())),
            "{report}"
        );

        let rules: Vec<_> = ["ACL", "SETUSER", "shop"]
            .iter()
            .chain(expected)
            .copied()
            .collect();
        deployment.server.command::<()>(&rules);
        assert_eq!(missing(&deployment.check().await), None, "{expected:?}");
    }
}

/// Such a server is not used at all, and the reason has the name.
#[tokio::test]
async fn without_scripts_a_node_is_down() {
    // Redis 6.2 cannot take back a part of a command.
    let load = if is_before_7() {
        "script"
    } else {
        "script|load"
    };
    for command in ["evalsha", load] {
        let deployment = Deployment::start(&[&format!("-{command}")]);
        let report = deployment.check().await;
        let says = |kind: &FindingKind| matches!(kind, FindingKind::Down { reason, .. } if reason.contains(command));
        assert!(kinds(&report).any(says), "{report}");
        assert!(!report.is_safe());
    }
}

#[tokio::test]
async fn without_info_it_is_said_what_is_not_known() {
    let deployment = Deployment::start(&["-info"]);
    let report = deployment.check().await;
    let said = |finding: &&lock_runtime::Finding| {
        matches!(
            finding.kind(),
            FindingKind::NotLookedAt { rule: "+info", .. }
        )
    };
    let finding = report.findings().iter().find(said).expect("it is said");
    assert_eq!(finding.severity(), Severity::Warning);
    assert_eq!(report.servers()[0].version(), None);
}

#[tokio::test]
async fn a_command_that_was_renamed_is_named() {
    let server = RedisServer::options()
        .also_permitted("+config|get")
        .without("PTTL")
        .without("DEL")
        .start();
    let locks = LockManager::builder()
        .node(server.url())
        .node_timeout(PATIENCE)
        .build()
        .unwrap();
    let report = locks.check().await;
    let named = |kind: &FindingKind| {
        matches!(kind, FindingKind::UnknownCommands { commands, .. }
            if commands.iter().map(|command| &**command).eq(["del", "pttl"]))
    };
    assert!(kinds(&report).any(named), "{report}");
    assert!(!report.is_safe());
}
