//! A key that many tasks want, again and again, for so long.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::figures::{number, quantile, size};
use crate::inside::Record;
use crate::locker::Locker;

/// How long a release may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// Between a failure and the next try.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// So many tasks.
    pub tasks: usize,
    /// How long each of them is inside, asleep; zero: not a moment.
    pub body: Duration,
    /// For how long they go on.
    pub time: Duration,
}

/// Who was served how often and after how long.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Of each task.
    pub counts: Vec<u64>,
    /// The median of all waits, in seconds, those that the end cut off included. Of one process only.
    pub half: f64,
    /// Their 99th percentile.
    pub most: f64,
    /// The longest of them.
    pub longest: Duration,
    /// How often somebody was inside already.
    pub collisions: u64,
    /// How often a call failed.
    pub failed: u64,
    /// How it did the first time.
    pub failure: Option<String>,
    /// From the start to the last task's end.
    pub elapsed: Duration,
}

impl Served {
    /// Acquisitions, all tasks together.
    pub fn total(&self) -> f64 {
        number(self.counts.iter().sum())
    }

    /// Acquisitions per second.
    pub fn rate(&self) -> f64 {
        self.total() / self.elapsed.as_secs_f64()
    }

    /// How much less the least served task got than the most served one.
    pub fn spread(&self) -> f64 {
        let least = self.counts.iter().copied().min().unwrap_or_default();
        let most = self.counts.iter().copied().max().unwrap_or_default();
        1.0 - number(least) / number(most.max(1))
    }

    /// Least and most, in words.
    pub fn range(&self) -> String {
        let least = self.counts.iter().min().unwrap_or(&0);
        let most = self.counts.iter().max().unwrap_or(&0);
        format!("{least}–{most}")
    }

    /// How many tasks were never served.
    pub fn starved(&self) -> f64 {
        size(self.counts.iter().filter(|&&count| count == 0).count())
    }

    /// What went wrong, in words; empty if nothing.
    pub fn faults(&self) -> String {
        let collisions = match self.collisions {
            0 => String::new(),
            times => format!("**let two in** {times} times"),
        };
        let failures = match &self.failure {
            None => String::new(),
            Some(how) => format!("failed {} times: {how}", self.failed),
        };
        crate::report::listed([collisions, failures])
    }

    /// Together with others that ran at the same time.
    pub fn add(&mut self, other: Self) {
        self.counts.extend(other.counts);
        self.longest = self.longest.max(other.longest);
        self.collisions += other.collisions;
        self.failed += other.failed;
        self.failure = self.failure.take().or(other.failure);
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}

/// Lets them, all from now on.
pub async fn crowd(locker: &Arc<dyn Locker>, key: &str, crowd: Crowd, record: &Record) -> Served {
    let started = Instant::now();
    let end = started + crowd.time;
    let mut running = JoinSet::new();
    for _ in 0..crowd.tasks {
        let task = Task {
            locker: Arc::clone(locker),
            key: key.to_owned(),
            body: crowd.body,
            record: record.clone(),
        };
        running.spawn(task.run(end));
    }
    let (mut all, mut waits) = (Served::default(), Vec::new());
    while let Some(done) = running.join_next().await {
        let (served, waited) = done.expect("no contender panics");
        all.add(served);
        waits.extend(waited);
    }
    all.elapsed = started.elapsed();
    all.half = quantile(&waits, 50);
    all.most = quantile(&waits, 99);
    all
}

struct Task {
    locker: Arc<dyn Locker>,
    key: String,
    body: Duration,
    record: Record,
}

impl Task {
    async fn run(self, end: Instant) -> (Served, Vec<Duration>) {
        let watch = self.record.watch();
        let (mut served, mut waits) = (Served::default(), Vec::new());
        let mut count = 0;
        loop {
            let asked = Instant::now();
            if asked >= end {
                break;
            }
            let reply = timeout_at(end, self.locker.wait(self.key.clone())).await;
            let waited = asked.elapsed();
            served.longest = served.longest.max(waited);
            waits.push(waited);
            let failure = match reply {
                // The round is over.
                Err(_) => break,
                Ok(Err(how)) => Some(how),
                Ok(Ok(held)) => {
                    served.collisions += u64::from(!watch.enter());
                    if !self.body.is_zero() {
                        sleep(self.body).await;
                    }
                    watch.leave();
                    count += 1;
                    match timeout(PATIENCE, held.release()).await {
                        Ok(released) => released.err(),
                        Err(_) => Some(format!("no release in {PATIENCE:?}")),
                    }
                }
            };
            if let Some(how) = failure {
                served.failed += 1;
                served.failure.get_or_insert(how);
                sleep(AFTER_FAILURE).await;
            }
        }
        served.counts.push(count);
        (served, waits)
    }
}
