//! Row 7: one of five nodes answers 20 ms later than the rest.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::cycles::{Cycles, Load, cycles};
use lock_benches::figures::{count, over, rate, time};
use lock_benches::locker::{Kind, Locker};
use lock_benches::report::{Aim, Table};
use lock_tests::{Mode, Proxy};

use crate::bench::Bench;

const ROUNDS: usize = 5;
const HALF_LATE: Duration = Duration::from_millis(10);
const KINDS: [Kind; 3] = [Kind::Ours, Kind::Rslock, Kind::RawQuorum];

/// With all nodes well and with one of them late, one task and 64.
#[derive(Default)]
struct Result {
    one: [Vec<Cycles>; 2],
    many: [Vec<Cycles>; 2],
}

impl Result {
    fn acquire(&self, percent: usize) -> [f64; 2] {
        let of = |rounds: &Vec<Cycles>| over(rounds, |round| round.acquire(percent));
        [of(&self.one[0]), of(&self.one[1])]
    }

    fn rate(&self) -> [f64; 2] {
        let of = |rounds: &Vec<Cycles>| over(rounds, Cycles::rate);
        [of(&self.many[0]), of(&self.many[1])]
    }
}

pub(crate) async fn row(bench: &mut Bench) {
    // Healthy figures go through it too.
    let proxy = Proxy::start(&bench.fleet.servers()[0]);
    let mut urls = bench.fleet.urls();
    urls[0] = proxy.url();
    let mut contenders = Vec::new();
    for kind in KINDS {
        contenders.push((kind, kind.connect(&urls).await, Result::default()));
    }
    for round in 0..=ROUNDS {
        for (kind, locker, result) in &mut contenders {
            for late in [0, 1] {
                let mode = match late {
                    0 => Mode::Pass,
                    _ => Mode::Delay {
                        requests: HALF_LATE,
                        answers: HALF_LATE,
                    },
                };
                proxy.set(mode);
                let label = format!("late:{}:{round}:{late}", kind.name());
                let (one, many) = turn(bench, locker, &label).await;
                if round > 0 {
                    result.one[late].push(one);
                    result.many[late].push(many);
                }
            }
            proxy.set(Mode::Pass);
        }
    }
    let mut table = Table::new([
        "7. one of five nodes 20 ms late",
        "acquire p50, healthy → late",
        "p99",
        "cycles/s at 64 tasks",
        "acquire ÷ healthy",
        "rate ÷ healthy",
    ]);
    let change = |[well, late]: [f64; 2], shown: fn(f64) -> String| {
        format!("{} → {}", shown(well), shown(late))
    };
    let ratio = |[well, late]: [f64; 2]| late / well;
    for (kind, _, result) in &contenders {
        table.line([
            kind.name().to_owned(),
            change(result.acquire(50), time),
            change(result.acquire(99), time),
            change(result.rate(), rate),
            count(ratio(result.acquire(50))),
            count(ratio(result.rate())),
        ]);
    }
    println!("{table}");

    let [(_, _, ours), (_, _, rslock), (_, _, raw)] = &contenders[..] else {
        unreachable!("as many as contenders");
    };
    let said = |figure: &dyn Fn(&Result) -> f64| {
        format!(
            "rslock {} × its own; raw at quorum {} ×",
            count(figure(rslock)),
            count(figure(raw))
        )
    };
    let aim = Aim {
        work: "7. one of five nodes 20 ms late: acquire p50",
        ours: ours.acquire(50)[1],
        shown: time,
        others: said(&|result| ratio(result.acquire(50))),
    };
    let report = &mut bench.report;
    report.at_most(aim, 1.2, "own healthy", ours.acquire(50)[0]);
    let aim = Aim {
        work: "7. cycles/s at 64 tasks",
        ours: ours.rate()[1],
        shown: rate,
        others: said(&|result| ratio(result.rate())),
    };
    report.at_least(aim, 0.8, "own healthy", ours.rate()[0]);
}

async fn turn(bench: &Bench, locker: &Arc<dyn Locker>, label: &str) -> (Cycles, Cycles) {
    let fleet = &bench.fleet;
    let one = Load::of(1, Duration::from_millis(250));
    let one = cycles(locker, fleet, &format!("{label}:one"), one).await;
    let many = Load::of(64, Duration::from_millis(400));
    let many = cycles(locker, fleet, &format!("{label}:many"), many).await;
    bench.over(&**locker).await;
    (one, many)
}
