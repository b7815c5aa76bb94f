//! `docs/telemetry.md` says what there is, all of it, and nothing else.

use crate::journal::Journal;
use crate::measured;
use crate::scenario::{SECRET, everything};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tracing::Level;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cells of the table below a heading, without its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let page = repository().join("docs/telemetry.md");
    let page =
        fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let (_, below) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    let lines = below.lines().take_while(|line| !line.starts_with("## "));
    let rows = lines.filter(|line| line.starts_with('|')).skip(2);
    let rows = rows.map(|row| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    });
    let rows: Vec<_> = rows.collect();
    assert!(!rows.is_empty(), "no table below {heading:?}");
    rows
}

/// What stands in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The kind and the labels of each metric, and of a label with a closed set all of its words.
type Metrics = BTreeMap<String, (String, BTreeMap<String, BTreeSet<String>>)>;

fn metrics_in_the_docs() -> Metrics {
    let rows = table("Metrics").into_iter().map(|row| {
        let [metric, kind, labels, _] = &row[..] else {
            panic!("{row:?} has other columns");
        };
        let labels = labels.split(", ").map(|label| {
            let (label, words) = label.split_once('=').unwrap_or((label, ""));
            let words = quoted(words).into_iter().map(str::to_owned);
            (quoted(label)[0].to_owned(), words.collect())
        });
        (
            quoted(metric)[0].to_owned(),
            (kind.clone(), labels.collect()),
        )
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_emitted_is_what_the_page_says_and_no_key_is_above_debug_level() {
    let (journal, nodes) = everything().await;
    metrics_are_those_of_the_table(&nodes);
    spans_are_those_of_the_table(&journal);
    events_are_those_of_the_table(&journal);
}

/// Every one of the table was emitted, with these labels, and no other.
fn metrics_are_those_of_the_table(nodes: &[String]) {
    let mut emitted: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (metric, labels) in measured::used() {
        let known = emitted.entry(metric).or_default();
        for (label, value) in labels {
            known.entry(label).or_default().insert(value);
        }
    }
    let described = measured::described();
    let docs = metrics_in_the_docs();
    let names = |all: Vec<&String>| all.into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(docs.keys().collect()),
        names(emitted.keys().collect()),
        "in the docs, and emitted"
    );
    assert_eq!(
        names(docs.keys().collect()),
        names(described.keys().collect()),
        "in the docs, and described"
    );
    for (metric, (kind, labels)) in &docs {
        let is = &described[metric];
        let unit = match is.unit {
            Some(metrics::Unit::Seconds) => ", seconds",
            _ => "",
        };
        assert_eq!(*kind, format!("{}{unit}", is.kind), "{metric}");
        assert_eq!(metric.ends_with("_total"), is.kind == "counter", "{metric}");
        assert_eq!(
            metric.ends_with("_seconds"),
            unit == ", seconds",
            "{metric}"
        );
        let emitted = &emitted[metric];
        assert!(labels.keys().eq(emitted.keys()), "{metric}: {emitted:?}");
        for (label, words) in labels {
            match &**label {
                "name" => assert!(words.is_empty()),
                "node" => {
                    let found = &emitted[label];
                    assert!(nodes.iter().any(|node| found.contains(node)), "{found:?}");
                }
                _ => assert_eq!(*words, emitted[label], "{metric}, {label}"),
            }
        }
    }
    for (metric, labels) in measured::all() {
        for (_, value) in labels {
            assert!(!value.contains(SECRET), "{metric}: {value}");
        }
    }
}

fn spans_are_those_of_the_table(journal: &Journal) {
    let rows = table("The span");
    let fields: BTreeSet<_> = rows.iter().map(|row| quoted(&row[0])[0]).collect();
    let outcome = rows.iter().find(|row| row[0] == "`outcome`");
    let outcomes: BTreeSet<_> = quoted(&outcome.expect("a row")[2]).into_iter().collect();
    let mut seen = BTreeSet::new();
    for span in journal.spans() {
        assert_eq!(span.name, "distributed_lock");
        assert_eq!((span.level, span.target), (Level::INFO, "lock_runtime"));
        assert_eq!(
            span.declared.iter().copied().collect::<BTreeSet<_>>(),
            fields
        );
        assert!(span.is_closed, "{span:?}");
        seen.insert(span.fields["outcome"].clone());
    }
    assert!(seen.iter().map(|word| &**word).eq(outcomes), "{seen:?}");
}

/// The level, the message, and the fields of an event.
type EventRow = (String, String, BTreeSet<String>);

fn events_in_the_docs() -> BTreeSet<EventRow> {
    let rows = table("Events").into_iter().map(|row| {
        let [level, message, fields, _] = &row[..] else {
            panic!("{row:?} has other columns");
        };
        let fields = quoted(fields).into_iter().map(str::to_owned).collect();
        (level.clone(), message.clone(), fields)
    });
    rows.collect()
}

#[test]
fn every_event_that_the_code_has_is_in_the_table_and_no_other() {
    let mut in_the_code = BTreeSet::new();
    let mut folders = vec![repository().join("lock-runtime/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|is| is == "rs") {
                let source = fs::read_to_string(&path).expect("a source");
                in_the_code.extend(events_in(&source));
            }
        }
    }
    let docs = events_in_the_docs();
    let missing: Vec<_> = in_the_code.difference(&docs).collect();
    assert!(missing.is_empty(), "not in the docs: {missing:#?}");
    let gone: Vec<_> = docs.difference(&in_the_code).collect();
    assert!(gone.is_empty(), "not in the code: {gone:#?}");
}

fn events_are_those_of_the_table(journal: &Journal) {
    let docs = events_in_the_docs();
    let mut keys_seen = 0;
    let ours = journal.events().into_iter();
    for event in ours.filter(|event| event.target.starts_with("lock_runtime")) {
        let said = event.message();
        let fields = event.fields.keys().filter(|field| **field != "message");
        let fields: BTreeSet<_> = fields.map(|field| (*field).to_owned()).collect();
        let is_this = |(level, message, known): &&EventRow| {
            *level == event.level.to_string()
                && match message.split_once('…') {
                    Some((begin, end)) => said.starts_with(begin) && said.ends_with(end),
                    None => said == message,
                }
                && *known == fields
        };
        assert!(docs.iter().any(|row| is_this(&row)), "{event:?}");
        let shown = event.fields.values().any(|value| value.contains(SECRET));
        assert!(!shown || event.level >= Level::DEBUG, "{event:?}");
        keys_seen += usize::from(shown);
    }
    assert!(keys_seen > 0, "at debug level there are keys");
    for message in [
        "lock nodes gave no quorum",
        "lease not renewed yet",
        "lease renewed again",
        "lease lost",
        "lock release was not confirmed",
        "lock taken by force",
        "guarded body was stopped",
        "guarded function did not run",
        "skipped",
        "answered for a lock",
        "lock acquired",
        "lock not acquired",
    ] {
        assert!(journal.has(message), "{message}: never written");
    }
}

/// The events that a source writes.
fn events_in(source: &str) -> Vec<EventRow> {
    let mut events = Vec::new();
    for level in ["trace", "debug", "info", "warn", "error"] {
        for (at, call) in source.match_indices(&format!("tracing::{level}!(")) {
            let arguments = arguments(&source[at + call.len()..]);
            let (message, fields) = arguments.split_last().expect("a message");
            let fields = fields.iter().map(|field| {
                let name = field.split('=').next().unwrap_or(field);
                name.trim().trim_start_matches(['%', '?']).to_owned()
            });
            events.push((level.to_uppercase(), words(message), fields.collect()));
        }
    }
    events
}

/// What stands in a macro's parentheses, by its commas.
fn arguments(source: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for character in source.chars() {
        if in_string {
            in_string = character != '"' || escaped;
            escaped = character == '\\' && !escaped;
        } else {
            match character {
                '"' => in_string = true,
                '(' => depth += 1,
                ')' if depth == 0 => break,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    all.push(String::new());
                    continue;
                }
                _ => {}
            }
        }
        all.last_mut().expect("one").push(character);
    }
    let all = all.iter().map(|one| one.trim().to_owned());
    all.filter(|one| !one.is_empty()).collect()
}

/// A message as a reader sees it, with a mark where a value stands.
fn words(literal: &str) -> String {
    let text = literal.trim_matches('"');
    let lines = text.split("\\\n").map(str::trim_start);
    let text = lines.collect::<Vec<_>>().concat();
    match (text.find('{'), text.rfind('}')) {
        (Some(begin), Some(end)) => format!("{}…{}", &text[..begin], &text[end + 1..]),
        _ => text,
    }
}
