//! `docs/faults.md`: the table as it is in the code, and what was measured.
//!
//! Every cell leaves what it took under the target directory. With `FAULTS=overwrite` the page is written anew, from the
//! table and from the last run of each cell; without, it must agree with the table.

use crate::fault::{ALLOWANCE, Fault, MAX_TTL, NODE_TIMEOUT, Outcome, Phase, TTL, WAIT};
use crate::faults::FAULTS;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a fault took in a phase, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// With a minority of the nodes faulty.
    minority: Duration,
    /// With a majority.
    majority: Duration,
    /// Until the manager locked again, from the end of the fault.
    pub(crate) back: Duration,
    /// Until no key was left, from the end of the fault.
    pub(crate) gone: Duration,
    /// Until every node had a part in a lock, from the end of the fault.
    pub(crate) used: Duration,
}

impl Measured {
    pub(crate) fn of(is_minority: bool, took: Duration) -> Self {
        let (minority, majority) = if is_minority {
            (took, Duration::ZERO)
        } else {
            (Duration::ZERO, took)
        };
        Self {
            minority,
            majority,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.minority = self.minority.max(other.minority);
        self.majority = self.majority.max(other.majority);
        self.back = self.back.max(other.back);
        self.gone = self.gone.max(other.gone);
        self.used = self.used.max(other.used);
    }

    fn times(self) -> [Duration; 5] {
        [
            self.minority,
            self.majority,
            self.back,
            self.gone,
            self.used,
        ]
    }

    fn of_times(times: [Duration; 5]) -> Self {
        let [minority, majority, back, gone, used] = times;
        Self {
            minority,
            majority,
            back,
            gone,
            used,
        }
    }
}

/// Keeps what a cell took.
pub(crate) fn note(name: &str, phase: Phase, measured: Measured) {
    let file = notes(name, phase);
    std::fs::create_dir_all(file.parent().expect("a directory")).expect("the target directory");
    let micros = measured.times().map(|time| time.as_micros().to_string());
    std::fs::write(file, micros.join(" ")).expect("the target directory is ours");
}

fn noted(name: &str, phase: Phase) -> Measured {
    let file = notes(name, phase);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}: run all of the matrix first", file.display()));
    let mut micros = text
        .split(' ')
        .map(|micros| micros.parse().expect("a number"));
    Measured::of_times([(); 5].map(|()| Duration::from_micros(micros.next().expect("five"))))
}

fn notes(name: &str, phase: Phase) -> PathBuf {
    let file = format!("faults/{name}.{}", phase.name());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(file)
}

const MEASURED: &str = "\n## Measured\n";

/// Everything above [`MEASURED`].
fn told() -> String {
    let [node_timeout, ttl, max_ttl, wait, allowance] =
        [NODE_TIMEOUT, TTL, MAX_TTL, WAIT, ALLOWANCE].map(|time| format!("{time:?}"));
    let mut page = format!(
        "\
# What happens when

Made from the table of the tests, `tests/tests/fault_matrix/faults.rs`, by `scripts/faults`. Each row is tried in each
phase, on one, three and five nodes, with a minority and with a majority of them faulty.

**With a minority faulty everything works**, whatever the fault: acquiring takes no longer than a `node_timeout`, a held lock
is renewed, a waiter gets the lock when it is given back, a release is confirmed.

**With a majority faulty**, or the only node, it ends as the table says. Nothing hangs: `NoQuorum`, `Busy`, `Unreachable` and
`NotOwner` come within a `node_timeout`, or where the call waits, within one after the end of `wait`; `Lost` comes when the lease
runs out, and the body sees no statement after it. The error names the nodes that had failed by then, with one of the words in the
last column; what it says when the trouble is new to this manager may differ from what it says later. No password is in
any error or log line.

A lock that nodes have lost (**deleted**, **evicted**, **flushed**) is taken again by the next renewal, as soon as a third of the
TTL is over. Until then somebody else may have it: this is no protection against a node that forgets. See \"A node that
restarts\" in the README for the one case that is.

**Afterwards** the same manager works again without a restart; \"again\" says when. Nothing of ours is left on any node then, and
never a key without a TTL.

The tests run with `node_timeout` {node_timeout}, `ttl` {ttl}, `max_ttl` {max_ttl} and `wait` {wait}, and grant {allowance} more to every
bound, as they run on busy machines.

- *connecting*: the manager is built when the fault is there already, and asked for a lock once
- *acquiring*: it was connected, and is asked once
- *holding*: a body runs under a lock that every node has
- *waiting*: somebody else has the lock; he gives it back where the nodes can tell
- *releasing*: a lock is given back that every node has

| fault | connecting | acquiring | holding | waiting | releasing | again | the node in the error |
|---|---|---|---|---|---|---|---|
"
    );
    for (name, fault) in FAULTS {
        let cells = Phase::ALL.map(|phase| outcome(fault, phase));
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| **{}** {} | {} | {} | {} |",
            name.replace('_', " "),
            fault.what,
            cells.join(" | "),
            fault.back.words(),
            phrases(fault),
        );
    }
    page
}

fn outcome(fault: &Fault, phase: Phase) -> String {
    let (majority, alone) = (fault.majority.of(phase), fault.alone.of(phase));
    let mut words = majority.words().to_owned();
    if majority != alone {
        words = format!("{words}; a single node: {}", alone.words());
    }
    match fault.before_7.map(|row| row.of(phase)) {
        Some(before_7) if before_7 != majority => {
            format!("{words}; Redis 6.2: {}", before_7.words())
        }
        _ => words,
    }
}

fn phrases(fault: &Fault) -> String {
    let said = fault.said;
    let all = [said.first, said.then, said.later].concat();
    let mut seen = BTreeSet::new();
    let each = all.into_iter().filter(|phrase| seen.insert(*phrase));
    let listed: Vec<_> = each.map(|phrase| format!("`{phrase}…`")).collect();
    if listed.is_empty() {
        "–".to_owned()
    } else {
        listed.join(", ")
    }
}

/// Everything from [`MEASURED`] on. The names alone where there are no figures.
fn measured(
    figures: impl Fn(&str, &Fault, Phase) -> String,
    times: impl Fn(&str) -> String,
) -> String {
    let mut page = format!(
        "{MEASURED}
The most that a cell took in one run, in milliseconds: with a minority faulty / with a majority or the only node faulty. From the
fault on; where something is waited for, from its end on. *again*, *gone* and *used*: until the manager locked again, until no
key was left, and until every node had a part in a lock again, from the end of the fault. (Servers this young have no vote
while a client that connects cannot read what they remember: that is *used* after **loading** and **other prefix**.)

| fault | connecting | acquiring | holding | waiting | releasing | again | gone | used |
|---|---|---|---|---|---|---|---|---|
"
    );
    for (name, fault) in FAULTS {
        let cells = Phase::ALL.map(|phase| figures(name, fault, phase));
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            name.replace('_', " "),
            cells.join(" | "),
            times(name)
        );
    }
    page
}

fn with_figures() -> String {
    let millis = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e3);
    let figures = |name: &str, fault: &Fault, phase| {
        if fault.majority.of(phase) == Outcome::Before {
            return "–".to_owned();
        }
        let Measured {
            minority, majority, ..
        } = noted(name, phase);
        format!("{} / {}", millis(minority), millis(majority))
    };
    let times = |name: &str| {
        let mut most = Measured::default();
        for phase in Phase::ALL {
            most.add(noted(name, phase));
        }
        [most.back, most.gone, most.used].map(millis).join(" | ")
    };
    measured(figures, times)
}

/// The figures aside.
fn without_figures(page: &str) -> String {
    let (_, figures) = page.split_once(MEASURED).unwrap_or_default();
    let lines = figures.lines().map(|line| {
        let first = line
            .strip_prefix("| ")
            .and_then(|line| line.split(" |").next());
        first.unwrap_or(line).to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_page_says_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    if std::env::var_os("FAULTS").is_some_and(|word| word == "overwrite") {
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("docs/");
        std::fs::write(&file, told() + &with_figures()).expect("docs/faults.md");
    }
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    let wanted = told();
    let stale = "docs/faults.md does not agree with the table of faults: run scripts/faults";
    if let Some((line, _)) = wanted
        .lines()
        .zip(page.lines().chain(std::iter::repeat("")))
        .find(|(wanted, found)| wanted != found)
    {
        panic!("{stale}; the first line that it lacks: {line}");
    }
    assert!(page.starts_with(&wanted), "{stale}");
    let names = measured(|_, _, _| String::new(), |_| String::new());
    assert_eq!(without_figures(&page), without_figures(&names), "{stale}");
}
