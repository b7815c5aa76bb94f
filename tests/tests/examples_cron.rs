//! The examples `cron` and `quickstart` as users run them: one run per tick, and output that a script can read.

use lock_tests::processes::{Peer, example};
use lock_tests::{DEADLINE, Fleet, eventually};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

/// For how long the example keeps the lock of a tick, however short the job.
const HOLD: Duration = Duration::from_millis(750);

/// The example, on embedded nodes whatever the environment of the tests says.
fn cron(arguments: &[&str]) -> Command {
    let mut command = example("cron");
    command.env_remove("LOCK_NODES").args(arguments);
    command
}

/// Runs a program to its end: its exit code and its standard output.
async fn run(command: Command) -> (Option<i32>, Vec<String>) {
    let (status, lines) = Peer::start(command).finish().await;
    (status.code(), lines)
}

/// Who ran and who skipped, by tick.
#[derive(Debug, Default)]
struct Ticks(BTreeMap<String, Tick>);

#[derive(Debug, Default)]
struct Tick {
    ran: BTreeSet<String>,
    skipped: BTreeSet<String>,
}

impl Ticks {
    /// Notes a line, which must be exactly as promised and say something new.
    #[track_caller]
    fn note(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let [tick, replica, outcome] = words[..] else {
            panic!("not three words: {line:?}");
        };
        let time = tick.strip_prefix("tick=").expect(line);
        let replica = replica.strip_prefix("replica=").expect(line);
        assert!(is_utc_second(time), "{line:?}");
        assert!(!replica.is_empty(), "{line:?}");
        let Tick { ran, skipped } = self.0.entry(time.to_owned()).or_default();
        let (there, elsewhere) = match outcome {
            "ran" => (ran, skipped),
            "skipped" => (skipped, ran),
            _ => panic!("neither ran nor skipped: {line:?}"),
        };
        let new = there.insert(replica.to_owned()) && !elsewhere.contains(replica);
        assert!(new, "a second time: {line:?}");
    }

    /// Nobody has run what another has.
    #[track_caller]
    fn assert_no_tick_ran_twice(&self) {
        for (time, tick) in &self.0 {
            assert!(tick.ran.len() <= 1, "{time}: {tick:?}");
        }
    }

    /// The ticks with a line from so many replicas, earliest first; each of them was run.
    #[track_caller]
    fn seen_by(&self, replicas: usize) -> Vec<&str> {
        let seen = |tick: &Tick| tick.ran.len() + tick.skipped.len() == replicas;
        let ticks: Vec<_> = self.0.iter().filter(|(_, tick)| seen(tick)).collect();
        for (time, tick) in &ticks {
            assert_eq!(tick.ran.len(), 1, "{time}: {tick:?}");
        }
        ticks.into_iter().map(|(time, _)| time.as_str()).collect()
    }
}

/// `2026-11-29T15:00:02Z`.
fn is_utc_second(time: &str) -> bool {
    let digit_or_itself = |c: char| if c.is_ascii_digit() { '0' } else { c };
    time.chars().map(digit_or_itself).collect::<String>() == "0000-00-00T00:00:00Z"
}

#[tokio::test]
async fn three_replicas_in_one_process_run_each_tick_once() {
    let (code, mut lines) = run(cron(&["--ticks", "3", "--skew", "500ms"])).await;
    assert_eq!(
        lines.pop().as_deref(),
        Some("ticks=3 runs=3 skips=6"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 9, "{lines:?}");
    let mut ticks = Ticks::default();
    for line in &lines {
        ticks.note(line);
    }
    assert_eq!(ticks.seen_by(3).len(), 3, "{lines:?}");
    let replicas = |tick: &Tick| tick.ran.union(&tick.skipped).cloned().collect::<Vec<_>>();
    for tick in ticks.0.values() {
        assert_eq!(replicas(tick), ["a", "b", "c"]);
    }
    assert_eq!(code, Some(0));
}

/// All clocks strike at once, and what is printed is when the job was due.
#[tokio::test]
async fn the_schedule_is_kept_without_skew() {
    let arguments = [
        "--schedule",
        "*/2 * * * * *",
        "--ticks",
        "1",
        "--skew",
        "0ms",
    ];
    let (code, lines) = run(cron(&arguments)).await;
    let mut ticks = Ticks::default();
    for line in &lines[..3] {
        ticks.note(line);
    }
    let due = ticks.seen_by(3)[0];
    let even = ["0Z", "2Z", "4Z", "6Z", "8Z"];
    assert!(even.iter().any(|second| due.ends_with(second)), "{due}");
    assert_eq!(lines[3..], ["ticks=1 runs=1 skips=2"]);
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn help_is_printed_where_it_was_asked_for() {
    let (code, lines) = run(cron(&["--help"])).await;
    assert_eq!(code, Some(0));
    let options = [
        "--schedule",
        "--ticks",
        "--skew",
        "--replicas",
        "--replica ",
        "--job",
        "--ttl",
        "--journal",
        "--grace",
    ];
    for option in options {
        let explained = lines.iter().any(|line| line.contains(option));
        assert!(explained, "{option}: {lines:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_before_anything_runs() {
    let bad: [&[&str]; 13] = [
        &["--nonsense"],
        &["--ticks", "many"],
        &["--skew", "501ms"],
        &["--job", "3"],
        &["--ttl", "999ms"],
        &["--ttl", "61s"],
        &["--journal", "/"],
        &["--grace", "99999999999999999999s"],
        &["--replicas", "0"],
        &["--schedule", "now and then"],
        &["--schedule", "0 0 0 30 2 *"],
        &["--replica", "a"],
        &["surplus"],
    ];
    for arguments in bad {
        let outcome = run(cron(arguments)).await;
        assert_eq!(outcome, (Some(2), Vec::new()), "{arguments:?}");
    }
    let mut command = cron(&["--replicas", "3"]);
    command.env("LOCK_NODES", "redis://127.0.0.1:1");
    assert_eq!(run(command).await, (Some(2), Vec::new()));
}

#[tokio::test]
async fn each_step_of_a_job_is_in_the_journal() {
    let directory = tempfile::TempDir::with_prefix("lock-tests-").unwrap();
    let journal = directory.path().join("journal");
    let mut command = cron(&["--ticks", "2", "--skew", "500ms", "--journal"]);
    command.arg(&journal);
    let (code, lines) = run(command).await;
    assert_eq!(code, Some(0));
    let ran = lines.iter().filter_map(|line| line.strip_suffix(" ran"));
    let expected: Vec<_> = ran
        .flat_map(|run| (0..=4).map(move |step| format!("{run} step={step}/4")))
        .collect();
    assert_eq!(expected.len(), 10, "{lines:?}");
    let journal = std::fs::read_to_string(journal).unwrap();
    let steps = journal.lines().map(|line| {
        let (step, at) = line.rsplit_once(" at=").expect(line);
        let (second, millis) = at.split_at(at.len() - ".000Z".len());
        assert!(is_utc_second(&format!("{second}Z")), "{line}");
        assert_eq!(millis.find('.'), Some(0), "{line}");
        step
    });
    assert_eq!(steps.collect::<Vec<_>>(), expected);
}

/// One replica whose job takes so long that it runs when `SIGTERM` comes; returns how it ended.
async fn told_to_stop(fleet: &Fleet, grace: &str) -> (Option<i32>, Vec<String>) {
    let job = ["--replica", "a", "--job", "3s", "--grace", grace];
    let mut command = cron(&job);
    command.env("LOCK_NODES", fleet.lock_nodes());
    let mut process = Peer::start(command);
    eventually(DEADLINE, "the job runs", || {
        fleet.nodes_with("cron:clean-up") == 5
    })
    .await;
    process.terminate();
    let (status, lines) = process.finish().await;
    (status.code(), lines)
}

/// What an orchestrator does to a pod: the job in hand is finished, and no lock is left for the TTL to end.
#[tokio::test]
async fn a_job_that_runs_is_finished_before_the_process_stops() {
    let fleet = Fleet::start(5);
    let (code, lines) = told_to_stop(&fleet, "25s").await;
    assert_eq!(
        fleet.nodes_with("cron:clean-up"),
        0,
        "it exited before it released"
    );
    let [ran, summary] = &lines[..] else {
        panic!("not two lines: {lines:?}");
    };
    assert!(ran.ends_with("replica=a ran"), "{lines:?}");
    assert_eq!(summary, "ticks=1 runs=1 skips=0");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn a_job_that_takes_too_long_is_stopped_and_its_lock_is_released() {
    let fleet = Fleet::start(5);
    let (code, lines) = told_to_stop(&fleet, "0s").await;
    // What the lock was to be kept for at least may still be left of it, which is less than a second of its five.
    fleet.assert_no_keys_within(HOLD * 2, "*").await;
    assert_eq!(lines, ["ticks=1 runs=0 skips=0"]);
    assert_eq!(code, Some(1));
}

/// Two of five are no majority: nobody knows whether another replica runs, so nobody does.
#[tokio::test]
async fn without_a_majority_nothing_runs_and_the_exit_code_says_so() {
    let fleet = Fleet::start(5);
    for server in &fleet.servers()[..3] {
        server.kill();
    }
    let mut command = cron(&["--ticks", "2", "--replica", "a"]);
    command.env("LOCK_NODES", fleet.lock_nodes());
    let outcome = run(command).await;
    assert_eq!(
        outcome,
        (Some(1), vec!["ticks=2 runs=0 skips=0".to_owned()])
    );
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn nodes_that_cannot_be_used_are_not_ignored() {
    let mut command = cron(&["--ticks", "1"]);
    command.env("LOCK_NODES", "not a URL");
    assert_eq!(run(command).await, (Some(1), Vec::new()));
}

/// Without its prefix it would lock other keys than the replicas that can read theirs.
#[tokio::test]
async fn what_cannot_be_read_in_the_environment_is_not_ignored() {
    for name in ["LOCK_NODES", "LOCK_PREFIX", "LOCK_HOLDER"] {
        let mut command = cron(&["--ticks", "1"]);
        command.env("LOCK_NODES", "redis://127.0.0.1:1");
        command.env(name, OsStr::from_bytes(b"shop\xff:"));
        assert_eq!(run(command).await, (Some(1), Vec::new()), "{name}");
    }
}

#[tokio::test]
async fn quickstart_charges_each_order_once() {
    let mut command = example("quickstart");
    command.env_remove("LOCK_NODES");
    let (code, lines) = run(command).await;
    assert_eq!(code, Some(0));
    let [first, second, other] = &lines[..] else {
        panic!("not three lines: {lines:?}");
    };
    let charged = "order 1 is charged";
    let refused = match (first == charged, second == charged) {
        (true, false) => second,
        (false, true) => first,
        _ => panic!("order 1 is not charged once: {lines:?}"),
    };
    assert!(refused.starts_with("lock `order:1` is busy"), "{lines:?}");
    assert_eq!(other, "order 2 is charged");
}

mod heavy {
    use super::*;

    const TICKS: usize = 8;
    const REPLICAS: [(&str, &str); 3] = [("a", "0ms"), ("b", "250ms"), ("c", "500ms")];

    fn start(fleet: &Fleet, (name, skew): (&str, &str)) -> Peer {
        let ticks = TICKS.to_string();
        let mut command = cron(&["--ticks", &ticks, "--replica", name, "--skew", skew]);
        command.env("LOCK_NODES", fleet.lock_nodes());
        Peer::start(command)
    }

    #[tokio::test]
    async fn three_processes_run_each_tick_once_while_a_server_dies() {
        let fleet = Fleet::start(5);
        let mut replicas = REPLICAS.map(|replica| start(&fleet, replica));
        let mut ticks = Ticks::default();
        ticks.note(&replicas[0].line().await);
        let before = ticks.0.keys().next().cloned().expect("a tick");
        fleet.servers()[0].kill();

        let mut runs = 0;
        for replica in &mut replicas {
            let (code, mut lines) = replica.finish().await;
            let summary = lines.pop().expect("a last line");
            for line in &lines {
                ticks.note(line);
            }
            let [seen, ran, skipped] = figures(&summary);
            assert_eq!(seen, TICKS, "{summary}");
            // Where others take the cores, a node's answer may come too late for a tick to be decided; this is told.
            let all_decided = ran + skipped == TICKS;
            assert_eq!(code.success(), all_decided, "{code}, {summary}: {lines:?}");
            runs += ran;
        }
        let told: usize = ticks.0.values().map(|tick| tick.ran.len()).sum();
        assert_eq!(told, runs, "{ticks:?}");
        ticks.assert_no_tick_ran_twice();
        let together = ticks.seen_by(3);
        let after = together.iter().filter(|time| ***time > *before).count();
        assert!(after >= 3, "too few ticks after {before}: {together:?}");
        fleet.assert_no_keys("*").await;
    }

    /// `ticks=8 runs=3 skips=5` → `[8, 3, 5]`.
    fn figures(summary: &str) -> [usize; 3] {
        let mut words = summary.split(' ');
        let figures = ["ticks=", "runs=", "skips="].map(|name| {
            let figure = words.next().and_then(|word| word.strip_prefix(name));
            figure
                .and_then(|figure| figure.parse().ok())
                .expect(summary)
        });
        assert_eq!(words.next(), None, "{summary}");
        figures
    }
}
