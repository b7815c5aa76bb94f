//! What must not become of a tick is found where it does.

use crate::failure;
use lock_tests::cron::{Ended, Journal, Told, time_of};
use std::time::Duration;

/// A journal of `tick replica step` a line, within one minute.
fn journal(steps: &[&str]) -> Journal {
    let line = |step: &&str| {
        let [tick, replica, step] = step.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not three words: {step}");
        };
        format!(
            "tick=2026-11-29T15:00:0{tick}Z replica={replica} step={step}/4 at=2026-11-29T15:00:0{tick}.250Z\n"
        )
    };
    Journal::parse(&steps.iter().map(line).collect::<String>())
}

const WHOLE: [&str; 5] = ["1 a 0", "1 a 1", "1 a 2", "1 a 3", "1 a 4"];

fn ended(name: &str, outcomes: &[(&str, &str)], log: &str) -> Ended {
    let line = |(tick, outcome): &(&str, &str)| {
        format!("tick=2026-11-29T15:00:0{tick}Z replica={name} {outcome}")
    };
    Ended {
        name: name.to_owned(),
        code: Some(0),
        lines: outcomes.iter().map(line).collect(),
        log: log.to_owned(),
    }
}

fn second(second: u64) -> u64 {
    let minute = time_of("2026-11-29T15:00:00Z").expect("a time");
    minute.as_secs() + second
}

#[test]
fn times_are_read() {
    let time = Duration::from_millis(951_827_696_789);
    assert_eq!(time_of("2000-02-29T12:34:56.789Z"), Some(time));
    assert_eq!(time_of("1970-01-01T00:00:00Z"), Some(Duration::ZERO));
    assert_eq!(
        time_of("2026-11-29T15:00:02Z"),
        Some(Duration::from_secs(1_795_964_402))
    );
    for bad in ["2026-11-29 15:00:02 UTC", "2026-11-29T15:00Z", "soon"] {
        assert_eq!(time_of(bad), None, "{bad}");
    }
}

#[test]
fn runs_after_one_another_are_no_double_runs() {
    let cut_off = ["2 b 0", "2 b 1", "5 a 0"];
    let journal = journal(&[&WHOLE[..], &cut_off].concat());
    assert_eq!(journal.double_runs(), [""; 0]);
    let steps: Vec<_> = journal.runs().iter().map(|run| run.steps).collect();
    assert_eq!(steps, [4, 1, 0]);
    assert_eq!(journal.last_tick(), second(5));
}

#[test]
fn double_runs_are_found() {
    for (steps, found) in [
        (&["1 b 0"][..], "begins a tick again"),
        (&["2 b 0", "1 a 4"], "goes on after another has begun"),
        (&["0 b 0"], "begins a tick again"),
        (&["1 a 0"], "comes after"),
        (&["2 b 0", "2 b 2"], "comes after"),
        (&["2 b 1"], "goes on after another has begun"),
    ] {
        let wrong = journal(&[&WHOLE[..], steps].concat()).double_runs();
        assert_eq!(wrong.len(), 1, "{steps:?}: {wrong:?}");
        assert!(wrong[0].contains(found), "{steps:?}: {wrong:?}");
    }
}

#[test]
fn a_tick_that_nobody_ran_is_found_unless_a_log_says_why() {
    let skipped = |log: &str| Told {
        ended: vec![
            ended("a", &[("1", "ran"), ("2", "skipped")], log),
            ended("b", &[("1", "skipped"), ("2", "skipped")], ""),
        ],
        journal: journal(&WHOLE),
    };
    let [fault] = &skipped("").faults(&[])[..] else {
        panic!("{:?}", skipped("").faults(&[]));
    };
    assert!(fault.contains("was run 0 times"), "{fault}");
    let said = failure(|| skipped("").assert_each_tick_ran_once(&[]));
    assert!(said.contains("was run 0 times"), "{said}");
    assert_eq!(skipped("").assert_each_tick_ran_once(&[second(2)]), 1);
    // One was late, and the other was told that somebody has the lock.
    let late = "WARN too late to take part replica=\"a\" tick=2026-11-29T15:00:02Z late=1s";
    assert_eq!(skipped(late).faults(&[]).len(), 1);
    let undecided = "ERROR not decided replica=\"a\" tick=2026-11-29T15:00:02Z error=…";
    assert_eq!(skipped(undecided).faults(&[]), [""; 0]);
    assert!(skipped(undecided).nobody_could(second(2)));
}

#[test]
fn what_was_run_by_two_or_is_told_otherwise_than_done_is_found() {
    let told = |outcomes: &[(&str, &str)]| Told {
        ended: vec![ended("a", &[("1", "ran")], ""), ended("b", outcomes, "")],
        journal: journal(&WHOLE),
    };
    assert_eq!(told(&[("1", "skipped")]).faults(&[]), [""; 0]);
    for (outcomes, found) in [
        (&[("1", "ran")][..], "was run 2 times"),
        (&[("2", "ran")], "only told, or only done"),
        (&[("3", "skipped")], "nobody told of"),
    ] {
        let faults = told(outcomes).faults(&[]);
        let is_found = faults.iter().any(|fault| fault.contains(found));
        assert!(is_found, "{outcomes:?}: {faults:?}");
    }
    let faults = told(&[]).faults(&[second(1)]);
    assert_eq!(faults.len(), 1, "run although nobody may: {faults:?}");
}

#[test]
fn a_summary_that_does_not_add_up_is_none() {
    let mut ended = ended("a", &[("1", "ran"), ("2", "skipped")], "");
    assert_eq!(ended.summary(), None);
    ended.lines.push("ticks=2 runs=1 skips=1".to_owned());
    assert_eq!(ended.summary(), Some("ticks=2 runs=1 skips=1"));
    ended.log = "ERROR not decided tick=2026-11-29T15:00:03Z error=…".to_owned();
    assert_eq!(ended.summary(), None);
}
