//! What the answers of a group's sentinels amount to. Pure: it knows neither sockets nor Redis.

use std::time::Duration;

use tokio::time::Instant;

use crate::node::address::Address;
use crate::node::trouble::{DownCause, Trouble};

/// For how long an answer is believed.
pub(super) const BELIEVED: Duration = Duration::from_secs(5);

/// What a sentinel says: which server is the primary, and in which configuration. Each failover makes a new one, with a
/// larger number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) struct Said {
    pub(in crate::node) epoch: u64,
    pub(in crate::node) primary: Address,
}

/// What is known of one sentinel.
#[derive(Clone, Debug, Default)]
pub(super) struct Sentinel {
    /// Its last answer, and when it was asked for it.
    pub(super) said: Option<(Instant, Said)>,
    /// How many other sentinels it knew of then.
    pub(super) others: usize,
    /// Why there was none the last time.
    pub(super) trouble: Option<Trouble>,
}

impl Sentinel {
    /// What it said, if that is still to be believed.
    fn says(&self, now: Instant) -> Option<&Said> {
        let (asked, said) = self.said.as_ref()?;
        is_fresh(*asked, now).then_some(said)
    }
}

/// What they amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::node) enum Belief {
    /// Nobody has answered yet, and nobody has failed to.
    Nothing,
    /// Which server to use.
    In {
        said: Said,
        /// When those were asked who said so.
        asked: Vec<Instant>,
        /// How many sentinels there are: those that are configured, or more if one of them knows of more.
        sentinels: usize,
    },
    /// In words for an operator.
    Trouble(Trouble),
}

/// How many of `sentinels` make a majority.
pub(super) const fn majority(sentinels: usize) -> usize {
    sentinels / 2 + 1
}

/// The newest configuration wins. `known`: what was believed before. A sentinel that knows only of an older one was cut
/// off, and is not followed; but a majority is, as then somebody has set up the group anew.
pub(super) fn weigh(
    sentinels: &[Sentinel],
    known: Option<&Said>,
    now: Instant,
    words: impl FnOnce() -> Trouble,
) -> Belief {
    let says = || sentinels.iter().filter_map(|sentinel| sentinel.says(now));
    let count = |said: &Said| says().filter(|other| *other == said).count();
    let Some(epoch) = says().map(|said| said.epoch).max() else {
        let is_unasked = |one: &Sentinel| one.said.is_none() && one.trouble.is_none();
        return if sentinels.iter().any(is_unasked) {
            Belief::Nothing
        } else {
            Belief::Trouble(words())
        };
    };
    let newest = || says().filter(|said| said.epoch == epoch);
    let most = newest().map(count).max().unwrap_or(0);
    let mut leading: Vec<&Said> = Vec::new();
    for said in newest().filter(|said| count(said) == most) {
        if !leading.contains(&said) {
            leading.push(said);
        }
    }
    let others = sentinels
        .iter()
        .map(|sentinel| sentinel.others.saturating_add(1))
        .max();
    let there_are = sentinels.len().max(others.unwrap_or(0));
    let is_old = |known: &&Said| known.epoch > epoch && most < majority(there_are);
    let said = match (known.filter(is_old), &*leading) {
        (Some(known), _) => known,
        (None, [said]) => said,
        (None, several) => {
            let Some(known) = several.iter().find(|said| Some(**said) == known) else {
                let differ = "its sentinels name different primaries";
                return Belief::Trouble(DownCause::Sentinels.because(differ));
            };
            known
        }
    };
    let answers = sentinels
        .iter()
        .filter_map(|sentinel| sentinel.said.as_ref());
    let agreeing = answers.filter(|(_, other)| other == said);
    Belief::In {
        asked: agreeing.map(|(asked, _)| *asked).collect(),
        said: said.clone(),
        sentinels: there_are,
    }
}

/// How many of those still say so who were asked at these times.
pub(super) fn votes(asked: &[Instant], now: Instant) -> usize {
    asked.iter().filter(|asked| is_fresh(**asked, now)).count()
}

/// Whether an answer is still to be believed.
fn is_fresh(asked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(asked) < BELIEVED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(epoch: u64, primary: &str) -> Said {
        let primary = Address::Tcp(primary.to_owned(), 6379);
        Said { epoch, primary }
    }

    /// Written as `A1`: the server A in the first configuration; behind it how many seconds ago, 0 if nothing. `x`: no answer
    /// the last time, `?`: not asked; and behind a `+` how many other sentinels it knows of.
    fn sentinels(now: Instant, answers: &str) -> Vec<Sentinel> {
        let one = |answer: &str| {
            let (answer, others) = answer.split_once('+').unwrap_or((answer, "0"));
            let others = others.parse().expect("a number");
            let (said_it, ago) = answer.split_once('-').unwrap_or((answer, "0"));
            let ago = Duration::from_secs(ago.parse().expect("seconds"));
            match said_it {
                "?" => Sentinel::default(),
                "x" => Sentinel {
                    trouble: Some("refused".into()),
                    ..Sentinel::default()
                },
                _ => {
                    let (primary, epoch) = said_it.split_at(1);
                    let said = said(epoch.parse().expect("a number"), primary);
                    Sentinel {
                        said: Some((now - ago, said)),
                        others,
                        trouble: None,
                    }
                }
            }
        };
        answers.split_whitespace().map(one).collect()
    }

    /// What is believed, and whether a majority confirms it.
    fn weighed(answers: &str, known: Option<&Said>) -> (String, bool) {
        let now = Instant::now() + Duration::from_secs(100);
        match weigh(&sentinels(now, answers), known, now, || "words".into()) {
            Belief::Nothing => ("nothing".to_owned(), false),
            Belief::Trouble(words) => (words.to_string(), false),
            Belief::In {
                said,
                asked,
                sentinels,
            } => {
                let Address::Tcp(primary, _) = said.primary else {
                    panic!("an address")
                };
                let is_confirmed = votes(&asked, now) >= majority(sentinels);
                (format!("{primary}{}", said.epoch), is_confirmed)
            }
        }
    }

    #[test]
    fn the_newest_configuration_wins_and_a_majority_confirms() {
        for (answers, believed, confirmed) in [
            ("? ? ?", "nothing", false),
            ("x ? x", "nothing", false),
            ("x x x", "words", false),
            ("A1 ? ?", "A1", false),
            ("A1", "A1", true),
            ("A1 A1", "A1", true),
            ("A1 x", "A1", false),
            ("A1 A1 x", "A1", true),
            ("A1 A1-2 A1-4", "A1", true),
            ("A1 A1 B2", "B2", false),
            ("A1 B2 B2", "B2", true),
            ("A1 A1 A2", "A2", false),
            ("B2-4 A1 A1", "B2", false),
            // Too old to be believed.
            ("B2-5 A1 A1", "A1", true),
            ("A1 A1-7 x", "A1", false),
            ("A1-5 A1-5 x", "words", false),
            ("A1-6 A1-5 ?", "nothing", false),
            ("A2 B2 x", "its sentinels name different primaries", false),
            ("A2 B2 B2", "B2", true),
            ("A1 A1 B1 B1 A1", "A1", true),
            // Some are not configured.
            ("A1+2", "A1", false),
            ("A1+2 A1", "A1", true),
            ("A1+1 A1+4 A1+4", "A1", true),
            ("A1+4 A1+1 x", "A1", false),
            ("A1+18446744073709551615 A1 A1", "A1", false),
        ] {
            let expected = (believed.to_owned(), confirmed);
            assert_eq!(weighed(answers, None), expected, "{answers}");
        }
    }

    #[test]
    fn a_sentinel_that_was_cut_off_is_not_followed_and_a_majority_is() {
        for (known, answers, believed, confirmed) in [
            (said(2, "B"), "A1 x x", "B2", false),
            (said(2, "B"), "A1 x B2", "B2", false),
            (said(2, "B"), "A1 B2 B2", "B2", true),
            (said(2, "B"), "A1 A1 x", "A1", true),
            (said(2, "B"), "A1 A1 B2", "B2", false),
            (said(2, "B"), "A3 x x", "A3", false),
            // Two failovers by hand at a time.
            (said(2, "B"), "A2 B2 x", "B2", false),
            (said(2, "B"), "A2 B2 A2", "A2", true),
        ] {
            let expected = (believed.to_owned(), confirmed);
            assert_eq!(weighed(answers, Some(&known)), expected, "{answers}");
        }
    }
}
