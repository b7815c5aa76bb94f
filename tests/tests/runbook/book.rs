//! The book itself: whoever is woken by an alert finds its section, and every link, here and on the other pages, leads somewhere.

use lock_tests::RedisServer;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// All pages of the repository that people read where it is kept.
fn pages() -> Vec<PathBuf> {
    let repository = deploy().join("..");
    let mut pages = pages_in(&repository, false);
    for directory in ["docs", "deploy", "examples", "lock-macros/docs"] {
        pages.extend(pages_in(&repository.join(directory), true));
    }
    pages
}

fn pages_in(directory: &Path, and_below: bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut pages = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() && and_below {
            pages.extend(pages_in(&path, true));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

/// Without its blocks of code: there a number sign and a bracket are something else.
fn prose(page: &Path) -> String {
    let text = read(page);
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    for page in pages() {
        let prose = prose(&page);
        let links = prose.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            count += 1;
            let (path, section) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().expect("a directory").join(path),
            };
            let page = page.display();
            assert!(target.exists(), "{page}: no such file: {link}");
            if !section.is_empty() {
                let prose = self::prose(&target);
                let is_there = headings(&prose).into_iter().any(|it| anchor(it) == section);
                assert!(is_there, "{page}: no such section: {link}");
            }
        }
    }
    assert!(count > 60, "{count} links were found");
}

/// With the commands of the book, but for the port: both passwords are taken in between. What others on the machine can see of a
/// command is its line, so there is no password in it.
#[test]
fn a_password_is_changed_as_it_says() {
    let server = RedisServer::start();
    let book = book();
    let codes = book.split('`').skip(1).step_by(2);
    let commands: Vec<_> = codes
        .filter(|code| code.contains("redis-cli") && code.contains("acl setuser"))
        .collect();
    let port = server.port().to_string();
    let run = |command: &str| {
        assert!(command.contains("-p 7601 "), "{command}");
        let output = Command::new("sh")
            .args(["-c", &command.replace("7601", &port)])
            .env("old", "the-old-one")
            .env("new", "the-new-one")
            .output();
        let output = output.expect("there is a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "OK");
    };
    let takes = |password: &str| {
        let client = redis::Client::open(format!("redis://shop:{password}@{}", server.name()));
        client.is_ok_and(|client| client.get_connection().is_ok())
    };
    let [both, last] = commands[..] else {
        panic!("one that adds and one that removes: {commands:?}");
    };
    assert!(
        commands
            .iter()
            .all(|it| it.ends_with("-x acl setuser shop")),
        "{commands:?}"
    );
    run(&both.replace("$new", "$old"));
    let _: String = server.command(&["ACL", "SETUSER", "shop", "on", "+@all"]);
    assert_eq!((takes("the-old-one"), takes("the-new-one")), (true, false));
    run(both);
    assert_eq!((takes("the-old-one"), takes("the-new-one")), (true, true));
    run(last);
    assert_eq!((takes("the-old-one"), takes("the-new-one")), (false, true));
}
