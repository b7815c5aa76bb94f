//! Replicas of the example `cron` as processes over five servers, and what became of their ticks.
//!
//! All are on this machine and have one wall clock, so the times of several processes, and of a test, may be compared.

mod journal;
mod told;

pub use journal::{Journal, Run, STEPS, Tick, now, time_of};
pub use told::{Ended, Told};

use crate::fleet::Fleet;
use crate::processes::{Peer, example};
use crate::server::RedisServer;
use crate::wait::{DEADLINE, eventually};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The lock of the example's job.
pub const KEY: &str = "cron:clean-up";

/// So many replicas at the beginning.
const REPLICAS: usize = 3;

/// Where the machine is busy, a job may be done before anything has happened to its process.
const ATTEMPTS: usize = 5;

/// Processes of the example that take part in every second's tick until they are told to stop.
#[derive(Debug)]
pub struct Replicas {
    fleet: Fleet,
    directory: TempDir,
    arguments: Vec<String>,
    started: usize,
    running: Vec<Replica>,
    ended: Vec<Ended>,
}

#[derive(Debug)]
struct Replica {
    name: String,
    process: Peer,
    log: PathBuf,
    /// What it has written to standard output so far and was read.
    lines: Vec<String>,
}

/// When the lock of a replica that has died is free, as its nodes say.
#[derive(Clone, Copy, Debug)]
pub struct Free {
    /// When they were asked: right after it had died.
    pub asked: Duration,
    /// On the third of five: not before that can another have it.
    pub first: Duration,
    /// On all: from then on another has it.
    pub surely: Duration,
}

impl Free {
    /// The ticks, from one whose replica died, that nobody may run because the lock is not free, or might not be. The
    /// next one that was run is none of them.
    ///
    /// Panics if that came before it was free.
    #[track_caller]
    pub fn lost(&self, died: Tick, next: &Run) -> Vec<Tick> {
        assert!(next.began >= self.first, "{next:?} was too early: {self:?}");
        (died..self.first_tick().min(next.tick)).collect()
    }

    /// The first tick at which another surely has it, if it is up to the nodes.
    pub fn first_tick(&self) -> Tick {
        let part_of_a_second = u64::from(self.surely.subsec_nanos() > 0);
        self.surely.as_secs() + part_of_a_second
    }
}

impl Replicas {
    /// Starts five servers and three replicas; returns when each of them has seen a tick.
    pub async fn start(arguments: &[&str]) -> Self {
        let fleet = Fleet::start(5);
        fleet.found().await;
        let mut replicas = Self {
            fleet,
            directory: TempDir::with_prefix("lock-tests-").expect("a temporary directory"),
            arguments: arguments.iter().copied().map(str::to_owned).collect(),
            started: 0,
            running: Vec::new(),
            ended: Vec::new(),
        };
        for _ in 0..REPLICAS {
            replicas.start_another();
        }
        for replica in &mut replicas.running {
            let line = replica.process.line().await;
            replica.lines.push(line);
        }
        replicas
    }

    /// Starts one more, of a new name, as an orchestrator replaces what has died.
    pub fn start_another(&mut self) {
        self.started += 1;
        let name = format!("r{}", self.started);
        let log = self.directory.path().join(format!("{name}.log"));
        let mut command = example("cron");
        command
            .env("LOCK_NODES", self.fleet.lock_nodes())
            .args(["--ticks", "forever", "--replica", &name, "--journal"])
            .arg(self.journal_path())
            .args(&self.arguments)
            .stderr(File::create(&log).expect("a log"));
        let replica = Replica {
            name,
            process: Peer::start(command),
            log,
            lines: Vec::new(),
        };
        self.running.push(replica);
    }

    /// The servers.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The process of a replica that is not known to have ended.
    #[track_caller]
    pub fn process(&mut self, name: &str) -> &mut Peer {
        let index = self.index(name);
        &mut self.running[index].process
    }

    /// What the jobs have done so far.
    pub fn journal(&self) -> Journal {
        Journal::read(&self.journal_path())
    }

    /// Waits for a run that begins from now on and is in the middle of its steps.
    pub async fn in_the_middle(&self) -> Run {
        let before = self.journal().last_tick();
        eventually(DEADLINE, "a job is in the middle", || {
            let run = self.journal().runs().pop()?;
            let in_the_middle = (1..STEPS - 1).contains(&run.steps);
            (run.tick > before && in_the_middle).then_some(run)
        })
        .await
    }

    /// Waits for the first run of a later tick than this one, which may just have begun.
    pub async fn next_run(&self, after: Tick) -> Run {
        eventually(DEADLINE, "a later tick is run", || {
            let mut runs = self.journal().runs().into_iter();
            runs.find(|run| run.tick > after)
        })
        .await
    }

    /// Waits until the job of a tick has made all its steps.
    pub async fn done(&self, tick: Tick) {
        eventually(DEADLINE, "the job is done", || {
            let runs = self.journal().runs();
            runs.iter()
                .any(|run| run.tick == tick && run.steps == STEPS)
        })
        .await;
    }

    /// Kills a replica in the middle of its job, so long after its first step; says what it had done by then, and when its
    /// lock is free.
    pub async fn kill_in_the_middle(&mut self, later: Duration) -> (Run, Free) {
        for _ in 0..ATTEMPTS {
            let run = self.in_the_middle().await;
            tokio::time::sleep(later).await;
            self.process(&run.replica).kill();
            let free = self.free();
            self.finish(&run.replica).await;
            let run = self.journal().of(&run);
            match free {
                Some(free) if run.steps < STEPS => return (run, free),
                _ => self.start_another(),
            }
        }
        panic!("whoever was killed had done its job or had no lock: {self:#?}");
    }

    /// Stops a replica with `SIGSTOP` in the middle of its job; says what it had done by then.
    pub async fn pause_in_the_middle(&mut self) -> Run {
        for _ in 0..ATTEMPTS {
            let run = self.in_the_middle().await;
            self.process(&run.replica).pause();
            let run = self.journal().of(&run);
            if run.steps < STEPS {
                return run;
            }
            self.process(&run.replica).resume();
        }
        panic!("whoever was paused had done its job: {self:#?}");
    }

    /// Tells a replica to stop in the middle of its job, and waits until it has; says what it had done when it was told.
    pub async fn stop_in_the_middle(&mut self) -> (Run, &Ended) {
        let run = self.pause_in_the_middle().await;
        let process = self.process(&run.replica);
        process.terminate();
        process.resume();
        let ended = self.finish(&run.replica).await;
        (run, ended)
    }

    /// Reads what a replica tells until it has told of a tick: `ran` or `skipped`.
    pub async fn told_of(&mut self, name: &str, tick: Tick) -> String {
        let index = self.index(name);
        let Replica { process, lines, .. } = &mut self.running[index];
        loop {
            let line = process.line().await;
            lines.push(line.clone());
            let mut words = line.split(' ');
            let told = words.next().and_then(|word| word.strip_prefix("tick="));
            if told.and_then(time_of) == Some(Duration::from_secs(tick)) {
                return words.next_back().unwrap_or_default().to_owned();
            }
        }
    }

    /// When the lock is free if nobody renews it; `None` if a majority does not have it.
    pub fn free(&self) -> Option<Free> {
        let asked = now();
        let left = |server: &RedisServer| u64::try_from(server.pttl(KEY)).unwrap_or(0);
        let mut left: Vec<u64> = self.fleet.servers().iter().map(left).collect();
        left.sort_unstable();
        let answered = now();
        let majority = left.len() / 2;
        let (first, all) = (left[majority], left[left.len() - 1]);
        (first > 0).then(|| Free {
            asked,
            // In whole milliseconds, and on some of them the time of a server's last round of its loop.
            first: asked + Duration::from_millis(first.saturating_sub(2)),
            surely: answered + Duration::from_millis(all + 2),
        })
    }

    /// Ends all that are left, and says what all have told.
    pub async fn end(mut self) -> Told {
        // All at once, so that no tick is for some of them only.
        for replica in &mut self.running {
            replica.process.terminate();
        }
        while let Some(replica) = self.running.first() {
            let name = replica.name.clone();
            self.finish(&name).await;
        }
        self.fleet.assert_no_keys("*").await;
        Told {
            journal: self.journal(),
            ended: self.ended,
        }
    }

    async fn finish(&mut self, name: &str) -> &Ended {
        let index = self.index(name);
        let mut replica = self.running.remove(index);
        let (status, lines) = replica.process.finish().await;
        replica.lines.extend(lines);
        let log = std::fs::read_to_string(&replica.log).expect("its log is readable");
        self.ended.push(Ended {
            name: replica.name,
            code: status.code(),
            lines: replica.lines,
            log,
        });
        self.ended.last().expect("it was pushed")
    }

    #[track_caller]
    fn index(&self, name: &str) -> usize {
        let mut names = self.running.iter().map(|replica| &replica.name);
        names
            .position(|running| running == name)
            .unwrap_or_else(|| panic!("no replica {name} is running"))
    }

    fn journal_path(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}
