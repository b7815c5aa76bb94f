//! Rows 1 to 3: keys that nobody else wants.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::cycles::{Cycles, Load, cycles};
use lock_benches::figures::{count, over, rate, time};
use lock_benches::locker::{Kind, Locker};
use lock_benches::report::{Aim, Table, listed};
use lock_tests::Fleet;

use crate::bench::{Bench, end_of_turn, founded, takes_part};

const KINDS: [Kind; 6] = [
    Kind::RawQuorum,
    Kind::RawAll,
    Kind::Ours,
    Kind::Rslock,
    Kind::Redlock,
    Kind::DistributedLockRedis,
];

/// A contender's rounds, and the most keys that one of them left on a node.
struct Result {
    kind: Kind,
    rounds: Vec<Cycles>,
    left: usize,
}

impl Result {
    fn over(&self, figure: impl Fn(&Cycles) -> f64) -> f64 {
        over(&self.rounds, figure)
    }

    fn failures(&self) -> String {
        let failures = self.rounds.iter().map(Cycles::failures);
        failures.max_by_key(String::len).unwrap_or_default()
    }
}

pub(crate) async fn one_task(bench: &mut Bench) {
    let lockers = bench.lockers(&KINDS).await;
    let load = Load::of(1, Duration::from_millis(400));
    let results = in_turns(&bench.fleet, "one", &lockers, load, 7).await;
    show("1. one task, distinct keys", &results);
    let [quorum, all, ours, rslock, ..] = &results[..] else {
        unreachable!("as many as contenders");
    };
    let half = |result: &Result| result.over(|round| round.cycle(50));
    let most = |result: &Result| result.over(|round| round.cycle(99));
    let aim = |ours: &Result, figure: &dyn Fn(&Result) -> f64, work, others: &[&Result]| Aim {
        work,
        ours: figure(ours),
        shown: time,
        others: listed(
            others
                .iter()
                .map(|other| format!("{} {}", other.kind.name(), time(figure(other)))),
        ),
    };
    let work = "1. one task, distinct keys: median cycle";
    let report = &mut bench.report;
    report.at_most(
        aim(ours, &half, work, &[quorum, all]),
        1.15,
        "raw at quorum",
        half(quorum),
    );
    report.at_most(
        aim(ours, &half, work, &[rslock]),
        0.85,
        "rslock",
        half(rslock),
    );
    let work = "1. p99 of it";
    report.at_most(
        aim(ours, &most, work, &[rslock, quorum]),
        1.0 / 3.0,
        "rslock",
        most(rslock),
    );
}

pub(crate) async fn many_tasks(bench: &mut Bench) {
    let lockers = bench.lockers(&KINDS).await;
    let load = Load::of(64, Duration::from_millis(600));
    let results = in_turns(&bench.fleet, "many", &lockers, load, 5).await;
    show("2. 64 tasks, distinct keys", &results);
    let [quorum, all, ours, rslock, ..] = &results[..] else {
        unreachable!("as many as contenders");
    };
    let rates = |result: &Result| result.over(Cycles::rate);
    let client = |result: &Result| result.over(Cycles::client);
    let said = |result: &Result| format!("{} {}", result.kind.name(), rate(rates(result)));
    let report = &mut bench.report;
    let aim = |others: &[&Result]| Aim {
        work: "2. 64 tasks, distinct keys: cycles/s",
        ours: rates(ours),
        shown: rate,
        others: listed(others.iter().map(|other| said(other))),
    };
    report.at_least(aim(&[all, quorum]), 0.9, "raw waiting for all", rates(all));
    report.at_least(aim(&[rslock]), 1.4, "rslock", rates(rslock));
    let cpu = Aim {
        work: "2. client CPU per cycle",
        ours: client(ours),
        shown: time,
        others: format!("{} {}", all.kind.name(), time(client(all))),
    };
    report.at_most(cpu, 1.15, "raw waiting for all", client(all));
    let left = Aim {
        work: "2. keys left on a node",
        ours: lock_benches::figures::size(ours.left),
        shown: |keys| format!("{keys:.0}"),
        others: format!("{} {}", quorum.kind.name(), quorum.left),
    };
    report.within(left, 0.0);
}

pub(crate) async fn one_node(bench: &mut Bench) {
    let fleet = founded(1).await;
    let mut lockers = Vec::new();
    for kind in KINDS.into_iter().filter(|&kind| kind != Kind::RawQuorum) {
        lockers.push((kind, kind.connect(&fleet.urls()).await));
    }
    let load = Load::of(64, Duration::from_millis(500));
    let results = in_turns(&fleet, "single", &lockers, load, 5).await;
    show("3. 64 tasks, distinct keys, one node", &results);
    let [raw, ours, rslock, ..] = &results[..] else {
        unreachable!("as many as contenders");
    };
    let rates = |result: &Result| result.over(Cycles::rate);
    let aim = Aim {
        work: "3. the same on one node",
        ours: rates(ours),
        shown: rate,
        others: format!("raw {}; rslock {}", rate(rates(raw)), rate(rates(rslock))),
    };
    bench.report.at_least(aim, 0.9, "raw", rates(raw));
}

async fn in_turns(
    fleet: &Fleet,
    label: &str,
    lockers: &[(Kind, Arc<dyn Locker>)],
    load: Load,
    rounds: usize,
) -> Vec<Result> {
    let nothing = |&(kind, _): &(Kind, _)| Result {
        kind,
        rounds: Vec::new(),
        left: 0,
    };
    let mut results: Vec<Result> = lockers.iter().map(nothing).collect();
    // The first round warms up.
    for round in 0..=rounds {
        for ((kind, locker), result) in lockers.iter().zip(&mut results) {
            if !takes_part(*kind, round) {
                continue;
            }
            let load = match round {
                0 => Load {
                    time: load.time / 4,
                    ..load
                },
                _ => load,
            };
            let label = format!("{label}:{}:{round}", kind.name());
            let done = cycles(locker, fleet, &label, load).await;
            result.left = result.left.max(end_of_turn(fleet, &**locker).await);
            if round > 0 {
                result.rounds.push(done);
            }
        }
    }
    results
}

fn show(title: &str, results: &[Result]) {
    let mut table = Table::new([
        title,
        "median cycle",
        "p99",
        "cycles/s",
        "client CPU",
        "servers' CPU",
        "client CPU ÷ raw’s, waiting for all",
        "keys left on a node",
        "faults",
    ]);
    let all = results.iter().find(|result| result.kind == Kind::RawAll);
    let limit = all.map_or(f64::NAN, |all| all.over(Cycles::client));
    for result in results {
        let client = result.over(Cycles::client);
        table.line([
            result.kind.name().to_owned(),
            time(result.over(|round| round.cycle(50))),
            time(result.over(|round| round.cycle(99))),
            rate(result.over(Cycles::rate)),
            time(client),
            time(result.over(Cycles::servers)),
            count(client / limit),
            result.left.to_string(),
            result.failures(),
        ]);
    }
    println!("{table}");
}
