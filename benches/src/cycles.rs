//! Taking and giving back keys that nobody else wants, from so many tasks for so long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_tests::Fleet;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::figures::{number, quantile, size};
use crate::locker::{Held, Locker, Reply};
use crate::machine::processor_time;
use crate::servers;

/// A task that has failed so often goes no further.
const FAILURES: usize = 3;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// So many tasks at once.
    pub tasks: usize,
    /// No new cycle is begun after this time.
    pub time: Duration,
    /// A call that takes longer has failed, and its task ends.
    pub patience: Duration,
}

impl Load {
    /// With more patience than anybody needs where nothing is wrong.
    pub fn of(tasks: usize, time: Duration) -> Self {
        Self {
            tasks,
            time,
            patience: Duration::from_secs(4),
        }
    }
}

/// What it took.
#[derive(Clone, Debug, Default)]
pub struct Cycles {
    /// Of each call for a lock, until it was there.
    pub acquires: Vec<Duration>,
    /// Of each cycle.
    pub wholes: Vec<Duration>,
    /// What went wrong how often, and how the first time.
    pub failed: u64,
    /// The first of these failures, in words.
    pub failure: Option<String>,
    elapsed: Duration,
    client: Duration,
    servers: Duration,
}

impl Cycles {
    /// Cycles per second.
    pub fn rate(&self) -> f64 {
        size(self.wholes.len()) / self.elapsed.as_secs_f64()
    }

    /// Processor time of this process for one cycle, in seconds.
    pub fn client(&self) -> f64 {
        self.client.as_secs_f64() / size(self.wholes.len())
    }

    /// Processor time of the servers for one cycle, in seconds.
    pub fn servers(&self) -> f64 {
        self.servers.as_secs_f64() / size(self.wholes.len())
    }

    /// Of whole cycles, in seconds.
    pub fn cycle(&self, percent: usize) -> f64 {
        quantile(&self.wholes, percent)
    }

    /// Of acquiring alone, in seconds.
    pub fn acquire(&self, percent: usize) -> f64 {
        quantile(&self.acquires, percent)
    }

    /// In words, empty if nothing went wrong.
    pub fn failures(&self) -> String {
        let Some(failure) = &self.failure else {
            return String::new();
        };
        let all = number(self.failed) + size(self.wholes.len());
        format!("failed {} of {all:.0} times: {failure}", self.failed)
    }

    fn add(&mut self, other: Self) {
        self.acquires.extend(other.acquires);
        self.wholes.extend(other.wholes);
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
    }
}

/// Does it, on keys whose names begin with `label`.
pub async fn cycles(locker: &Arc<dyn Locker>, fleet: &Fleet, label: &str, load: Load) -> Cycles {
    let servers_before = servers::processor_time(fleet);
    let client_before = processor_time();
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..load.tasks {
        let (locker, label) = (Arc::clone(locker), label.to_owned());
        running.spawn(async move {
            let mut done = Cycles::default();
            let mut failures = 0;
            for turn in 0_u64.. {
                if started.elapsed() > load.time || failures >= FAILURES {
                    break;
                }
                let asked = Instant::now();
                let reply = locker.ask(format!("{label}:{task}:{turn}"));
                match one(reply, load.patience).await {
                    Ok(acquired) => {
                        done.acquires.push(acquired.duration_since(asked));
                        done.wholes.push(asked.elapsed());
                    }
                    Err(Failed { hangs, how }) => {
                        failures += if hangs { FAILURES } else { 1 };
                        done.failed += 1;
                        done.failure.get_or_insert(how);
                    }
                }
            }
            done
        });
    }
    let mut all = Cycles::default();
    while let Some(done) = running.join_next().await {
        all.add(done.expect("no contender panics"));
    }
    all.elapsed = started.elapsed();
    all.client = processor_time().saturating_sub(client_before);
    all.servers = servers::processor_time(fleet).saturating_sub(servers_before);
    all
}

struct Failed {
    hangs: bool,
    how: String,
}

/// One cycle; when the lock was there.
async fn one(reply: Reply<Option<Held>>, patience: Duration) -> Result<Instant, Failed> {
    let hangs = |_| Failed {
        hangs: true,
        how: format!("no answer in {patience:?}"),
    };
    let fails = |how| Failed { hangs: false, how };
    let held = timeout(patience, reply).await.map_err(hangs)?;
    let held = held.map_err(fails)?;
    let held = held.ok_or_else(|| fails("a free key was not granted".to_owned()))?;
    let acquired = Instant::now();
    let released = timeout(patience, held.release()).await.map_err(hangs)?;
    released.map_err(fails)?;
    Ok(acquired)
}
