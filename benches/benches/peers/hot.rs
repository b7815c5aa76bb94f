//! Rows 4 and 5: one key that 32 tasks of one process want.

use std::time::Duration;

use lock_benches::crowd::{Crowd, Served, crowd};
use lock_benches::figures::{count, over, percent, rate, time};
use lock_benches::inside::Record;
use lock_benches::locker::Kind;
use lock_benches::report::{Aim, Report, Table};
use lock_benches::servers::Sent;

use crate::bench::{Bench, takes_part};

const TASKS: usize = 32;
const ROUNDS: usize = 5;

const KINDS: [Kind; 7] = [
    Kind::Ours,
    Kind::Rslock,
    Kind::RslockQuick,
    Kind::TokioMutex,
    Kind::RawQueued,
    Kind::Redlock,
    Kind::DistributedLockRedis,
];

/// One contender's turn: who was served, and how many commands it sent for each acquisition.
pub(crate) struct Turn {
    pub(crate) served: Served,
    pub(crate) commands: f64,
}

/// All turns of a contender.
pub(crate) struct Result {
    pub(crate) kind: Kind,
    pub(crate) turns: Vec<Turn>,
    pub(crate) sent: Sent,
}

impl Result {
    pub(crate) fn over(&self, figure: impl Fn(&Served) -> f64) -> f64 {
        over(&self.turns, |turn| figure(&turn.served))
    }

    pub(crate) fn commands(&self) -> f64 {
        over(&self.turns, |turn| turn.commands)
    }

    /// The longest wait of all turns, in seconds.
    pub(crate) fn longest(&self) -> f64 {
        let waits = self.turns.iter().map(|turn| turn.served.longest);
        waits.max().unwrap_or_default().as_secs_f64()
    }

    /// Least and most served of the last turn.
    pub(crate) fn range(&self) -> String {
        let last = self.turns.last();
        last.map_or_else(String::new, |turn| turn.served.range())
    }

    pub(crate) fn faults(&self) -> String {
        let faults = self.turns.iter().map(|turn| turn.served.faults());
        faults.max_by_key(String::len).unwrap_or_default()
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.turns.iter().all(|turn| turn.served.collisions == 0)
    }
}

pub(crate) async fn empty(bench: &mut Bench) {
    let title = "4. 32 tasks of one process, one key, empty body";
    let results = in_turns(bench, Duration::ZERO).await;
    show(title, &results);
    let (ours, slow, quick) = (&results[0], &results[1], &results[2]);
    let rates = |result: &Result| result.over(Served::rate);
    let most = |result: &Result| result.over(|served| served.most);
    let both = |shown: fn(f64) -> String, figure: &dyn Fn(&Result) -> f64| {
        let part = |result: &Result| format!("{} {}", result.kind.name(), shown(figure(result)));
        format!("{}; {}", part(slow), part(quick))
    };
    let report = &mut bench.report;
    let aim = Aim {
        work: "4. 32 tasks of one process, one key, empty body: acquisitions/s",
        ours: rates(ours),
        shown: rate,
        others: format!(
            "{}; raw behind a local queue {}; tokio Mutex {}",
            both(rate, &rates),
            rate(rates(&results[4])),
            rate(rates(&results[3]))
        ),
    };
    against_both(report, &aim, [slow, quick], |report, aim, name, other| {
        report.at_least(aim, 40.0, name, rates(other));
    });
    let aim = Aim {
        work: "4. commands each",
        ours: ours.commands(),
        shown: count,
        others: both(count, &Result::commands),
    };
    report.within(aim, 1.0);
    let aim = Aim {
        work: "4. p99 wait",
        ours: most(ours),
        shown: time,
        others: both(time, &most),
    };
    against_both(report, &aim, [slow, quick], |report, aim, name, other| {
        report.at_most(aim, 0.1, name, most(other));
    });
    let aim = Aim {
        work: "4. the least served task gets less than the most served one by",
        ours: ours.over(Served::spread),
        shown: percent,
        others: both(percent, &|result| result.over(Served::spread)),
    };
    report.within(aim, 0.1);
    exclusion(bench, "4. nobody inside with somebody", ours);
}

pub(crate) async fn millisecond(bench: &mut Bench) {
    let title = "5. 32 tasks of one process, one key, body of 1 ms";
    let results = in_turns(bench, Duration::from_millis(1)).await;
    show(title, &results);
    let rates = |at: usize| results[at].over(Served::rate);
    let aim = Aim {
        work: "5. the same, body of 1 ms",
        ours: rates(0),
        shown: rate,
        others: format!(
            "rslock {}; rslock, 10 ms {}; tokio Mutex {}",
            rate(rates(1)),
            rate(rates(2)),
            rate(rates(3))
        ),
    };
    bench.report.at_least(aim, 0.95, "tokio Mutex", rates(3));
    exclusion(bench, "5. nobody inside with somebody", &results[0]);
}

/// Once for `rslock` as it comes, which lets one task have the key again and again while the others sleep, and once for one that
/// is told to try again soon, which is fairer and slower.
pub(crate) fn against_both(
    report: &mut Report,
    aim: &Aim<'_>,
    both: [&Result; 2],
    judge: impl Fn(&mut Report, Aim<'_>, &str, &Result),
) {
    for result in both {
        judge(report, aim.clone(), result.kind.name(), result);
    }
}

/// What no figure may be bought with.
pub(crate) fn exclusion(bench: &mut Bench, work: &str, ours: &Result) {
    let times: u64 = ours.turns.iter().map(|turn| turn.served.collisions).sum();
    let aim = Aim {
        work,
        ours: lock_benches::figures::number(times),
        shown: |times| format!("{times:.0} times"),
        others: String::new(),
    };
    bench.report.within(aim, 0.0);
}

async fn in_turns(bench: &mut Bench, body: Duration) -> Vec<Result> {
    let mut results = Vec::new();
    for kind in KINDS {
        results.push(Result {
            kind,
            turns: Vec::new(),
            sent: bench.sent(kind).await,
        });
    }
    let work = Crowd {
        tasks: TASKS,
        body,
        time: Duration::from_secs(1),
    };
    for round in 1..=ROUNDS {
        for result in &mut results {
            let kind = result.kind;
            if !takes_part(kind, round) {
                continue;
            }
            let locker = bench.locker(kind).await;
            let key = format!("hot:{}:{}:{round}", kind.name(), body.as_micros());
            Sent::start(&bench.fleet);
            let served = crowd(&locker, &key, work, &Record::of_process()).await;
            let commands = result.sent.count(&bench.fleet) / served.total();
            bench.over(&*locker).await;
            result.turns.push(Turn { served, commands });
        }
    }
    results
}

fn show(title: &str, results: &[Result]) {
    let mut table = Table::new([
        title,
        "acquisitions/s",
        "commands each",
        "p50 wait",
        "p99 wait",
        "longest wait",
        "least–most served",
        "never served",
        "faults",
        "commands counted",
    ]);
    for result in results {
        table.line([
            result.kind.name().to_owned(),
            rate(result.over(Served::rate)),
            count(result.commands()),
            time(result.over(|served| served.half)),
            time(result.over(|served| served.most)),
            time(result.longest()),
            result.range(),
            count(result.over(Served::starved)),
            result.faults(),
            result.sent.names(),
        ]);
    }
    println!("{table}");
}
