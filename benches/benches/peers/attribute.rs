//! Row 14: a function under the attribute against the same calls written by hand, in instructions, each in a process of its
//! own, on embedded nodes and one thread, so that nothing else is counted.

use std::process::Command;
use std::time::Duration;

use lock_benches::figures::{count, median, number};
use lock_benches::report::{Aim, Table};
use lock_runtime::{LockError, LockManager, distributed_lock, install, installed};

use crate::bench::Bench;

/// The first argument of a process that is counted.
pub(crate) const CALLS: &str = "calls";

const FEW: u64 = 200;
const MANY: u64 = 1_200;
const SAMPLES: usize = 3;

/// What two counts of the same differ by: a hash map's seed, an address.
const NOISE: f64 = 0.01;

const WAYS: [&str; 2] = ["attribute", "by-hand"];

#[distributed_lock(key = "order:{id}", ttl = "8s", wait = "1s")]
async fn guarded(id: u64) -> Result<u64, LockError> {
    Ok(work(id).await)
}

async fn by_hand(id: u64) -> Result<u64, LockError> {
    installed()?
        .lock(format!("order:{id}"))
        .ttl(Duration::from_secs(8))
        .wait(Duration::from_secs(1))
        .name(concat!(module_path!(), "::", "by_hand"))
        .run(|_| work(id))
        .await
}

async fn work(id: u64) -> u64 {
    tokio::task::yield_now().await;
    id
}

/// A process that makes so many calls in one of the ways.
pub(crate) fn calls(arguments: &[String]) {
    let [way, times] = arguments else {
        panic!("not what such a process is told: {arguments:?}");
    };
    let times: u64 = times.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        install(LockManager::in_memory()).expect("the first");
        for id in 0..times {
            let done = match way.as_str() {
                "attribute" => guarded(id).await,
                "by-hand" => by_hand(id).await,
                other => panic!("no way to call: {other}"),
            };
            assert_eq!(done.expect("free"), id);
        }
    });
}

/// What counts instructions here.
#[derive(Clone, Copy, Debug)]
enum Counter {
    /// The processor.
    Perf,
    /// Valgrind, which executes every instruction itself.
    Callgrind,
}

impl Counter {
    /// The processor's, where the machine lets it be read.
    fn found() -> Option<Self> {
        [Self::Perf, Self::Callgrind]
            .into_iter()
            .find(|counter| counter.instructions(WAYS[0], 1).is_some())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Perf => "`perf stat`",
            Self::Callgrind => {
                "`valgrind --tool=callgrind`, as the processor’s counters are not to be had here"
            }
        }
    }

    /// Of a process that makes so many calls.
    fn instructions(self, way: &str, times: u64) -> Option<f64> {
        let mut command = match self {
            Self::Perf => {
                let mut command = Command::new("perf");
                command.args(["stat", "-x,", "-e", "instructions:u", "--"]);
                command
            }
            Self::Callgrind => {
                let mut command = Command::new("valgrind");
                command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--"]);
                command
            }
        };
        let program = std::env::current_exe().expect("the path of this binary");
        let output = command
            .arg(program)
            .args([CALLS, way, &times.to_string()])
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let counted = match self {
            Self::Perf => said
                .lines()
                .find(|line| line.contains("instructions"))?
                .split(',')
                .next()?
                .to_owned(),
            Self::Callgrind => said
                .lines()
                .find_map(|line| line.split_once("Collected : "))?
                .1
                .to_owned(),
        };
        let counted = counted.trim().parse().ok()?;
        output.status.success().then_some(counted)
    }

    /// Of one call: what more calls add.
    fn per_call(self, way: &str) -> f64 {
        let few = self.instructions(way, FEW).unwrap_or(f64::NAN);
        let many = self.instructions(way, MANY).unwrap_or(f64::NAN);
        (many - few) / number(MANY - FEW)
    }
}

pub(crate) async fn row(bench: &mut Bench) {
    let (counter, figures) = tokio::task::spawn_blocking(measured)
        .await
        .expect("no panic");
    let [attribute, by_hand] = figures;
    let mut table = Table::new(["14. one guarded call", "instructions"]);
    table.line(["under the attribute".to_owned(), count(attribute)]);
    table.line(["by hand".to_owned(), count(by_hand)]);
    println!("{table}\nCounted by {counter}.");
    let aim = Aim {
        work: &format!("14. the attribute, in instructions ({counter})"),
        ours: attribute,
        shown: count,
        others: format!("by hand {}", count(by_hand)),
    };
    let report = &mut bench.report;
    report.at_most(aim, 1.0 + NOISE, "by hand", by_hand);
}

fn measured() -> (&'static str, [f64; 2]) {
    let Some(counter) = Counter::found() else {
        return (
            "nothing: neither perf nor valgrind counts here",
            [f64::NAN; 2],
        );
    };
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..SAMPLES {
        for (way, samples) in WAYS.into_iter().zip(&mut samples) {
            samples.push(counter.per_call(way));
        }
    }
    (counter.name(), samples.map(median))
}
