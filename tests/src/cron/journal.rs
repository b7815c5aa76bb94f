//! What the jobs of all replicas have done, in the order in which it was done: one file, appended to with one write a step.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// In how many steps the example does its job.
pub const STEPS: u32 = 4;

/// When a job was due, in seconds since 1970.
pub type Tick = u64;

/// The time of day, since 1970.
pub fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("a clock that is set")
}

/// `2026-11-29T15:00:02Z` or `2026-11-29T15:00:02.250Z`, since 1970.
pub fn time_of(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<Vec<u64>> {
        let numbers = text.split(separator);
        numbers.map(|number| number.parse().ok()).collect()
    };
    let (seconds, millis) = time.split_once('.').unwrap_or((time, "000"));
    let (&[year, month, day], &[hour, minute, second]) =
        (&numbers(date, '-')?[..], &numbers(seconds, ':')?[..])
    else {
        return None;
    };
    // A year from March on, so that its last day is the one that may be missing.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    Some(Duration::from_secs(seconds) + Duration::from_millis(millis.parse().ok()?))
}

/// Steps in the order in which they were made.
#[derive(Clone, Debug)]
pub struct Journal(Vec<Step>);

#[derive(Clone, Debug)]
struct Step {
    tick: Tick,
    replica: String,
    number: u32,
    at: Duration,
}

/// What a replica has done of a tick's job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The tick.
    pub tick: Tick,
    /// Who.
    pub replica: String,
    /// How many steps it has made.
    pub steps: u32,
    /// When it began.
    pub began: Duration,
}

impl Journal {
    /// The journal at a path, empty as long as there is none.
    pub(super) fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).unwrap_or_default())
    }

    /// A journal as the example writes it.
    pub fn parse(text: &str) -> Self {
        let step = |line| Step::parse(line).unwrap_or_else(|| panic!("not a step: {line:?}"));
        Self(text.lines().map(step).collect())
    }

    /// All runs, whole or not, in the order in which they began.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for step in &self.0 {
            let known = runs
                .iter_mut()
                .find(|run| (run.tick, &run.replica) == (step.tick, &step.replica));
            match known {
                Some(run) => run.steps = step.number,
                None => runs.push(Run {
                    tick: step.tick,
                    replica: step.replica.clone(),
                    steps: step.number,
                    began: step.at,
                }),
            }
        }
        runs
    }

    /// What has become of a run.
    #[track_caller]
    pub fn of(&self, run: &Run) -> Run {
        let now = |now: &Run| (now.tick, &now.replica) == (run.tick, &run.replica);
        self.runs().into_iter().find(now).expect("it has begun")
    }

    /// The tick that was last begun, or zero.
    pub fn last_tick(&self) -> Tick {
        self.runs().last().map_or(0, |run| run.tick)
    }

    /// What must not be: a tick that was begun twice, a step of a run after a later one has begun, a step out of order.
    pub fn double_runs(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut newest: Option<&Step> = None;
        for step in &self.0 {
            match newest {
                Some(before) if step.same_run(before) => {
                    if step.number != before.number + 1 {
                        wrong.push(format!("{step} comes after {before}"));
                    }
                }
                Some(before) if step.number == 0 => {
                    if step.tick <= before.tick {
                        wrong.push(format!("{step} begins a tick again, after {before}"));
                    }
                }
                None if step.number == 0 => {}
                _ => {
                    wrong.push(format!("{step} goes on after another has begun"));
                    continue;
                }
            }
            newest = Some(step);
        }
        wrong
    }
}

impl Step {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [tick, replica, step, at] = words[..] else {
            return None;
        };
        let (step, of) = step.strip_prefix("step=")?.split_once('/')?;
        let step = Self {
            tick: time_of(tick.strip_prefix("tick=")?)?.as_secs(),
            replica: replica.strip_prefix("replica=")?.to_owned(),
            number: step.parse().ok()?,
            at: time_of(at.strip_prefix("at=")?)?,
        };
        (of == STEPS.to_string() && step.number <= STEPS).then_some(step)
    }

    fn same_run(&self, other: &Self) -> bool {
        (self.tick, &self.replica) == (other.tick, &other.replica)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tick,
            replica,
            number,
            at,
        } = self;
        write!(f, "step {number} of {replica} for {tick} at {at:?}")
    }
}
