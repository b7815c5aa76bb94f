//! Row 8: a node is killed and started again, empty, while locks are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_benches::figures::{median, number, time};
use lock_benches::locker::{Held, Kind, Locker, Ours};
use lock_benches::report::{Aim, Table, listed};
use lock_tests::{Disk, Fleet};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bench::{Bench, NODES, end_of_turn};

/// What keeps our young node out, as short as the settings allow it here.
const MAX_TTL: Duration = Duration::from_secs(1);

/// For how long a node that came back has no vote, from its start: `max_ttl` and a second, as the README says.
const KEPT_OUT: Duration = Duration::from_secs(2);

const DOWN: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(5);
const TASKS: usize = 4;

const KINDS: [(Kind, usize); 5] = [
    (Kind::Ours, 3),
    (Kind::Rslock, 2),
    (Kind::RawQuorum, 1),
    (Kind::Redlock, 1),
    (Kind::DistributedLockRedis, 1),
];

/// One kill and start.
struct Turn {
    /// From the node's first answer until it held a lock; not a number if that took too long.
    used_after: f64,
    calls: u64,
    failed: u64,
    failure: Option<String>,
}

pub(crate) async fn row(bench: &mut Bench) {
    let mut table = Table::new([
        "8. a node killed and started again",
        "errors meanwhile",
        "used so long after it answers",
        "of this its waiting time",
        "the first error",
    ]);
    let mut aims: Vec<(Kind, f64, u64)> = Vec::new();
    for (kind, rounds) in KINDS {
        // Its own servers, as some contenders never come back to one that was killed.
        let fleet = lock_benches::servers::start(NODES);
        let locker: Arc<dyn Locker> = if kind == Kind::Ours {
            Arc::new(ours(&fleet).await)
        } else {
            kind.connect(&fleet.urls()).await
        };
        let mut turns = Vec::new();
        for round in 0..rounds {
            turns.push(turn(&fleet, &locker, round).await);
            end_of_turn(&fleet, &*locker).await;
        }
        let used_after = median(turns.iter().map(|turn| turn.used_after).collect());
        let failed = turns.iter().map(|turn| turn.failed).sum();
        let calls: u64 = turns.iter().map(|turn| turn.calls).sum();
        let failure = turns.into_iter().find_map(|turn| turn.failure);
        table.line([
            kind.name().to_owned(),
            format!("{failed} of {calls} calls"),
            used(used_after),
            match kind {
                Kind::Ours => time(KEPT_OUT.as_secs_f64()),
                _ => "none".to_owned(),
            },
            failure.unwrap_or_default(),
        ]);
        aims.push((kind, used_after, failed));
    }
    println!("{table}");

    let [(_, used_after, failed), others @ ..] = &aims[..] else {
        unreachable!("as many as contenders");
    };
    let said = |figure: &dyn Fn(f64, u64) -> String| {
        listed(
            others
                .iter()
                .map(|(kind, used, failed)| format!("{} {}", kind.name(), figure(*used, *failed))),
        )
    };
    let aim = Aim {
        work: "8. a node killed and started again: errors meanwhile",
        ours: number(*failed),
        shown: |errors| format!("{errors:.0}"),
        others: said(&|_, failed| failed.to_string()),
    };
    bench.report.within(aim, 0.0);
    // A node that was up for longer than it took to answer is out for less long.
    let aside = (used_after - KEPT_OUT.as_secs_f64()).max(0.0);
    let aim = Aim {
        work: "8. in use after it answers, its waiting time aside",
        ours: if used_after.is_nan() {
            f64::INFINITY
        } else {
            aside
        },
        shown: time,
        others: said(&|used_after, _| used(used_after)),
    };
    bench.report.within(aim, 0.1);
}

fn used(after: f64) -> String {
    if after.is_nan() {
        format!("not within {PATIENCE:?}")
    } else {
        time(after)
    }
}

async fn ours(fleet: &Fleet) -> Ours {
    let ttl = MAX_TTL / 2;
    Ours::with(&fleet.urls(), ttl, |builder| {
        builder
            .max_ttl(MAX_TTL)
            .node_timeout(Duration::from_millis(100))
    })
    .await
}

async fn turn(fleet: &Fleet, locker: &Arc<dyn Locker>, round: usize) -> Turn {
    let node = &fleet.servers()[0];
    let over = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::new();
    for task in 0..TASKS {
        let (locker, over) = (Arc::clone(locker), Arc::clone(&over));
        running.spawn(async move {
            let (mut calls, mut failures) = (0, Vec::new());
            while !over.load(Ordering::Relaxed) {
                let key = format!("meanwhile:{round}:{task}:{calls}");
                calls += 1;
                match cycle(&*locker, key).await {
                    Ok(()) => sleep(Duration::from_millis(1)).await,
                    Err(how) => failures.push(how),
                }
            }
            (calls, failures)
        });
    }
    sleep(Duration::from_millis(100)).await;
    node.kill();
    sleep(DOWN).await;
    node.restart(Disk::Lose).await;
    let answers = Instant::now();
    let mut used_after = f64::NAN;
    for number in 0_u32.. {
        if answers.elapsed() > PATIENCE {
            break;
        }
        let key = format!("used:{round}:{number}");
        if let Ok(held) = acquired(&**locker, key.clone()).await {
            // The node may answer a moment after the majority.
            sleep(Duration::from_millis(1)).await;
            let has_it = node.exists(&key);
            let at = answers.elapsed();
            drop(timeout(PATIENCE, held.release()).await);
            if has_it {
                used_after = at.as_secs_f64();
                break;
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    let (mut calls, mut failures) = (0, Vec::new());
    for (some, how) in running.join_all().await {
        calls += some;
        failures.extend(how);
    }
    Turn {
        used_after,
        calls,
        failed: u64::try_from(failures.len()).unwrap_or(u64::MAX),
        failure: failures.into_iter().next(),
    }
}

async fn acquired(locker: &dyn Locker, key: String) -> Result<Held, String> {
    let reply = timeout(PATIENCE, locker.ask(key)).await;
    let held = reply.map_err(|_| format!("no answer in {PATIENCE:?}"))??;
    held.ok_or_else(|| "a free key was not granted".to_owned())
}

async fn cycle(locker: &dyn Locker, key: String) -> Result<(), String> {
    let held = acquired(locker, key).await?;
    let released = timeout(PATIENCE, held.release()).await;
    released.map_err(|_| format!("no release in {PATIENCE:?}"))?
}
