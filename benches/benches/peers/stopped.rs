//! Rows 10 and 11: nodes that are stopped by `SIGSTOP`: their connections stay open, and nothing is answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_benches::cycles::{Cycles, Load, cycles};
use lock_benches::figures::{count, median, over, time};
use lock_benches::locker::{Kind, Locker, Ours, TTL};
use lock_benches::report::{Aim, Table, listed};
use lock_runtime::LockManagerBuilder;
use lock_tests::Fleet;
use tokio::time::timeout;

use crate::bench::{Bench, NODES, end_of_turn, founded};

/// In how many rounds each takes part: those that are slow here take seconds for one.
const KINDS: [(Kind, usize); 5] = [
    (Kind::Ours, 7),
    (Kind::RawQuorum, 7),
    (Kind::Rslock, 2),
    (Kind::Redlock, 1),
    (Kind::DistributedLockRedis, 1),
];

/// How long a call may take with a minority stopped, and with a majority.
const PATIENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(6)];

/// Of our manager in row 11: the default.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// With none, one and two nodes stopped.
type Result = [Vec<Cycles>; 3];

pub(crate) async fn minority(bench: &mut Bench) {
    let load = Load {
        patience: PATIENCE[0],
        ..Load::of(1, Duration::from_millis(250))
    };
    let mut results: Vec<(Kind, Result)> = Vec::new();
    for (kind, rounds) in KINDS {
        // Servers of its own, as some contenders do not recover.
        let fleet = founded(NODES).await;
        let locker = kind.connect(&fleet.urls()).await;
        let mut result = Result::default();
        let warm = format!("warm:{}", kind.name());
        cycles(&locker, &fleet, &warm, load).await;
        for round in 0..rounds {
            for stopped in 0..=2 {
                if let Some(last) = usize::checked_sub(stopped, 1) {
                    fleet.servers()[last].pause();
                }
                let label = format!("stopped:{round}:{stopped}");
                result[stopped].push(cycles(&locker, &fleet, &label, load).await);
            }
            recover(&fleet, &*locker, 2).await;
        }
        results.push((kind, result));
    }
    let mut table = Table::new([
        "10. acquire with nodes stopped",
        "p50: none",
        "one",
        "two",
        "p99: none",
        "one",
        "two",
        "faults",
    ]);
    let figure = |rounds: &Vec<Cycles>, percent| over(rounds, |round| round.acquire(percent));
    for (kind, result) in &results {
        let [p50, p99] = [50, 99].map(|percent| {
            let of = |rounds: &Vec<Cycles>| time(figure(rounds, percent));
            result.each_ref().map(of)
        });
        let [none, one, two] = p50;
        let [none_most, one_most, two_most] = p99;
        let failures = result.iter().flatten().map(Cycles::failures);
        table.line([
            kind.name().to_owned(),
            none,
            one,
            two,
            none_most,
            one_most,
            two_most,
            failures.max_by_key(String::len).unwrap_or_default(),
        ]);
    }
    println!("{table}");

    let (_, ours) = &results[0];
    let healthy = figure(&ours[0], 99);
    for (stopped, work) in [
        (1, "10. one of five nodes stopped: acquire p99"),
        (2, "10. two of five nodes stopped: acquire p99"),
    ] {
        let said = |(kind, result): &(Kind, Result)| {
            let late = figure(&result[stopped], 50);
            let figure = if late.is_nan() {
                "hangs".to_owned()
            } else {
                format!("p50 {}", time(late))
            };
            format!("{} {figure}", kind.name())
        };
        let aim = Aim {
            work,
            ours: figure(&ours[stopped], 99),
            shown: time,
            others: listed(results[1..].iter().map(said)),
        };
        bench.report.at_most(aim, 1.5, "own healthy", healthy);
    }
}

async fn recover(fleet: &Fleet, locker: &dyn Locker, stopped: usize) {
    for server in &fleet.servers()[..stopped] {
        server.resume();
    }
    end_of_turn(fleet, locker).await;
    // What waits for the next turn is not what was stopped in this one.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

pub(crate) async fn majority(bench: &mut Bench) {
    let mut table = Table::new([
        "11. three of five nodes stopped",
        "until the error, median",
        "worst",
        "calls",
        "without an answer",
        "the error",
    ]);
    let mut figures = Vec::new();
    for (kind, rounds) in KINDS {
        let fleet = founded(NODES).await;
        let locker: Arc<dyn Locker> = if kind == Kind::Ours {
            let by_default = |builder: LockManagerBuilder| builder.node_timeout(NODE_TIMEOUT);
            Arc::new(Ours::with(&fleet.urls(), TTL, by_default).await)
        } else {
            kind.connect(&fleet.urls()).await
        };
        let calls = if kind == Kind::Ours { 3 } else { 1 };
        let (mut times, mut hung, mut error) = (Vec::new(), 0, String::new());
        for round in 0..rounds {
            // All connections are there, and are used.
            let warm = format!("warm:{round}");
            let warm = locker.ask(warm).await.ok().flatten();
            if let Some(held) = warm {
                drop(timeout(PATIENCE[0], held.release()).await);
            }
            for server in &fleet.servers()[..3] {
                server.pause();
            }
            for call in 0..calls {
                let asked = Instant::now();
                let reply = locker.ask(format!("majority:{round}:{call}"));
                match timeout(PATIENCE[1], reply).await {
                    Ok(Ok(Some(_))) => panic!("{} granted without a quorum", kind.name()),
                    Ok(Ok(None)) => "not granted".clone_into(&mut error),
                    Ok(Err(how)) => error = how,
                    Err(_) => hung += 1,
                }
                times.push(asked.elapsed().as_secs_f64());
            }
            recover(&fleet, &*locker, 3).await;
        }
        let answers = times.len() - hung;
        let middle = if answers > 0 {
            median(times.clone())
        } else {
            f64::NAN
        };
        let worst = times.iter().copied().fold(0.0, f64::max);
        table.line([
            kind.name().to_owned(),
            time(middle),
            time(worst),
            count(lock_benches::figures::size(times.len())),
            hung.to_string(),
            error,
        ]);
        figures.push((kind, middle, worst));
    }
    println!("{table}");
    let said = |(kind, middle, _): &(Kind, f64, f64)| {
        if middle.is_nan() {
            format!("{} none in {:?}", kind.name(), PATIENCE[1])
        } else {
            format!("{} {}", kind.name(), time(*middle))
        }
    };
    let aim = Aim {
        work: &format!(
            "11. three of five nodes stopped: time until the error (`node_timeout` 50 ms; the worst {})",
            time(figures[0].2)
        ),
        ours: figures[0].1,
        shown: time,
        others: listed(figures[1..].iter().map(said)),
    };
    let limit = NODE_TIMEOUT + Duration::from_millis(50);
    bench.report.within(aim, limit.as_secs_f64());
}
