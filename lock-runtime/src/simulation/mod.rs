//! Thousands of worlds in which much goes wrong, each from a seed, and each again if its seed is given again.
//!
//! The clients are the product, down to what it asks of a node. Each has a runtime of its own with a clock that stands
//! still until it is run, so it can be paused anywhere between two tasks. The nodes are embedded ones behind connections
//! that delay, break and lose; they crash, forget, abstain, and count TTLs at speeds of their own.
//!
//! `LOCK_SEED=17` runs one seed and shows its log if it fails, `LOCK_SEED=0..100000` a range.

mod chance;
mod client;
mod clock;
mod network;
mod node;
mod recorder;
mod scenario;
mod server;
mod workload;
mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use recorder::Counts;
use scenario::{FOUNDINGS, Mutant};
use world::{Outcome, run};

/// What is run if nothing else is asked for.
const SEEDS: Range<u64> = 0..2_000;

/// How much of a log is shown where many seeds are run.
const SHOWN: usize = 60;

fn asked() -> Option<Range<u64>> {
    let asked = std::env::var("LOCK_SEED").ok()?;
    let number = |text: &str| {
        text.parse::<u64>()
            .expect("LOCK_SEED is a seed, or from..to")
    };
    Some(match asked.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&asked)..number(&asked) + 1,
    })
}

fn show(seed: u64, outcome: &Outcome, shown: usize) -> String {
    let skipped = outcome.log.len().saturating_sub(shown);
    let log: Vec<_> = outcome.log[skipped..]
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "seed {seed}: {}\n{}\n{skipped} lines, which LOCK_SEED={seed} shows, and:\n{}",
        outcome.faults.join("; "),
        outcome.scenario,
        log.join("\n"),
    )
}

/// Runs seeds on all processors.
fn run_all(seeds: &Range<u64>) -> (Counts, Vec<(u64, Outcome)>) {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new((Counts::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(seed, None);
                    let mut results = results.lock().expect("results");
                    results.0 += outcome.counts;
                    if !outcome.faults.is_empty() {
                        results.1.push((seed, outcome));
                    }
                }
            });
        }
    });
    let (counts, mut failed) = results.into_inner().expect("results");
    failed.sort_by_key(|(seed, _)| *seed);
    (counts, failed)
}

#[test]
fn no_schedule_breaks_a_promise() {
    let seeds = asked().unwrap_or(SEEDS);
    let many = seeds.end - seeds.start > 1;
    let (counts, failed) = run_all(&seeds);
    println!("{counts:?}");
    if let Some((seed, outcome)) = failed.first() {
        let all: Vec<_> = failed.iter().map(|(seed, _)| seed).collect();
        let shown = if many { SHOWN } else { usize::MAX };
        panic!("seeds {all:?} fail; {}", show(*seed, outcome, shown));
    }
    if many {
        counts.check_that_all_was_met();
    }
}

#[test]
fn no_beginning_breaks_a_promise() {
    let (_, failed) = run_all(&(FOUNDINGS + 1_500..FOUNDINGS + 2_500));
    if let Some((seed, outcome)) = failed.first() {
        panic!("{}", show(*seed, outcome, SHOWN));
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..25 {
        let (one, other) = (run(seed, None), run(seed, None));
        let logs = || one.log.iter().zip(&other.log);
        let differs = logs().find(|(one, other)| one.to_string() != other.to_string());
        assert!(differs.is_none(), "seed {seed}: {differs:?}");
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert_ne!(one.hash, run(seed + 1, None).hash, "seed {seed}");
    }
}

/// What the recorder says of the first seed in which it notices the mutant.
fn bites(mutant: Mutant, within: u64, expected: &str) {
    for seed in 0..within {
        let outcome = run(seed, Some(mutant));
        if let Some(fault) = outcome.faults.iter().find(|fault| fault.contains(expected)) {
            println!("{mutant:?}: seed {seed}: {fault}");
            return;
        }
    }
    panic!("{mutant:?} was not noticed in {within} seeds");
}

#[test]
fn a_restarted_node_that_grants_is_noticed() {
    bites(Mutant::YoungNodesVote, 400, "two hold");
    bites(Mutant::YoungNodesVoteEarly, 400, "two hold");
}

#[test]
fn forgotten_fences_are_noticed() {
    bites(Mutant::FencesAreForgotten, 100, "falls");
}

#[test]
fn clocks_beyond_the_drift_are_noticed() {
    bites(Mutant::ClocksRunFast, 400, "two hold");
}

#[test]
fn lost_releases_are_noticed() {
    bites(Mutant::ReleasesAreLost, 20, "did not get on");
}

#[test]
fn releases_for_anybody_are_noticed() {
    bites(Mutant::AnybodyReleases, 400, "two hold");
}

#[test]
fn locks_that_are_free_once_they_are_taken_by_force_are_noticed() {
    bites(Mutant::TakenIsDeleted, 400, "two hold");
}

#[test]
fn locks_that_are_kept_although_they_are_taken_by_force_are_noticed() {
    bites(Mutant::TakingDoesNothing, 400, "after it was taken");
}

#[test]
fn keys_that_never_expire_are_noticed() {
    bites(Mutant::NothingExpires, 50, "is left on node");
}
