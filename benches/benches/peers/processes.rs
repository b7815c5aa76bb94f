//! Row 6: one key that tasks of several processes want.

use std::time::Duration;

use lock_benches::crowd::{Crowd, Served};
use lock_benches::figures::{count, rate, time};
use lock_benches::locker::Kind;
use lock_benches::replicas::Replicas;
use lock_benches::report::{Aim, Table, listed};
use lock_benches::servers::{Sent, clean};

use crate::bench::Bench;
use crate::hot::{Result, Turn, against_both, exclusion};

const ROUNDS: usize = 3;

/// Longer than what a task may have to wait.
const TIME: Duration = Duration::from_millis(2_200);
const WAIT: f64 = 2.0;

const KINDS: [Kind; 6] = [
    Kind::Ours,
    Kind::Rslock,
    Kind::RslockQuick,
    Kind::RawQueued,
    Kind::Redlock,
    Kind::DistributedLockRedis,
];

pub(crate) async fn row(bench: &mut Bench) {
    for (processes, tasks) in [(4, 8), (8, 4)] {
        for (body, factor) in [(Duration::ZERO, 8.0), (Duration::from_millis(1), 1.2)] {
            let work = Crowd {
                tasks,
                body,
                time: TIME,
            };
            let results = in_turns(bench, processes, work).await;
            let inside = match body {
                Duration::ZERO => "empty body",
                _ => "body of 1 ms",
            };
            let title = format!("6. {processes} processes × {tasks} tasks, one key, {inside}");
            show(&title, &results);
            judge(bench, &title, &results, factor);
        }
    }
}

async fn in_turns(bench: &mut Bench, processes: usize, work: Crowd) -> Vec<Result> {
    let urls = bench.fleet.urls();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut results = Vec::new();
    for kind in KINDS {
        results.push(Result {
            kind,
            turns: Vec::new(),
            sent: bench.sent(kind).await,
        });
    }
    for round in 1..=ROUNDS {
        for result in &mut results {
            let kind = result.kind;
            let once = matches!(
                kind,
                Kind::RawQueued | Kind::Redlock | Kind::DistributedLockRedis
            );
            if once && round > 1 {
                continue;
            }
            let key = format!("replicas:{}:{round}", kind.name());
            let record = directory.path().join("inside");
            let replicas = Replicas::start(kind, &urls, processes, &key, work, &record).await;
            Sent::start(&bench.fleet);
            let served = replicas.run().await;
            let commands = result.sent.count(&bench.fleet) / served.total();
            clean(&bench.fleet);
            result.turns.push(Turn { served, commands });
        }
    }
    results
}

fn judge(bench: &mut Bench, title: &str, results: &[Result], factor: f64) {
    let (ours, slow, quick) = (&results[0], &results[1], &results[2]);
    let rates = |result: &Result| result.over(Served::rate);
    let said = |figure: &dyn Fn(&Result) -> String| {
        let others = results[1..].iter();
        listed(others.map(|other| format!("{} {}", other.kind.name(), figure(other))))
    };
    let report = &mut bench.report;
    let aim = Aim {
        work: &format!("{title}: acquisitions/s"),
        ours: rates(ours),
        shown: rate,
        others: said(&|other| {
            let marked = if other.is_exclusive() {
                ""
            } else {
                " (**let two in**)"
            };
            format!("{}{marked}", rate(rates(other)))
        }),
    };
    against_both(report, &aim, [slow, quick], |report, aim, name, other| {
        report.at_least(aim, factor, name, rates(other));
    });
    let aim = Aim {
        work: &format!("{title}: commands each"),
        ours: ours.commands(),
        shown: count,
        others: said(&|other| count(other.commands())),
    };
    report.within(aim, 25.0);
    let waits = |what: &str| format!("{title}: {what}");
    let (within, longest) = (waits("every task served within"), waits("longest wait"));
    let waits = |work| Aim {
        work,
        ours: ours.longest(),
        shown: time,
        others: said(&|other| time(other.longest())),
    };
    report.within(waits(&within), WAIT);
    let aim = waits(&longest);
    against_both(report, &aim, [slow, quick], |report, aim, name, other| {
        report.at_most(aim, 0.2, name, other.longest());
    });
    exclusion(
        bench,
        &format!("{title}: nobody inside with somebody"),
        ours,
    );
}

fn show(title: &str, results: &[Result]) {
    let mut table = Table::new([
        title,
        "acquisitions/s",
        "commands each",
        "longest wait",
        "least–most served",
        "never served",
        "faults",
    ]);
    for result in results {
        table.line([
            result.kind.name().to_owned(),
            rate(result.over(Served::rate)),
            count(result.commands()),
            time(result.longest()),
            result.range(),
            count(result.over(Served::starved)),
            result.faults(),
        ]);
    }
    println!("{table}");
}
