//! A process that stands still between looking at its clock and having the lock may have it because another is through with
//! this very tick.

use lock_tests::cron::{Ended, Journal, KEY};
use lock_tests::processes::{Peer, example};
use lock_tests::{DEADLINE, Fleet, Mode, WallClock, eventually};
use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;
use tempfile::TempDir;

/// On the way back: shorter than the client is patient, and long enough to set a clock.
const ANSWERS: Duration = Duration::from_millis(35);

#[tokio::test]
async fn who_has_the_lock_and_is_late_by_then_does_not_run() {
    let fleet = Fleet::start(1).behind_proxies();
    fleet.proxies()[0].set(Mode::Delay {
        requests: Duration::ZERO,
        answers: ANSWERS,
    });
    let directory = TempDir::with_prefix("lock-tests-").unwrap();
    let [log, journal] = ["log", "journal"].map(|name| directory.path().join(name));
    let clock = WallClock::new();
    let mut command = example("cron");
    clock.rule(&mut command);
    command
        .env("LOCK_NODES", fleet.lock_nodes())
        .args(["--ticks", "forever", "--replica", "a", "--journal"])
        .arg(&journal)
        .stderr(File::create(&log).unwrap());
    let mut process = Peer::start(command);

    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (mut ahead, mut seen) = (0, BTreeSet::new());
    eventually(DEADLINE, "it was late in between", || {
        // Granted by the server, and not known to be by the client.
        let granted = fleet.values(KEY).remove(0);
        if granted.is_some_and(|owner| seen.insert(owner)) {
            ahead += 1;
            clock.set(ahead);
        }
        read(&log).contains("too late to run")
    })
    .await;
    process.terminate();
    let (status, lines) = process.finish().await;
    let ended = Ended {
        name: "a".to_owned(),
        code: status.code(),
        lines,
        log: read(&log),
    };
    assert!(ended.summary().is_some(), "{ended:#?}");
    let late = ended.logged("too late to run");
    assert!(!late.is_empty(), "{ended:#?}");
    let skipped = ended.ticks("skipped");
    assert!(late.iter().all(|tick| skipped.contains(tick)), "{ended:#?}");
    let runs = Journal::parse(&read(&journal)).runs();
    let late_runs = runs.iter().filter(|run| late.contains(&run.tick));
    assert_eq!(late_runs.count(), 0, "{runs:?}\n{ended:#?}");
}
