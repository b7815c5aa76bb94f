//! A service under load, and what the database says afterwards: `scripts/load`.
//!
//! k6 plays customers (deploy/k6/checkout.js) at two processes of the example `payments`, which share five Redis nodes and a
//! PostgreSQL database. With `--chaos`, meanwhile a node is killed, another one paused and a third cut off, a service is killed,
//! and a majority of the nodes is cut off: [`faults`].
//!
//! What is claimed of such a run:
//!
//! - Nothing was sold twice and everything adds up, as [`ledger`] defines it. For that the example writes down the stock that each
//!   sale left; nothing in the database would refuse a second one.
//! - Each order has an answer, and it is 200 or 429; 409 for the one product that ends. With `--chaos` it may be 503 once there
//!   were faults, and whoever was being served by a service when it was killed has none: [`course`].
//! - After the last fault it is back to normal within two TTLs, and nobody did anything for it.
//! - No key is left on any node when the locks of the killed process have run out.
//!
//! A service process is not paused here. What it had sent to the database before is on its way, and what would stop that is a
//! fencing token, which this example does not use; tests/tests/pause.rs is about it.
//!
//! `--without-locks` runs the services with locks that only they themselves see. Then the run has to fail.

mod course;
mod faults;
mod ledger;
mod orders;
mod picture;
mod report;
mod setting;
mod stage;

use report::{PICTURE, REPORT, Report};
use setting::Setting;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: scripts/load [--chaos] [--vus N] [--seconds N] [--products N] [--to DIRECTORY] [--without-locks]

N customers (500) order at two services for N seconds (60, with --chaos 90), of N products (20) and one that ends. Meanwhile with
--chaos nodes and a service fail. The report and what it was made from are in DIRECTORY (target/load/plain, or chaos). The last
line is
    requests=N sold=N stock=N duplicates=N
and the exit status is 1 if anything was sold twice, does not add up, or was answered otherwise than it may be, which lines
before it say. --without-locks shows that it can be.";

fn main() -> ExitCode {
    lock_tests::program::run(USAGE, setting, |setting| {
        std::fs::create_dir_all(&setting.to)
            .unwrap_or_else(|error| panic!("{}: {error}", setting.to.display()));
        load(&setting)
    })
}

fn setting(arguments: &[String]) -> Option<Setting> {
    let (mut vus, mut seconds, mut products, mut to) = (500, None, 20, None);
    let (mut chaos, mut without_locks) = (false, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--chaos" => chaos = true,
            "--without-locks" => without_locks = true,
            "--vus" => vus = number(arguments.next()?, 100_000)?,
            "--seconds" => seconds = Some(number(arguments.next()?, 86_400)?.into()),
            // Their numbers end before that of the product that the example knows.
            "--products" => products = number(arguments.next()?, 9_000)?,
            "--to" => to = Some(PathBuf::from(arguments.next()?)),
            _ => return None,
        }
    }
    let kind = match (chaos, without_locks) {
        (_, true) => "without-locks",
        (true, false) => "chaos",
        (false, false) => "plain",
    };
    let directory = || PathBuf::from("target/load").join(kind);
    Some(Setting {
        vus,
        hold: Duration::from_secs(seconds.unwrap_or(if chaos { 90 } else { 60 })),
        products,
        chaos,
        without_locks,
        to: to.unwrap_or_else(directory),
    })
}

/// From 1 to what can be meant.
fn number(text: &str, most: u32) -> Option<u32> {
    let number = text.parse().ok()?;
    (1..=most).contains(&number).then_some(number)
}

#[tokio::main]
async fn load(setting: &Setting) -> ExitCode {
    let load_average = report::load_average();
    let run = stage::run(setting).await;
    let comparison = ledger::compare(&run.initial, &run.books, &run.orders, run.lost);
    let mut violations = comparison.violations.clone();
    violations.extend(course::violations(setting, &run.orders, &run.faults));
    violations.extend(run.keys_left.iter().map(|key| format!("key left: {key}")));
    if !run.status.success() {
        violations.push(format!("k6 ended with {}: see k6.txt", run.status));
    }
    let report = Report {
        setting,
        run: &run,
        comparison: &comparison,
        violations: &violations,
        load_average,
    };
    report.save();
    print!("{report}");
    let to = setting.to.display();
    println!("\n{to}/{REPORT}, {to}/{PICTURE}");
    println!(
        "requests={} sold={} stock={} duplicates={}",
        run.orders.len(),
        comparison.sold,
        comparison.stock,
        comparison.duplicates
    );
    if violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Setting> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        setting(&words)
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "--vus 0",
            "--vus -1",
            "--vus",
            "--seconds 0",
            "--seconds 18446744073709551615",
            "--products 0",
            "--products 9921",
            "--chaos --nonsense",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
        let read = read("--chaos --vus 7 --seconds 9 --products 3").expect("it can be read");
        assert_eq!((read.vus, read.products, read.chaos), (7, 3, true));
        assert_eq!(read.hold, Duration::from_secs(9));
    }
}
