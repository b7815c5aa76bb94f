//! Who was inside when, in one process or in several.
//!
//! Every event is one line that is appended to a file with one write. The kernel puts appends to a file in one order,
//! and a write that had returned before another one began comes before it, in whatever processes the two were made. So
//! no clock decides who was first. An interval on record lies within the real one (entering is written after the
//! lock was had, leaving before it is given back), so an overlap on record happened.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A record of who entered and left places. Clones, and recorders opened on its path elsewhere, write the same record.
#[derive(Clone, Debug)]
pub struct Recorder {
    file: Arc<File>,
    path: PathBuf,
    _directory: Option<Arc<TempDir>>,
}

/// Being inside a place, until this is dropped: also by a panic, or when the body around it is cancelled.
#[derive(Debug)]
#[must_use = "dropping this is leaving"]
pub struct Inside {
    recorder: Recorder,
    place: String,
    owner: String,
}

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// On the machine's monotonic clock, for measuring; the order is that of the record.
    pub at: Duration,
    /// Where, usually the lock's key.
    pub place: String,
    /// Who.
    pub owner: String,
    /// What.
    pub act: Act,
}

/// What an owner did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Went in.
    Entered,
    /// Did something inside.
    Step(String),
    /// Went out.
    Left,
}

/// Somebody entered while others were inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Who entered.
    pub entered: String,
    /// Who was there.
    pub inside: Vec<String>,
}

impl Recorder {
    /// A new record, deleted with its last clone.
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        let recorder = Self::open(directory.path().join("record"));
        Self {
            _directory: Some(Arc::new(directory)),
            ..recorder
        }
    }

    /// The record at a path, for a process that was given [`Self::path`].
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap_or_else(|error| panic!("the record {}: {error}", path.display()));
        Self {
            file: Arc::new(file),
            path,
            _directory: None,
        }
    }

    /// Where the record is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records that `owner` is inside `place`, until the answer is dropped.
    pub fn enter(&self, place: &str, owner: &str) -> Inside {
        self.write(place, owner, &Act::Entered);
        Inside {
            recorder: self.clone(),
            place: place.to_owned(),
            owner: owner.to_owned(),
        }
    }

    /// Records that an owner has left who cannot say so, because its process was killed.
    pub fn gone(&self, place: &str, owner: &str) {
        self.write(place, owner, &Act::Left);
    }

    /// Everything so far, in order.
    pub fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(&self.path).expect("the record is readable");
        text.lines().map(Event::parse).collect()
    }

    /// How often a place was entered.
    pub fn entries(&self, place: &str) -> usize {
        self.of(place)
            .filter(|event| event.act == Act::Entered)
            .count()
    }

    /// Who is inside a place now.
    pub fn inside(&self, place: &str) -> Vec<String> {
        let mut inside = Vec::new();
        self.of(place).for_each(|event| event.apply(&mut inside));
        inside
    }

    /// The largest number of owners that were inside a place at once.
    pub fn max_inside(&self, place: &str) -> usize {
        let mut inside = Vec::new();
        self.of(place)
            .map(|event| {
                event.apply(&mut inside);
                inside.len()
            })
            .max()
            .unwrap_or(0)
    }

    /// Every entry while somebody was inside.
    pub fn overlaps(&self, place: &str) -> Vec<Overlap> {
        let mut inside = Vec::new();
        let mut overlaps = Vec::new();
        for event in self.of(place) {
            if event.act == Act::Entered && !inside.is_empty() {
                overlaps.push(Overlap {
                    entered: event.owner.clone(),
                    inside: inside.clone(),
                });
            }
            event.apply(&mut inside);
        }
        overlaps
    }

    /// Steps of an owner after somebody else had entered who came later: what a lost lock must prevent.
    pub fn late_steps(&self, place: &str) -> Vec<Event> {
        let mut newest = None;
        let mut late = Vec::new();
        for event in self.of(place) {
            match event.act {
                Act::Entered => newest = Some(event.owner),
                Act::Step(_) if newest.as_ref() != Some(&event.owner) => late.push(event),
                Act::Step(_) | Act::Left => {}
            }
        }
        late
    }

    /// Fails if two were ever inside at once, or nobody ever was; returns how often the place was entered.
    #[track_caller]
    pub fn assert_exclusive(&self, place: &str) -> usize {
        let overlaps = self.overlaps(place);
        assert!(
            overlaps.is_empty(),
            "{place}: more than one inside: {overlaps:?}\n{self}"
        );
        let entries = self.entries(place);
        assert!(
            entries > 0,
            "{place}: nobody was ever inside, so nothing was shown"
        );
        entries
    }

    fn of(&self, place: &str) -> impl Iterator<Item = Event> {
        self.events()
            .into_iter()
            .filter(move |event| event.place == place)
    }

    fn write(&self, place: &str, owner: &str, act: &Act) {
        let at = clock_gettime(ClockId::Monotonic);
        let (act, step) = act.words();
        let fields = [place, owner, act, step];
        let one_line = fields.iter().all(|field| !field.contains(['\t', '\n']));
        assert!(
            one_line,
            "a name on record has neither tab nor line break: {fields:?}"
        );
        let line = format!("{}.{:09}\t{}\n", at.tv_sec, at.tv_nsec, fields.join("\t"));
        let written = (&*self.file)
            .write(line.as_bytes())
            .expect("the record takes a line");
        assert_eq!(
            written,
            line.len(),
            "a line goes into the record in one write"
        );
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = self.events();
        let start = events.first().map_or(Duration::ZERO, |event| event.at);
        for Event {
            at,
            place,
            owner,
            act,
        } in &events
        {
            let (act, step) = act.words();
            writeln!(
                f,
                "{:>12?}  {place}  {owner} {act} {step}",
                at.saturating_sub(start)
            )?;
        }
        Ok(())
    }
}

impl Inside {
    /// Records something that the owner does inside.
    pub fn step(&self, what: &str) {
        self.recorder
            .write(&self.place, &self.owner, &Act::Step(what.to_owned()));
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.recorder.write(&self.place, &self.owner, &Act::Left);
    }
}

impl Event {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [at, place, owner, act, step] = fields[..] else {
            panic!("not a line of a record: {line:?}")
        };
        let act = match act {
            "entered" => Act::Entered,
            "step" => Act::Step(step.to_owned()),
            "left" => Act::Left,
            other => panic!("not an act on record: {other:?}"),
        };
        let (seconds, nanos) = at.split_once('.').expect("a time on record");
        let at = Duration::new(
            seconds.parse().expect("seconds"),
            nanos.parse().expect("nanoseconds"),
        );
        Self {
            at,
            place: place.to_owned(),
            owner: owner.to_owned(),
            act,
        }
    }

    /// Adds its owner to those inside, or takes it out. An owner that is inside twice counts twice.
    fn apply(&self, inside: &mut Vec<String>) {
        match self.act {
            Act::Entered => inside.push(self.owner.clone()),
            Act::Left => {
                if let Some(index) = inside.iter().position(|owner| *owner == self.owner) {
                    inside.remove(index);
                }
            }
            Act::Step(_) => {}
        }
    }
}

impl Act {
    fn words(&self) -> (&str, &str) {
        match self {
            Self::Entered => ("entered", ""),
            Self::Step(what) => ("step", what),
            Self::Left => ("left", ""),
        }
    }
}
