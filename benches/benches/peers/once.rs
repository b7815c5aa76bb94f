//! Row 9: 100 tasks of one process try once for one key, all at the same moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_benches::figures::{count, median, size, time};
use lock_benches::locker::{Held, Kind, Locker};
use lock_benches::report::{Aim, Table, listed};
use lock_benches::servers::Sent;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bench::Bench;

const TASKS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(4);

/// In how many rounds each takes part.
const KINDS: [(Kind, usize); 5] = [
    (Kind::Ours, 60),
    (Kind::Rslock, 60),
    (Kind::RawAll, 60),
    (Kind::Redlock, 20),
    (Kind::DistributedLockRedis, 20),
];

#[derive(Default)]
struct Result {
    /// Until all had an answer, in each round.
    times: Vec<f64>,
    commands: Vec<f64>,
    winners: Vec<usize>,
    failures: Vec<String>,
}

impl Result {
    fn with(&self, is_such: impl Fn(usize) -> bool) -> usize {
        self.winners.iter().filter(|&&won| is_such(won)).count()
    }

    fn winners(&self) -> String {
        let rounds = self.winners.len();
        let nobody = self.with(|won| won == 0);
        let several = self.with(|won| won > 1);
        let several = match several {
            0 => String::new(),
            several => format!("**several in {several}**"),
        };
        let nobody = match nobody {
            0 => String::new(),
            nobody => format!("nobody in {nobody}"),
        };
        let one = format!("one in {}", self.with(|won| won == 1));
        format!("{} of {rounds}", listed([one, nobody, several]))
    }
}

pub(crate) async fn row(bench: &mut Bench) {
    let mut results: Vec<(Kind, Sent, Result)> = Vec::new();
    for (kind, _) in KINDS {
        results.push((kind, bench.sent(kind).await, Result::default()));
    }
    let most = KINDS.iter().map(|&(_, rounds)| rounds).max().unwrap_or(0);
    // The first round warms up.
    for round in 0..=most {
        for ((kind, rounds), (_, sent, result)) in KINDS.into_iter().zip(&mut results) {
            if round <= rounds {
                let locker = bench.locker(kind).await;
                let key = format!("once:{}:{round}", kind.name());
                let one = one_round(bench, &locker, &key, sent).await;
                bench.over(&*locker).await;
                if round > 0 {
                    result.times.extend(one.times);
                    result.commands.extend(one.commands);
                    result.winners.extend(one.winners);
                    result.failures.extend(one.failures);
                }
            }
        }
    }
    let mut table = Table::new([
        "9. 100 tasks of one process try once, one key",
        "until all have an answer",
        "commands",
        "winners",
        "the first error",
    ]);
    for (kind, _, result) in &results {
        table.line([
            kind.name().to_owned(),
            time(median(result.times.clone())),
            count(median(result.commands.clone())),
            result.winners(),
            result.failures.first().cloned().unwrap_or_default(),
        ]);
    }
    println!("{table}");

    let [(_, _, ours), (_, _, rslock), ..] = &results[..] else {
        unreachable!("as many as contenders");
    };
    let said = |figure: &dyn Fn(&Result) -> String| {
        let others = results[1..].iter();
        listed(others.map(|(kind, _, other)| format!("{} {}", kind.name(), figure(other))))
    };
    let report = &mut bench.report;
    let aim = Aim {
        work: "9. 100 tasks of one process try once, one key: rounds with exactly one winner",
        ours: size(ours.with(|won| won == 1)),
        shown: |rounds| format!("{rounds:.0}"),
        others: said(&Result::winners),
    };
    let all = ours.with(|won| won != 1) == 0;
    report.holds(aim, &format!("all {}", ours.winners.len()), all);
    let until = |result: &Result| median(result.times.clone());
    let aim = Aim {
        work: "9. until all have an answer",
        ours: until(ours),
        shown: time,
        others: said(&|other| time(until(other))),
    };
    report.at_most(aim, 0.1, "rslock", until(rslock));
    let commands = |result: &Result| median(result.commands.clone());
    let aim = Aim {
        work: "9. commands",
        ours: commands(ours),
        shown: count,
        others: said(&|other| count(commands(other))),
    };
    report.within(aim, 15.0);
}

async fn one_round(bench: &Bench, locker: &Arc<dyn Locker>, key: &str, sent: &Sent) -> Result {
    Sent::start(&bench.fleet);
    let together = Arc::new(Barrier::new(TASKS + 1));
    let mut running = JoinSet::new();
    for _ in 0..TASKS {
        let (locker, key, together) = (Arc::clone(locker), key.to_owned(), Arc::clone(&together));
        running.spawn(async move {
            together.wait().await;
            let reply = timeout(PATIENCE, locker.try_once(key)).await;
            reply.unwrap_or_else(|_| Err(format!("no answer in {PATIENCE:?}")))
        });
    }
    together.wait().await;
    let started = Instant::now();
    let (mut winners, mut failures): (Vec<Held>, Vec<String>) = Default::default();
    // A winner keeps the lock until everybody has an answer.
    while let Some(answer) = running.join_next().await {
        match answer.expect("no contender panics") {
            Ok(held) => winners.extend(held),
            Err(how) => failures.push(how),
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    let won = winners.len();
    for held in winners {
        drop(timeout(PATIENCE, held.release()).await);
    }
    // What is still on its way belongs to it.
    tokio::time::sleep(Duration::from_millis(5)).await;
    Result {
        times: vec![elapsed],
        commands: vec![sent.count(&bench.fleet)],
        winners: vec![won],
        failures,
    }
}
