//! The dashboard is well made, as far as that can be seen without Grafana.

use super::{deploy, list, read, text};
use serde_json::Value;
use std::collections::BTreeSet;

const COLUMNS: u64 = 24;

/// The dashboard, as it is imported.
pub(crate) fn dashboard() -> Value {
    serde_json::from_str(&read(&deploy("grafana/dashboard.json"))).expect("it is JSON")
}

/// What a panel asks: its title, the expression as Prometheus gets it, and whether it is asked for one moment only.
pub(crate) struct Question {
    pub(crate) title: String,
    pub(crate) expression: String,
    pub(crate) instant: bool,
}

/// What all panels ask, for every service and name, and with rates over ten seconds.
pub(crate) fn questions(dashboard: &Value) -> Vec<Question> {
    let asks = |panel: &Value| {
        let title = text(&panel["title"]).to_owned();
        let targets = list(&panel["targets"]).to_owned();
        targets.into_iter().map(move |target| Question {
            title: title.clone(),
            expression: substituted(text(&target["expr"])),
            instant: target["instant"] == true,
        })
    };
    panels(dashboard).flat_map(asks).collect()
}

/// As Grafana fills in a variable of which everything is selected.
pub(crate) fn substituted(expression: &str) -> String {
    let variables = [
        ("$__rate_interval", "10s"),
        ("$namespace", ".*"),
        ("$job", ".+"),
        ("$name", ".+"),
        ("$redis", "lock-redis"),
    ];
    let filled = |text: String, (name, value): &(&str, &str)| {
        // `$name` is also how another begins.
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let mut parts = text.split(name);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            filled += if ends(part) { value } else { name };
            filled += part;
        }
        filled
    };
    let expression = variables.iter().fold(expression.to_owned(), filled);
    assert!(!expression.contains('$'), "{expression}");
    expression
}

/// All that show something.
fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = list(&dashboard["panels"]).iter();
    panels.filter(|panel| panel["type"] != "row")
}

#[test]
fn panels_lie_side_by_side() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in list(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64()), "the id of {title}");
        let at = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
        let (x, y) = (at("x"), at("y"));
        assert!(
            at("w") > 0 && at("h") > 0 && x + at("w") <= COLUMNS,
            "{title}"
        );
        for column in x..x + at("w") {
            for row in y..y + at("h") {
                assert!(taken.insert((column, row)), "{title} covers another");
            }
        }
    }
}

#[test]
fn each_panel_is_explained_and_asks_the_chosen_prometheus() {
    let dashboard = dashboard();
    let chosen = |part: &Value| {
        let source = &part["datasource"];
        source["type"] == "prometheus" && source["uid"] == "${datasource}"
    };
    let mut titles = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = text(&panel["title"]);
        assert!(titles.insert(title), "{title} is there twice");
        assert!(text(&panel["description"]).ends_with('.'), "{title}");
        assert!(
            chosen(panel) && list(&panel["targets"]).iter().all(chosen),
            "{title}"
        );
        let unit = &panel["fieldConfig"]["defaults"]["unit"];
        let has_figures = !["table", "state-timeline"].contains(&text(&panel["type"]));
        assert_eq!(unit.is_string(), has_figures, "the unit of {title}");
        let mut references = BTreeSet::new();
        for target in list(&panel["targets"]) {
            assert!(references.insert(text(&target["refId"])), "{title}");
            // Whoever looks at one service sees that one.
            let expression = text(&target["expr"]);
            let selects = ["$job", "$redis", "ALERTS{"];
            assert!(
                selects.iter().any(|what| expression.contains(what)),
                "{title}"
            );
        }
    }
    for variable in list(&dashboard["templating"]["list"]) {
        let asks = variable["type"] == "datasource" || chosen(variable);
        assert!(asks, "{variable}");
    }
    assert!(list(&dashboard["annotations"]["list"]).iter().all(chosen));
    // By it links find the dashboard again, wherever it was imported.
    assert_eq!(dashboard["uid"], "lock-runtime");
    assert!(dashboard["id"].is_null());
}

#[test]
fn all_that_an_operator_asks_first_is_there() {
    let dashboard = dashboard();
    let questions = questions(&dashboard);
    for metric in [
        "lock_quorum_attempts_total",
        "lock_node_round_trip_seconds_bucket",
        "lock_node_failures_total",
        "lock_node_up",
        "lock_node_votes",
        "lock_acquisitions_total",
        "lock_wait_seconds_bucket",
        "lock_hold_seconds_bucket",
        "lock_hold_ratio_bucket",
        "lock_renewals_total",
        "name_reason:lock_losses:increase10m",
        "name:lock_releases_failed:increase10m",
        "lock_waiters",
        "lock_handovers_total",
        "redis_memory_used_bytes",
        "redis_memory_max_bytes",
    ] {
        let asked = questions
            .iter()
            .any(|question| question.expression.contains(metric));
        assert!(asked, "{metric}");
    }
}
