//! What the replicas have told of the ticks, next to what the journal says.

use super::journal::{Journal, STEPS, Tick, time_of};
use std::collections::{BTreeMap, BTreeSet};

/// Everything, once all have ended.
#[derive(Debug)]
pub struct Told {
    /// In the order in which they ended.
    pub ended: Vec<Ended>,
    /// What their jobs did.
    pub journal: Journal,
}

/// A replica that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its name.
    pub name: String,
    /// Its exit code; `None` where it was killed.
    pub code: Option<i32>,
    /// Its standard output.
    pub lines: Vec<String>,
    /// Its standard error.
    pub log: String,
}

/// Who made what of a tick.
#[derive(Debug, Default)]
struct Outcome {
    ran: BTreeSet<String>,
    skipped: BTreeSet<String>,
    /// Of those who skipped it, or told nothing of it: they came too late, or had no answer.
    excused: BTreeSet<String>,
    undecided: bool,
}

impl Outcome {
    fn nobody_could(&self) -> bool {
        self.undecided || self.skipped.is_subset(&self.excused)
    }
}

impl Ended {
    /// The ticks of log lines that say this.
    pub fn logged(&self, what: &str) -> Vec<Tick> {
        let lines = self.log.lines().filter(|line| line.contains(what));
        let ticks = lines.filter_map(|line| {
            let (_, tick) = line.split_once("tick=")?;
            Some(time_of(tick.split(' ').next()?)?.as_secs())
        });
        ticks.collect()
    }

    /// The ticks of its lines with this outcome, `ran` or `skipped`.
    ///
    /// Panics if a line is not as promised.
    #[track_caller]
    pub fn ticks(&self, outcome: &str) -> Vec<Tick> {
        let told = self.lines.iter().filter(|line| !line.starts_with("ticks="));
        let told = told.map(|line| self.outcome(line).expect(line));
        told.filter(|&(_, told)| told == outcome)
            .map(|(tick, _)| tick)
            .collect()
    }

    /// Its last line, if it adds up what the others say: not so where it was killed.
    pub fn summary(&self) -> Option<&str> {
        let last = self.lines.last()?;
        let (runs, skips) = (self.ticks("ran").len(), self.ticks("skipped").len());
        let ticks = runs + skips + self.logged("ERROR").len();
        (*last == format!("ticks={ticks} runs={runs} skips={skips}")).then_some(last)
    }

    fn outcome<'line>(&self, line: &'line str) -> Option<(Tick, &'line str)> {
        let words: Vec<_> = line.split(' ').collect();
        let [tick, replica, outcome] = words[..] else {
            return None;
        };
        let tick = time_of(tick.strip_prefix("tick=")?)?.as_secs();
        let mine = replica.strip_prefix("replica=")? == self.name;
        (mine && matches!(outcome, "ran" | "skipped")).then_some((tick, outcome))
    }
}

impl Told {
    /// The replica of this name.
    #[track_caller]
    pub fn by(&self, name: &str) -> &Ended {
        let mut ended = self.ended.iter();
        ended
            .find(|ended| ended.name == name)
            .unwrap_or_else(|| panic!("no replica {name} has ended"))
    }

    /// Fails unless every tick from the first to the last that anybody told of was run exactly once, but for those that
    /// nobody may run, and for those that nobody could: these have to be in the logs. Returns how many were run.
    #[track_caller]
    pub fn assert_each_tick_ran_once(&self, but_for: &[Tick]) -> usize {
        let faults = self.faults(but_for);
        assert!(faults.is_empty(), "{faults:#?}\n{self:#?}");
        self.outcomes()
            .values()
            .filter(|outcome| !outcome.ran.is_empty())
            .count()
    }

    /// What is not as [`Self::assert_each_tick_ran_once`] has it.
    pub fn faults(&self, but_for: &[Tick]) -> Vec<String> {
        let mut faults = self.journal.double_runs();
        let outcomes = self.outcomes();
        for (tick, outcome) in &outcomes {
            let runs = outcome.ran.len();
            match (runs, but_for.contains(tick)) {
                (1, false) | (0, true) => {}
                (0, false) if outcome.nobody_could() => {}
                _ => faults.push(format!("{tick} was run {runs} times: {outcome:?}")),
            }
        }
        let (first, last) = (outcomes.keys().next(), outcomes.keys().next_back());
        let silent = first.zip(last).into_iter();
        let silent = silent.flat_map(|(first, last)| *first..=*last);
        let silent = silent.filter(|tick| !outcomes.contains_key(tick));
        faults.extend(silent.map(|tick| format!("nobody told of {tick}")));
        faults.extend(self.differences(&outcomes));
        faults
    }

    /// Whether the replicas' logs say why a tick was run by none of them: this machine was busy.
    pub fn nobody_could(&self, tick: Tick) -> bool {
        let outcomes = self.outcomes();
        outcomes.get(&tick).is_some_and(Outcome::nobody_could)
    }

    /// Where the journal has whole runs that nobody told of, or the other way round.
    fn differences(&self, outcomes: &BTreeMap<Tick, Outcome>) -> Vec<String> {
        let told = outcomes
            .iter()
            .flat_map(|(tick, outcome)| outcome.ran.iter().map(|name| (*tick, name.clone())));
        let told: BTreeSet<_> = told.collect();
        let whole = self.journal.runs().into_iter();
        let whole = whole.filter(|run| run.steps == STEPS);
        let done: BTreeSet<_> = whole.map(|run| (run.tick, run.replica)).collect();
        let different = told.symmetric_difference(&done);
        different
            .map(|(tick, name)| format!("only told, or only done: {tick} by {name}"))
            .collect()
    }

    fn outcomes(&self) -> BTreeMap<Tick, Outcome> {
        let mut outcomes: BTreeMap<Tick, Outcome> = BTreeMap::new();
        for ended in &self.ended {
            let name = || ended.name.clone();
            for tick in ended.ticks("ran") {
                outcomes.entry(tick).or_default().ran.insert(name());
            }
            for tick in ended.ticks("skipped") {
                outcomes.entry(tick).or_default().skipped.insert(name());
            }
            for tick in ended.logged("too late to take part") {
                outcomes.entry(tick).or_default().excused.insert(name());
            }
            for what in ["not decided", "too late to run"] {
                for tick in ended.logged(what) {
                    outcomes.entry(tick).or_default().undecided = true;
                }
            }
        }
        outcomes
    }
}
