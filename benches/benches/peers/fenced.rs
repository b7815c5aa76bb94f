//! Row 13: what a fencing token costs.

use std::time::Duration;

use lock_benches::cycles::{Cycles, Load, cycles};
use lock_benches::figures::{count, over, rate, time};
use lock_benches::locker::Kind;
use lock_benches::report::{Aim, Table};
use lock_benches::servers::Sent;

use crate::bench::{Bench, NODES};

const ROUNDS: usize = 5;

struct Result {
    kind: Kind,
    sent: Sent,
    one: Vec<Cycles>,
    many: Vec<Cycles>,
    commands: f64,
}

impl Result {
    fn over(&self, figure: impl Fn(&Cycles) -> f64) -> f64 {
        over(&self.many, figure)
    }
}

pub(crate) async fn row(bench: &mut Bench) {
    let mut results = Vec::new();
    for kind in [Kind::Ours, Kind::OursFenced] {
        // Found out while nobody contends, as nobody will.
        let locker = bench.locker(kind).await;
        let load = Load::of(1, Duration::from_millis(50));
        let sent = Sent::during(&bench.fleet, async {
            cycles(&locker, &bench.fleet, kind.name(), load).await;
        });
        results.push(Result {
            kind,
            sent: sent.await,
            one: Vec::new(),
            many: Vec::new(),
            commands: 0.0,
        });
    }
    for round in 1..=ROUNDS {
        for result in &mut results {
            let locker = bench.locker(result.kind).await;
            let label = format!("fence:{}:{round}", result.kind.name());
            let load = Load::of(1, Duration::from_millis(300));
            Sent::start(&bench.fleet);
            let one = cycles(&locker, &bench.fleet, &format!("{label}:one"), load).await;
            let nodes = lock_benches::figures::size(NODES);
            let done = lock_benches::figures::size(one.wholes.len());
            result.commands = result.sent.count(&bench.fleet) / nodes / done;
            let load = Load::of(64, Duration::from_millis(700));
            let many = cycles(&locker, &bench.fleet, &format!("{label}:many"), load).await;
            bench.over(&*locker).await;
            result.one.push(one);
            result.many.push(many);
        }
    }
    let mut table = Table::new([
        "13. fenced against plain, 64 tasks",
        "cycles/s",
        "client CPU",
        "servers’ CPU",
        "both",
        "median cycle, one task",
        "commands to each node, one task",
        "faults",
    ]);
    let both = |result: &Result| result.over(|round| round.client() + round.servers());
    for result in &results {
        let failures = result.many.iter().chain(&result.one).map(Cycles::failures);
        table.line([
            result.kind.name().to_owned(),
            rate(result.over(Cycles::rate)),
            time(result.over(Cycles::client)),
            time(result.over(Cycles::servers)),
            time(both(result)),
            time(over(&result.one, |round| round.cycle(50))),
            count(result.commands),
            failures.max_by_key(String::len).unwrap_or_default(),
        ]);
    }
    println!("{table}");
    let [plain, fenced] = &results[..] else {
        unreachable!("as many as kinds");
    };
    let aim = Aim {
        work: "13. a fenced acquire and release: CPU of client and servers",
        ours: both(fenced),
        shown: time,
        others: format!("plain {}", time(both(plain))),
    };
    bench.report.at_most(aim, 1.5, "plain", both(plain));
    let aim = Aim {
        work: "13. round trips to each node",
        ours: fenced.commands,
        shown: count,
        others: format!("plain {}", count(plain.commands)),
    };
    // One that is slow once may be asked once more.
    let same = fenced.commands <= plain.commands * 1.02;
    bench.report.holds(aim, "the same", same);
}
