//! Row 12: the future that acquires is dropped at a random moment, a thousand times, and then nothing may be left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_benches::figures::size;
use lock_benches::locker::{Held, Kind, Locker};
use lock_benches::report::{Aim, Table, listed};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use crate::bench::Bench;

const TIMES: usize = 1_000;
const SAMPLES: usize = 50;
const PATIENCE: Duration = Duration::from_secs(4);

const KINDS: [Kind; 5] = [
    Kind::Ours,
    Kind::Rslock,
    Kind::RawQuorum,
    Kind::Redlock,
    Kind::DistributedLockRedis,
];

type Asking = JoinHandle<std::result::Result<Option<Held>, String>>;

struct Result {
    kind: Kind,
    dropped: usize,
    tries: usize,
    left: usize,
}

pub(crate) async fn row(bench: &mut Bench) {
    let mut results = Vec::new();
    for kind in KINDS {
        let locker = bench.locker(kind).await;
        let usual = usual(&locker).await;
        let (mut dropped, mut tries) = (0, 0);
        // One that has come to its end first is not one of the thousand.
        while dropped < TIMES && tries < 5 * TIMES {
            // As long as one takes, and a little longer.
            let after = usual.mul_f64(1.2 * fastrand::f64());
            dropped += usize::from(drop_after(&locker, tries, after).await);
            tries += 1;
        }
        let left = bench.over(&*locker).await;
        results.push(Result {
            kind,
            dropped,
            tries,
            left,
        });
    }
    let mut table = Table::new([
        "12. the acquire dropped at random",
        "dropped before its end, of all tries",
        "keys left on a node",
    ]);
    for result in &results {
        table.line([
            result.kind.name().to_owned(),
            format!("{} of {}", result.dropped, result.tries),
            result.left.to_string(),
        ]);
    }
    println!("{table}");
    let said = |other: &Result| format!("{} {}", other.kind.name(), other.left);
    let aim = Aim {
        work: "12. the acquire dropped at random 1,000 times: keys left on a node",
        ours: size(results[0].left),
        shown: |keys| format!("{keys:.0}"),
        others: listed(results[1..].iter().map(said)),
    };
    bench.report.within(aim, 0.0);
    let aim = Aim {
        work: "12. how often it was dropped before its end",
        ours: size(results[0].dropped),
        shown: |times| format!("{times:.0}"),
        others: String::new(),
    };
    // Otherwise the row has shown nothing.
    let enough = results[0].dropped == TIMES;
    bench.report.holds(aim, "1000", enough);
}

/// How long it takes when nobody drops it, and the main thread spins as it does then.
async fn usual(locker: &Arc<dyn Locker>) -> Duration {
    let mut times = Vec::new();
    for sample in 0..SAMPLES {
        let (asked, asking) = begin(locker, format!("usual:{sample}")).await;
        while !asking.is_finished() {
            yield_now().await;
        }
        times.push(asked.elapsed());
        if let Ok(Ok(Some(held))) = asking.await {
            drop(held.release().await);
        }
    }
    times.sort_unstable();
    times[SAMPLES / 2]
}

/// Whether it was dropped before it had come to its end; if not, the lock is released as it should be.
async fn drop_after(locker: &Arc<dyn Locker>, turn: usize, after: Duration) -> bool {
    let (asked, asking) = begin(locker, format!("dropped:{turn}")).await;
    // A timer of tokio's is not fine enough.
    while asked.elapsed() < after {
        yield_now().await;
    }
    asking.abort();
    match asking.await {
        Ok(held) => {
            if let Ok(Some(held)) = held {
                drop(timeout(PATIENCE, held.release()).await);
            }
            false
        }
        Err(_) => true,
    }
}

/// Asks in a task, and says since when: before its first poll nothing is sent, and a drop would show nothing.
async fn begin(locker: &Arc<dyn Locker>, key: String) -> (Instant, Asking) {
    let (asks, asked) = oneshot::channel();
    let reply = locker.ask(key);
    let asking = tokio::spawn(async move {
        let _ = asks.send(Instant::now());
        reply.await
    });
    (asked.await.expect("the task begins"), asking)
}
