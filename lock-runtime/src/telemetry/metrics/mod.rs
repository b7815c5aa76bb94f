//! What a recorder of the `metrics` facade is told. Labels are names of functions and of nodes and closed sets of words, and
//! never a key.
//!
//! What a series is called is put together once for each name and each node. Its handle is looked up each time and not kept,
//! so a recorder that is installed late, or in the place of another, is told all that happens from then on.

mod calls;
mod catalogue;
mod nodes;

use metrics::{Key, Label, Level, Metadata, with_recorder};

use super::Attempted;
use catalogue::ATTEMPTS;

pub(crate) use calls::{Meters, Named, refused};
pub(crate) use nodes::{NodeMeter, watch};

static METADATA: Metadata<'static> =
    Metadata::new("lock_runtime", Level::INFO, Some(module_path!()));

fn count(key: &Key, events: u64) {
    with_recorder(|recorder| {
        recorder.register_counter(key, &METADATA).increment(events);
    });
}

fn observe(key: &Key, value: f64) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(value));
}

/// The counters of one metric, one for each word of a label.
struct ByWord(Vec<(&'static str, Key)>);

impl ByWord {
    fn new(
        metric: &'static str,
        owner: &Label,
        label: &'static str,
        words: &[&'static str],
    ) -> Self {
        let key = |word| {
            let label = Label::from_static_parts(label, word);
            Key::from_parts(metric, vec![owner.clone(), label])
        };
        Self(words.iter().map(|&word| (word, key(word))).collect())
    }

    /// None for a word that is not in the set.
    fn of(&self, word: &str) -> Option<&Key> {
        let mut all = self.0.iter();
        all.find(|(known, _)| *known == word).map(|(_, key)| key)
    }

    fn count(&self, word: &str) {
        if let Some(key) = self.of(word) {
            count(key, 1);
        }
    }

    /// Has them there, before there is anything to count: of a counter that begins with its first event nobody sees that it
    /// has grown.
    fn begin(&self) {
        for (_, key) in &self.0 {
            count(key, 0);
        }
    }
}

pub(crate) fn attempted(attempted: Attempted) {
    count(attempts(attempted), 1);
}

fn attempts(attempted: Attempted) -> &'static Key {
    macro_rules! key {
        ($word:literal) => {{
            static LABELS: [Label; 1] = [Label::from_static_parts("outcome", $word)];
            static KEY: Key = Key::from_static_parts(ATTEMPTS, &LABELS);
            &KEY
        }};
    }
    match attempted {
        Attempted::Granted => key!("granted"),
        Attempted::Busy => key!("busy"),
        Attempted::Split => key!("split"),
        Attempted::Failed => key!("failed"),
    }
}

/// Tells the recorder what there is.
fn introduce() {
    catalogue::describe();
    for attempted in Attempted::ALL {
        count(attempts(attempted), 0);
    }
}
