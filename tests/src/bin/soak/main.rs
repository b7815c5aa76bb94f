//! Very many locks, each of another name, and a count of what is left of them: `scripts/soak --keys N`.
//!
//! Five servers, and in this process two managers, as two replicas of a service would have. Tasks use each key once: plain,
//! fenced, several at a time, under the attribute, kept for a while, waited for, in vain, given up at any await, or held until
//! the lease is over. All the while others wait for a key that stays busy.
//!
//! After each tenth of the keys all work stops, but for those who wait, and what is there is counted: connections, open
//! files, threads, the managers' tasks, the heap, the servers' scripts, memory and keys. What is claimed: from the first
//! tenth to the end nothing of it has grown, but for what [`gauge`] allows, and no key is ever left. When the managers have
//! been dropped, their connections, files and threads are gone.
//!
//! `--leak leases`, `memory`, `managers` or `waiters` leaves some behind on purpose: then the run has to fail.

mod allocator;
mod gauge;
mod load;

use gauge::Reading;
use load::{Leak, Load};
use lock_tests::{DEADLINE, Fleet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: scripts/soak [--keys N] [--seconds N]

Uses N keys (100000), and goes on with further ones until N seconds (0) have passed. The last line is
    keys=N acquisitions=N failures=N connections=N descriptors=N threads=N tasks=N live_bytes=N buffer_bytes=N scripts=N server_bytes=N leaked_keys=N
and the exit status is 1 if anything has grown since the first tenth, which lines before it say.";

const NODES: usize = 5;

/// The keys are used in so many parts, and after each of them what is there is counted.
const PARTS: usize = 10;

/// Keys of managers that come and go at the beginning.
const WARM_UP: usize = 500;

/// Of a hundred calls so many may fail without the run being void: the machine may be busy, and the servers slow.
const FAILURES_ALLOWED: usize = 5;

#[derive(Clone, Copy)]
struct Options {
    keys: usize,
    time: Duration,
    leak: Option<Leak>,
}

impl Options {
    /// How long to wait for what is under way to end. What was left behind on purpose does not, which need not take long.
    fn patience(&self) -> Duration {
        self.leak.map_or(DEADLINE, |_| Duration::from_secs(2))
    }
}

fn main() -> ExitCode {
    lock_tests::program::run(USAGE, options, report)
}

fn report(options: Options) -> ExitCode {
    let Outcome { faults, result } = soak(options);
    for fault in &faults {
        println!("{fault}");
    }
    println!("{result}");
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn options(arguments: &[String]) -> Option<Options> {
    let mut options = Options {
        keys: 100_000,
        time: Duration::ZERO,
        leak: None,
    };
    for option in arguments.chunks(2) {
        let [name, value] = option else { return None };
        match name.as_str() {
            "--keys" => options.keys = value.parse().ok().filter(|&keys| keys >= PARTS)?,
            "--seconds" => options.time = Duration::from_secs(value.parse().ok()?),
            "--leak" => options.leak = Some(Leak::named(value)?),
            _ => return None,
        }
    }
    Some(options)
}

/// What a run found, and its last line.
struct Outcome {
    faults: Vec<String>,
    result: String,
}

#[tokio::main(worker_threads = 2)]
async fn soak(options: Options) -> Outcome {
    let fleet = Fleet::start(NODES);
    fleet.found().await;
    // What a process has for good once it has used managers, and asked servers, is there before anything is counted.
    let patience = options.patience();
    Reading::settled(&fleet, &[], None, patience).await;
    let load = Arc::new(Load::new(&fleet, None));
    let waiting = load.waiters().await;
    load.use_keys(0..WARM_UP).await;
    drop((waiting, load));
    let before = Reading::settled(&fleet, &[], None, patience).await;
    println!("without managers: {before}");

    let load = Arc::new(Load::new(&fleet, options.leak));
    let (leases, mut waiters) = load.waiters().await;
    let start = Instant::now();
    let part = options.keys / PARTS;
    let mut used = 0;
    let mut first: Option<Reading> = None;
    let (last, mut faults) = loop {
        load.use_keys(used..used + part).await;
        used += part;
        let reading = Reading::settled(&fleet, &load.managers, first.as_ref(), patience).await;
        println!(
            "after {} s: keys={used} {reading}",
            start.elapsed().as_secs()
        );
        let faults = reading.grown_since(first.get_or_insert(reading));
        // What has grown does so again: the rest of the run would show nothing new.
        if !faults.is_empty() || used >= part * PARTS && start.elapsed() >= options.time {
            break (reading, faults);
        }
    };
    let acquisitions = load.acquisitions();
    let failures = load.failures.load(Ordering::Relaxed);
    if failures * 100 > used * FAILURES_ALLOWED {
        faults.push(format!("void: {failures} of {used} calls failed"));
    }
    if waiters.try_join_next().is_some() {
        faults.push("void: a task that waits for a key that is held has ended".to_owned());
    }

    drop((leases, waiters, load));
    // Servers keep the scripts, and some memory for them.
    let nothing = Reading {
        scripts: last.scripts,
        server_bytes: last.server_bytes,
        ..before
    };
    let rest = Reading::settled(&fleet, &[], Some(&nothing), patience).await;
    println!("without managers: {rest}");
    let left = rest.grown_since(&nothing).into_iter();
    faults.extend(left.map(|fault| format!("without managers, {fault}")));
    Outcome {
        faults,
        result: format!("keys={used} acquisitions={acquisitions} failures={failures} {last}"),
    }
}
