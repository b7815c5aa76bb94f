//! Replicas of one service, each with the same cron job, and one run of it per tick.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::Cron;
use lexopt::prelude::*;
use lock_examples::{has_lock_nodes, locks, log_to_stderr, options, stop_signal};
use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const HELP: &str = "\
Replicas of one service, each with the same cron job: every tick is run by one of them and skipped by the others.

Usage: cron [OPTIONS]
       LOCK_NODES=redis://…,redis://… cron --replica NAME [OPTIONS]

  --schedule CRON   when the job is due, in UTC, seconds first [default: '* * * * * *', every second]
  --ticks N         how many ticks to take part in, or 'forever' [default: 5]
  --skew TIME       how late the slowest clock is, at most 500ms [default: 300ms, with LOCK_NODES 0ms]
  --job TIME        how long the job takes, at most ten minutes: then it is stopped [default: 20ms]
  --ttl TIME        how long the lock outlives a replica that dies, from 1s to 60s [default: 5s]
  --journal FILE    append a line for each of the job's steps, 'tick=… replica=a step=1/4 at=…'
  --grace TIME      how long the job may go on once the process is told to stop [default: 25s]
  --replicas N      without LOCK_NODES: how many replicas this process plays, at most 26 [default: 3]
  --replica NAME    with LOCK_NODES: the name of this replica [default: from the process id]
  --help            this text

Without LOCK_NODES the locks are embedded, and all replicas are tasks of this process; their clocks are spread over the
skew. With LOCK_NODES this process is one replica, whose clock is late by the skew: start several.

With LOCK_NODES, LOCK_PREFIX is put before every key, LOCK_HOLDER names this process to whoever looks for a lock's holder, and
LOCK_NODE_TIMEOUT_MS is how long a node may take to answer. It is this example that reads them all, and not the library. It has
no /metrics: what it sees of the nodes is in its log.

Standard output has one line per replica and tick, 'tick=2026-11-29T15:00:02Z replica=a ran' or '… skipped', and at the
end 'ticks=5 runs=5 skips=10'. A tick that the lock service could not decide is reported on standard error only, and
makes the exit code 1.

A replica that is killed in the middle of its job leaves the lock to its TTL: the ticks until then are skipped by everybody, and
the first tick after it is run. One that was paused for longer than that, while another ran, stops where it is.

On SIGTERM and Ctrl-C no further tick is taken part in, and a job that runs is waited for; when the grace is over it is
stopped. Then all locks are released; the exit code is 0, or 1 where a job was stopped.
";

/// How far the clocks of the replicas may be apart.
const MAX_SKEW: Duration = Duration::from_millis(500);

/// How long a tick's lock is kept, however short the job.
///
/// Longer than the greatest skew: else the last replica's clock strikes when job and lock are over, and the job runs a
/// second time. Shorter than the period: else the next tick finds the lock still held, and is skipped by everybody.
/// Halfway between leaves both sides the same room for delays, and no cron schedule has a shorter period than a second.
/// For a job of every five minutes, half a minute would do.
const HOLD: Duration = Duration::from_millis(750);

/// How late a replica may be, by its own clock, and still ask. One that slept through its tick, say because the machine
/// did, could come when the tick's lock is over, and must not run what another has run. What is left to [`HOLD`] is for the
/// asking itself.
const GRACE: Duration = Duration::from_millis(200);

const _: () = assert!(MAX_SKEW.as_millis() + GRACE.as_millis() < HOLD.as_millis());

/// What a job may take. One that hangs is renewed for as long as its process lives, and no tick would ever be run again.
const MAX_HOLD: Duration = Duration::from_secs(600);

/// In how many steps the job does its work.
const STEPS: u32 = 4;

/// The job, 20 ms of work by default: much shorter than the skew.
struct Job {
    name: &'static str,
    takes: Duration,
    /// How long the lock outlives a replica that dies. It is renewed while the job runs, so the job may take longer.
    ttl: Duration,
    /// Where its steps are written, as the work of a real job shows somewhere.
    journal: Option<File>,
}

impl Job {
    /// `None` says that another replica has it.
    ///
    /// The key names the job, not the tick: the same lock guards all its ticks, so that a run which takes longer than the
    /// period is not overtaken by the next one either. A replica that dies in the middle of it costs the ticks of one TTL.
    #[distributed_lock(
        key = "cron:{self.name}",
        ttl = self.ttl,
        hold_at_least = HOLD,
        max_hold = MAX_HOLD,
        on_busy = skip
    )]
    async fn run(&self, replica: &Replica, tick: Tick) -> Result<Option<()>, Failure> {
        let (job, name) = (self.name, &replica.name);
        // It looked at its clock, and may have stood still before it asked. So late, it may have the lock because another is
        // through with this very tick.
        if replica.lateness(tick) > HOLD.saturating_sub(MAX_SKEW) {
            tracing::warn!(job, replica = name, %tick, "too late to run");
            return Ok(None);
        }
        tracing::info!(job, replica = name, %tick, "running");
        self.note(name, tick, 0)?;
        for step in 1..=STEPS {
            sleep(self.takes / STEPS).await;
            self.note(name, tick, step)?;
        }
        tracing::info!(job, replica = name, %tick, "done");
        Ok(Some(()))
    }

    /// Writes a step into the journal: with one write, and before anything else happens, as what is handed to another thread
    /// goes on when the job is stopped.
    fn note(&self, replica: &str, tick: Tick, step: u32) -> io::Result<()> {
        let Some(mut journal) = self.journal.as_ref() else {
            return Ok(());
        };
        let at = Utc::now().format("%FT%T%.3fZ");
        let line = format!("tick={tick} replica={replica} step={step}/{STEPS} at={at}\n");
        journal.write_all(line.as_bytes())
    }
}

/// Why the job was not run, or not to its end: the lock, or something of its own.
type Failure = Box<dyn Error + Send + Sync>;

/// When the job is due. It is written as on standard output, so that a tick can be looked up in the log.
#[derive(Clone, Copy)]
struct Tick(DateTime<Utc>);

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%FT%TZ"))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options(HELP, Options::parse) {
        Ok(options) => options,
        Err(code) => return code.into(),
    };
    log_to_stderr();
    match play(options).await {
        Ok(tally) if tally.undecided == 0 => ExitCode::SUCCESS,
        Ok(tally) => {
            tracing::error!(
                "ticks that were not decided, or whose job did not come to its end: {}",
                tally.undecided
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays the replicas of this process, to the end or until it is told to stop.
async fn play(options: Options) -> Result<Tally, Box<dyn Error>> {
    let locks = locks()?;
    lock_runtime::install(locks.clone())?;
    let told_to_stop = stop_signal()?;
    wait_until_ready(&locks).await;

    let started = Utc::now();
    let (stop, stopping) = watch::channel(false);
    let mut replicas = JoinSet::new();
    for replica in options.replicas {
        let due = options.schedule.iter_after(started);
        let ticks = due.take(options.ticks).map(Tick);
        replicas.spawn(replica.take_part(ticks, Arc::clone(&options.job), stopping.clone()));
    }
    let mut total = pin!(add_up(replicas));
    let stopped = async {
        told_to_stop.await;
        stop.send_replace(true);
        locks.shutdown(options.grace).await;
    };
    let total = tokio::select! {
        total = &mut total => total?,
        () = stopped => total.await?,
    };
    // The guarded call that was stopped may have returned before the nodes have heard of it.
    locks.shutdown(options.grace).await;
    let Tally {
        ticks, runs, skips, ..
    } = total;
    writeln!(io::stdout(), "ticks={ticks} runs={runs} skips={skips}")?;
    Ok(total)
}

/// Waits for the replicas, and adds up what they made of the ticks.
async fn add_up(mut replicas: JoinSet<io::Result<Tally>>) -> Result<Tally, Box<dyn Error>> {
    let mut total = Tally::default();
    while let Some(replica) = replicas.join_next().await {
        total.add(&replica??);
    }
    Ok(total)
}

/// As a readiness probe would, so that a tick right after the start is not lost. The nodes may be down for longer: then
/// the ticks say so.
async fn wait_until_ready(locks: &LockManager) {
    let ready = async {
        while !locks.ready().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(Duration::from_secs(5), ready).await.is_err() {
        tracing::warn!("starting although the lock nodes do not answer yet");
    }
}

/// One replica of the service.
struct Replica {
    name: String,
    /// How far its clock is behind the right time.
    behind: Duration,
}

impl Replica {
    async fn take_part(
        self,
        ticks: impl Iterator<Item = Tick>,
        job: Arc<Job>,
        mut stopping: watch::Receiver<bool>,
    ) -> io::Result<Tally> {
        let (mut tally, name) = (Tally::default(), &self.name);
        for tick in ticks {
            tokio::select! {
                // Ticks that have passed meanwhile are not taken part in either.
                biased;
                _ = stopping.wait_for(|stop| *stop) => break,
                () = self.wait_for(tick) => {}
            }
            tally.ticks += 1;
            let outcome = match self.lateness(tick) {
                late if late > GRACE => {
                    tracing::warn!(replica = name, %tick, ?late, "too late to take part");
                    Ok(None)
                }
                _ => job.run(&self, tick).await,
            };
            let outcome = match outcome {
                Ok(Some(())) => {
                    tally.runs += 1;
                    "ran"
                }
                Ok(None) => {
                    tally.skips += 1;
                    "skipped"
                }
                Err(error) => {
                    tally.undecided += 1;
                    let what = match error.downcast_ref() {
                        Some(LockError::Lost { .. }) => "stopped on the way",
                        Some(_) => "not decided",
                        None => "failed",
                    };
                    tracing::error!(replica = name, %tick, %error, "{what}");
                    continue;
                }
            };
            writeln!(io::stdout(), "tick={tick} replica={name} {outcome}")?;
        }
        Ok(tally)
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now() - self.behind
    }

    /// Sleeps until its clock says that it is time; again if the clock was set back meanwhile.
    async fn wait_for(&self, tick: Tick) {
        while let Ok(left) = (tick.0 - self.now()).to_std()
            && !left.is_zero()
        {
            sleep(left).await;
        }
    }

    fn lateness(&self, tick: Tick) -> Duration {
        (self.now() - tick.0).to_std().unwrap_or_default()
    }
}

/// What became of the ticks.
#[derive(Default)]
struct Tally {
    ticks: usize,
    runs: usize,
    skips: usize,
    undecided: usize,
}

impl Tally {
    /// Adds what another replica made of the same ticks.
    fn add(&mut self, other: &Self) {
        self.ticks = self.ticks.max(other.ticks);
        self.runs += other.runs;
        self.skips += other.skips;
        self.undecided += other.undecided;
    }
}

/// What the command line says.
struct Options {
    schedule: Cron,
    ticks: usize,
    job: Arc<Job>,
    grace: Duration,
    replicas: Vec<Replica>,
}

impl Options {
    fn parse(mut parser: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let mut schedule = "* * * * * *".to_owned();
        let (mut ticks, mut skew, mut replicas, mut replica) = (5, None, None, None);
        let (mut takes, mut grace) = (Duration::from_millis(20), Duration::from_secs(25));
        let (mut ttl, mut journal) = (Duration::from_secs(5), None);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("schedule") => schedule = parser.value()?.string()?,
                Long("ticks") => ticks = parser.value()?.parse_with(read_ticks)?,
                Long("skew") => skew = Some(parser.value()?.parse_with(read_skew)?),
                Long("job") => takes = parser.value()?.parse_with(read_time)?,
                Long("ttl") => ttl = parser.value()?.parse_with(read_ttl)?,
                Long("journal") => journal = Some(open(&parser.value()?)?),
                Long("grace") => grace = parser.value()?.parse_with(read_time)?,
                Long("replicas") => replicas = Some(parser.value()?.parse_with(read_count)?),
                Long("replica") => replica = Some(parser.value()?.parse_with(read_name)?),
                Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        let schedule: Cron = schedule
            .parse()
            .map_err(|error| format!("--schedule '{schedule}': {error}"))?;
        if schedule.find_next_occurrence(&Utc::now(), false).is_err() {
            return Err("--schedule never comes due".into());
        }
        let replicas = match (has_lock_nodes(), replicas, replica) {
            (true, None, name) => vec![Replica {
                name: name.unwrap_or_else(|| format!("p{}", std::process::id())),
                behind: skew.unwrap_or_default(),
            }],
            (true, Some(_), _) => {
                return Err(
                    "--replicas: with LOCK_NODES a process is one replica, so start several".into(),
                );
            }
            (false, count, None) => spread(
                count.unwrap_or(3),
                skew.unwrap_or(Duration::from_millis(300)),
            ),
            (false, _, Some(_)) => {
                return Err("--replica: without LOCK_NODES other processes cannot see the locks of this one".into());
            }
        };
        let job = Arc::new(Job {
            name: "clean-up",
            takes,
            ttl,
            journal,
        });
        Ok(Some(Self {
            schedule,
            ticks,
            job,
            grace,
            replicas,
        }))
    }
}

/// Replicas `a`, `b`, … whose clocks are evenly spread: the first is right, the last is behind by the whole skew.
fn spread(count: u8, skew: Duration) -> Vec<Replica> {
    let steps = u32::from(count.saturating_sub(1)).max(1);
    ('a'..)
        .zip(0..u32::from(count))
        .map(|(name, step)| Replica {
            name: name.into(),
            behind: skew * step / steps,
        })
        .collect()
}

fn open(path: &OsStr) -> Result<File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("--journal {}: {error}", path.display()))
}

fn read_ticks(text: &str) -> Result<usize, &'static str> {
    match text {
        "forever" => Ok(usize::MAX),
        count => count.parse().map_err(|_| "must be a number or 'forever'"),
    }
}

/// Not longer than a manager allows by default, and not so short that a busy machine renews too late.
fn read_ttl(text: &str) -> Result<Duration, &'static str> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(60);
    let ttl = read_time(text).ok().filter(|ttl| allowed.contains(ttl));
    ttl.ok_or("must be from 1s to 60s")
}

fn read_skew(text: &str) -> Result<Duration, String> {
    match read_time(text) {
        Ok(skew) if skew <= MAX_SKEW => Ok(skew),
        _ => Err("must be from 0ms to 500ms".to_owned()),
    }
}

fn read_time(text: &str) -> Result<Duration, &'static str> {
    let millis = match text.strip_suffix("ms") {
        Some(millis) => millis.parse().ok(),
        None => text
            .strip_suffix('s')
            .and_then(|seconds| seconds.parse::<u64>().ok()?.checked_mul(1000)),
    };
    millis
        .map(Duration::from_millis)
        .ok_or("must be like 20ms or 3s")
}

fn read_count(text: &str) -> Result<u8, &'static str> {
    let count = text.parse().ok().filter(|count| (1..=26).contains(count));
    count.ok_or("must be from 1 to 26")
}

/// A name that keeps the output one line of three words.
fn read_name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Err("must be one word")
    } else {
        Ok(text.to_owned())
    }
}
