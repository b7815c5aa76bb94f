//! The rules say what they should, and when.

use super::{deploy, files, list, read, text, yaml};
use lock_tests::prometheus::promtool;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Every alert that there is, with what the rules say of it.
fn alerts() -> BTreeMap<String, Value> {
    let mut alerts = BTreeMap::new();
    for file in files("prometheus/rules") {
        for group in list(&yaml(&file)["groups"]) {
            for rule in list(&group["rules"]) {
                if let Some(name) = rule["alert"].as_str() {
                    let twice = alerts.insert(name.to_owned(), rule.clone());
                    assert_eq!(twice, None, "{name} is there twice");
                }
            }
        }
    }
    assert!(alerts.len() >= 20, "{alerts:?}");
    alerts
}

fn promtool_says(words: &[&str], files: &[PathBuf]) -> Output {
    let output = promtool().args(words).args(files).output();
    output.expect("promtool can be run")
}

#[track_caller]
fn assert_good(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let against = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{against}");
}

#[test]
fn promtool_takes_rules_and_configurations() {
    assert_good(&promtool_says(
        &["check", "rules"],
        &files("prometheus/rules"),
    ));
    // With all that it names. That of Kubernetes is read by another test.
    let configuration = deploy("prometheus/prometheus.yml");
    assert_good(&promtool_says(&["check", "config"], &[configuration]));
}

#[test]
fn the_tests_of_the_rules_pass() {
    assert_good(&promtool_says(
        &["test", "rules"],
        &files("prometheus/tests"),
    ));
}

/// Changed in every alert at once, how long it waits is noticed of each that waits.
#[test]
fn the_tests_of_the_rules_notice_another_duration() {
    let waiting = alerts().into_iter();
    let waiting: Vec<_> = waiting
        .filter(|(_, rule)| rule["for"].is_string())
        .map(|(name, _)| name)
        .collect();
    assert!(waiting.len() > 10, "{waiting:?}");
    let changes = [("halved", 30), ("doubled", 120)];
    std::thread::scope(|all| {
        for (change, minute) in changes {
            let waiting = &waiting;
            all.spawn(move || {
                let said = said_of(|rules| with_minutes_of(rules, minute));
                for name in waiting {
                    let noticed = said.contains(&format!("alertname: {name},"));
                    assert!(noticed, "{name} {change}: {said}");
                }
            });
        }
    });
}

/// What the tests say against rules that were changed.
fn said_of(change: impl Fn(&str) -> String) -> String {
    let copy = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    let copied = |part: &str, change: &dyn Fn(&str) -> String| {
        let to = copy.path().join(part);
        std::fs::create_dir(&to).expect("the directory is ours");
        let copied = files(&format!("prometheus/{part}"))
            .into_iter()
            .map(|file| {
                let to = to.join(file.file_name().expect("a file"));
                std::fs::write(&to, change(&read(&file))).expect("the directory is ours");
                to
            });
        copied.collect::<Vec<_>>()
    };
    copied("rules", &change);
    let tests = copied("tests", &str::to_owned);
    let output = promtool_says(&["test", "rules"], &tests);
    assert!(!output.status.success(), "nothing was noticed");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Every `for: Nm`, where a minute has so many seconds.
fn with_minutes_of(text: &str, seconds: u32) -> String {
    let line = |line: &str| {
        let minutes = line.trim().strip_prefix("for: ");
        match minutes.and_then(|minutes| minutes.strip_suffix('m')) {
            Some(minutes) => {
                let minutes: u32 = minutes.parse().expect("whole minutes");
                format!("        for: {}s\n", minutes * seconds)
            }
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// A rule that always fires, or never, is noticed: each has both.
#[test]
fn each_alert_is_tested_where_it_fires_and_where_it_does_not() {
    let mut tried: BTreeMap<String, [bool; 2]> = BTreeMap::new();
    for file in files("prometheus/tests") {
        for test in list(&yaml(&file)["tests"]) {
            for case in test["alert_rule_test"].as_array().into_iter().flatten() {
                let fires = !list(&case["exp_alerts"]).is_empty();
                tried
                    .entry(text(&case["alertname"]).to_owned())
                    .or_default()[usize::from(fires)] = true;
            }
        }
    }
    for name in alerts().keys() {
        assert_eq!(tried.get(name), Some(&[true, true]), "{name}");
    }
    assert_eq!(tried.len(), alerts().len());
}

#[test]
fn each_alert_says_how_urgent_it_is_and_what_to_do() {
    let list_of_alerts = read(&deploy("prometheus/README.md"));
    for (name, rule) in alerts() {
        let severity = text(&rule["labels"]["severity"]);
        assert!(["page", "ticket"].contains(&severity), "{name}: {severity}");
        for part in ["summary", "description"] {
            assert!(!text(&rule["annotations"][part]).is_empty(), "{name}");
        }
        let anchor = format!("deploy/runbook.md#{}", name.to_lowercase());
        let url = text(&rule["annotations"]["runbook_url"]);
        assert!(url.ends_with(&anchor), "{name}: {url}");
        let row = format!("| `{name}` | {severity} |");
        assert!(list_of_alerts.contains(&row), "no row {row}");
    }
}

/// What the rules ask for is what the library measures, and nothing that was renamed since.
#[test]
fn rules_ask_for_metrics_that_there_are() {
    let documented = read(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/telemetry.md"
    )));
    for file in files("prometheus/rules") {
        for group in list(&yaml(&file)["groups"]) {
            for rule in list(&group["rules"]) {
                for metric in metrics_of(text(&rule["expr"])) {
                    assert!(documented.contains(&format!("`{metric}`")), "{metric}");
                }
            }
        }
    }
}

/// The library's names in an expression, without what Prometheus adds to a histogram's.
fn metrics_of(expression: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = expression.split(|c| !is_name(c));
    let ours = words.filter(|word| word.starts_with("lock_"));
    let base = |word| {
        let suffixes = ["_bucket", "_count", "_sum"];
        let base = suffixes
            .iter()
            .find_map(|suffix| str::strip_suffix(word, suffix));
        base.unwrap_or(word)
    };
    ours.map(base).collect()
}
