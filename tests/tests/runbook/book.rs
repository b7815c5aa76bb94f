//! The book itself: whoever is woken by an alert finds its section, and every link leads somewhere.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read(path: &Path) -> String {
    read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn book() -> String {
    read(&deploy().join("runbook.md"))
}

/// All rules of all files.
fn rules() -> String {
    let directory = deploy().join("prometheus/rules");
    let files = std::fs::read_dir(&directory);
    let files = files.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let files = files.map(|file| read(&file.expect("a file").path()));
    files.collect::<Vec<_>>().join("\n")
}

/// What stands behind the word, line by line.
fn behind<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix(word)).collect()
}

/// As those who show the page make it of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then(|| other.to_ascii_lowercase()),
    });
    kept.collect()
}

fn headings(book: &str) -> Vec<&str> {
    let marked = book.lines().filter(|line| line.starts_with('#'));
    let headings = marked.map(|line| line.trim_start_matches('#').trim());
    headings.collect()
}

#[test]
fn every_alert_has_its_section_and_every_section_its_alert() {
    let (rules, book) = (rules(), book());
    let alerts: BTreeSet<_> = behind(&rules, "- alert: ").into_iter().collect();
    let sections: BTreeSet<_> = behind(&book, "### ").into_iter().collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(alerts, sections);
    let pages: BTreeSet<_> = behind(&rules, "runbook_url: ")
        .into_iter()
        .map(|url| url.trim_matches('"').rsplit_once("deploy/runbook.md#"))
        .map(|parts| parts.expect("a section of the runbook").1.to_owned())
        .collect();
    let anchors: BTreeSet<_> = alerts.iter().map(|alert| anchor(alert)).collect();
    assert_eq!(pages, anchors);
}

#[test]
fn every_section_of_an_alert_says_what_is_wanted_at_night() {
    let book = book();
    let (alerts, _) = book.split_once("\n# Procedures").expect("a part");
    for section in alerts.split("\n### ").skip(1) {
        let (alert, text) = section.split_once('\n').expect("a heading");
        for word in ["Money at risk", "Look", "Wake"] {
            assert!(text.contains(&format!("- **{word}")), "{alert}: {word}");
        }
        let says_what_to_do = ["- **Do", "- **Look and do"];
        assert!(says_what_to_do.iter().any(|w| text.contains(w)), "{alert}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let book = book();
    let anchors: BTreeSet<_> = headings(&book).into_iter().map(anchor).collect();
    // And the page that leads here.
    let pages = book + &read(&deploy().join("README.md"));
    let links = pages.split("](").skip(1);
    let links: Vec<_> = links.filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 30, "{links:?}");
    for link in links {
        if let Some(section) = link.strip_prefix('#') {
            assert!(anchors.contains(section), "no such section: {link}");
        } else {
            let path = link.split('#').next().expect("there is a first one");
            assert!(deploy().join(path).exists(), "no such file: {link}");
        }
    }
}
