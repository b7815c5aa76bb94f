//! How long after a crash a cron job runs again: `scripts/cron --kills N`.
//!
//! Three processes of the example `cron` over five servers, with a tick every second. Again and again the one that runs is
//! killed somewhere in the middle of its job, another process takes its place, and what is measured is the time from the
//! kill to the next run, by whomever.
//!
//! What is claimed of each kill: nobody runs before the lock of the dead one is over on a majority of the servers, which is
//! asked of these; and the first tick after that is run. Of all together: no tick was begun by two, and nobody made a step of
//! its job after another had begun.

use lock_tests::cron::{Free, Replicas, Run, STEPS};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: scripts/cron [--kills N] [--ttl MS] [--job MS]

Kills N times (10) a replica in the middle of its job, which takes 800 ms under a lock with a TTL of 5000 ms. The last line is
    kills=N again_min_ms=N again_median_ms=N again_max_ms=N lost_max=N early=N late=N double_runs=N
where lost is the number of ticks that nobody ran to the end, and the exit status is 1 unless the last three are 0.";

#[derive(Clone, Copy)]
struct Options {
    kills: usize,
    ttl: u64,
    job: u64,
}

fn main() -> ExitCode {
    lock_tests::program::run(USAGE, options, measure)
}

fn options(arguments: &[String]) -> Option<Options> {
    let mut options = Options {
        kills: 10,
        ttl: 5000,
        job: 800,
    };
    for option in arguments.chunks(2) {
        let [name, value] = option else { return None };
        match name.as_str() {
            "--kills" => options.kills = value.parse().ok().filter(|&kills| kills > 0)?,
            "--ttl" => options.ttl = value.parse().ok()?,
            // Shorter, and it is through before it can be killed.
            "--job" => options.job = value.parse().ok().filter(|&job| job >= 200)?,
            _ => return None,
        }
    }
    Some(options)
}

/// A kill, and what came after it.
struct Crash {
    killed: Run,
    free: Free,
    next: Run,
}

impl Crash {
    fn again(&self) -> Duration {
        self.next.began.saturating_sub(self.free.asked)
    }

    fn lost(&self) -> u64 {
        self.next.tick - self.killed.tick
    }

    fn tell(&self) {
        let Self { killed, free, next } = self;
        println!(
            "{} killed after {} of {STEPS} steps, its lock left for {} ms; {} runs after {} ms, {} ticks later",
            killed.replica,
            killed.steps,
            free.first.saturating_sub(free.asked).as_millis(),
            next.replica,
            self.again().as_millis(),
            self.lost(),
        );
    }
}

#[tokio::main]
async fn measure(options: Options) -> ExitCode {
    let [ttl, job] = [options.ttl, options.job].map(|millis| format!("{millis}ms"));
    let mut replicas = Replicas::start(&["--ttl", &ttl, "--job", &job]).await;
    let mut crashes = Vec::with_capacity(options.kills);
    for _ in 0..options.kills {
        // Anywhere between the first step and the last but one, so after some renewals where the job takes long.
        let later = Duration::from_millis(fastrand::u64(..options.job / 2));
        let (killed, free) = replicas.kill_in_the_middle(later).await;
        replicas.start_another();
        let next = replicas.next_run(killed.tick).await;
        let crash = Crash { killed, free, next };
        crash.tell();
        crashes.push(crash);
    }
    let told = replicas.end().await;

    let early = crashes
        .iter()
        .filter(|crash| crash.next.began < crash.free.first);
    let late = crashes.iter().filter(|crash| {
        let mut missed = crash.free.first_tick()..crash.next.tick;
        missed.any(|tick| !told.nobody_could(tick))
    });
    let (early, late) = (early.count(), late.count());
    let double_runs = told.journal.double_runs();
    for double_run in &double_runs {
        println!("{double_run}");
    }
    let mut again: Vec<u128> = crashes
        .iter()
        .map(|crash| crash.again().as_millis())
        .collect();
    again.sort_unstable();
    println!(
        "kills={} again_min_ms={} again_median_ms={} again_max_ms={} lost_max={} early={early} late={late} double_runs={}",
        again.len(),
        again[0],
        again[again.len() / 2],
        again[again.len() - 1],
        crashes.iter().map(Crash::lost).max().unwrap_or(0),
        double_runs.len(),
    );
    if (early, late, double_runs.len()) == (0, 0, 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
