//! Servers and clients that are killed and stopped, networks that lose answers, and a look at whether anything that is
//! promised did not hold: `scripts/chaos --seconds N`.
//!
//! Five servers, three of them with an append-only file that is synced once a second, and eight client processes whose wall
//! clocks differ, which take four locks with fencing tokens and have them renewed. All the time clients are killed and
//! replaced, or stopped for longer than any lease; servers are killed and come back with their file or empty, or are stopped,
//! blackholed, reset, or their answers are held back or lost.
//!
//! What is claimed of such a run:
//!
//! - No two leases of a lock are good at the same moment, and nobody acts under a lock after a later holder has begun: zero
//!   overlaps, as [`history`] defines them. This needs that the servers do not all forget within one `max_ttl`; here at most
//!   two of five are in trouble at a time, a restarted one until it has its vote back.
//! - The fencing tokens of a lock only grow: zero regressions. This needs, besides, that the clocks of two clients differ by
//!   less than `max_ttl` less the time that an acquire takes.
//! - Nothing stays: zero keys are left two TTLs after the last client has ended. The key by which a server remembers that it
//!   votes, and those of fencing tokens, have an expiry of their own.
//!
//! No claim is made on how many locks are acquired meanwhile, except that it is not none.

mod client;
mod conductor;
mod history;
mod setting;

use conductor::Outcome;
use lock_tests::Recorder;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: scripts/chaos --seconds N [--record FILE]

Runs five servers and eight clients under faults for N seconds. The last line is
    acquisitions=N faults=N overlaps=N fence_regressions=N keys_left=N
and the exit status is 1 unless the last three are 0. FILE keeps the record of what the clients did.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (seconds, record) = match arguments[..] {
        ["client", name, record, clock] => {
            client::live(name, record, clock.parse().expect("milliseconds"));
            return ExitCode::SUCCESS;
        }
        ["--seconds", seconds] => (seconds, Recorder::new()),
        ["--seconds", seconds, "--record", record] => (seconds, Recorder::open(record)),
        ["--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Ok(seconds) = seconds.parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    report(&conductor::conduct(Duration::from_secs(seconds), record))
}

fn report(outcome: &Outcome) -> ExitCode {
    let Outcome {
        findings,
        keys_left,
    } = outcome;
    print!("{findings}");
    for key in keys_left {
        println!("key left: {key}");
    }
    let faults: usize = findings.faults.values().map(|hits| hits.times).sum();
    println!(
        "acquisitions={} faults={faults} overlaps={} fence_regressions={} keys_left={}",
        findings.acquisitions,
        findings.overlaps.len(),
        findings.fence_regressions.len(),
        keys_left.len()
    );
    let well = findings.overlaps.is_empty()
        && findings.fence_regressions.is_empty()
        && keys_left.is_empty();
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
