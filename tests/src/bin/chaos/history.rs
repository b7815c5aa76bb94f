//! What a run's record shows. Pure.
//!
//! A *hold* is one lock held once, by an owner `client#number@fence`. Its actions are entering and every step; each step
//! says until when the lease was good as its holder knew it just before. So much is proved by them: the hold was good from
//! its entering to the latest of these times, or to its leaving. This is what is a violation:
//!
//! - **Overlap**: two holds of a key were good at the same moment, on the clock that all processes of a machine share.
//! - **Late action**, counted as an overlap too: an action on record after a newer holder's entering. One is let pass: the
//!   first of a client that was stopped and goes on. It was stopped between looking at its lease and acting, which only a
//!   store that knows fencing tokens can tell; see [`Findings::in_flight`]. A second one is a violation.
//! - **Fence regression**: entering with a token that is not larger than the last one of its key.

use lock_tests::recorder::{Act, Event};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

/// The place on record where faults are.
pub(crate) const FAULTS: &str = "faults";

/// What the conductor notes when it lets a stopped client go on.
pub(crate) const CONTINUED: &str = "client continued";

/// What the conductor notes when it has killed a client.
pub(crate) const KILLED: &str = "client killed";

/// What a client notes with every step.
pub(crate) fn good_until(time: Duration) -> String {
    format!("until {}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// What the conductor notes of a fault, or of its end.
pub(crate) fn fault(what: &str, target: &str) -> String {
    format!("{what}: {target}")
}

/// How often a fault was done, and how often a lock was held then: by that client, or for a server by any client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hits {
    pub(crate) times: usize,
    pub(crate) held: usize,
}

/// What was found in a record.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) acquisitions: usize,
    /// From one task of a client to the next, whose fencing token is the next of a block.
    pub(crate) handed_over: usize,
    pub(crate) faults: BTreeMap<String, Hits>,
    /// In words, each.
    pub(crate) overlaps: Vec<String>,
    pub(crate) fence_regressions: Vec<String>,
    /// Single actions in the middle of which a client was stopped until somebody else had the lock.
    pub(crate) in_flight: usize,
    /// Holds that went on for longer than their first lease.
    pub(crate) renewed: usize,
}

/// Who an owner is.
fn client_of(owner: &str) -> &str {
    let (client, _) = owner.split_once('#').expect("an owner has a number");
    client
}

/// One lock held once.
#[derive(Clone, Debug)]
struct Hold {
    owner: String,
    fence: u64,
    entered: Duration,
    /// What its first step said.
    first_lease: Option<Duration>,
    good_until: Duration,
    left: Option<Duration>,
}

impl Hold {
    fn client(&self) -> &str {
        client_of(&self.owner)
    }
}

impl Hold {
    /// The end of the time in which it was certainly good.
    fn proved_until(&self) -> Duration {
        self.left
            .map_or(self.good_until, |left| left.min(self.good_until))
    }
}

#[derive(Debug, Default)]
struct Place {
    holds: Vec<Hold>,
    by_owner: HashMap<String, usize>,
    newest: Option<usize>,
}

/// Goes through a record once.
#[derive(Debug, Default)]
struct Reader {
    findings: Findings,
    places: BTreeMap<String, Place>,
    /// Per client, how many holds it is in.
    inside: HashMap<String, usize>,
    /// Clients that were let go on and have not been heard of since.
    woken: HashSet<String>,
}

/// Looks at a record. The lines must be in the order in which they were written.
pub(crate) fn examine(events: impl IntoIterator<Item = Event>) -> Findings {
    let mut reader = Reader::default();
    for event in events {
        if event.place == FAULTS {
            if let Act::Step(what) = &event.act {
                reader.fault(what);
            }
        } else {
            reader.act(event);
        }
    }
    reader.finish()
}

impl Reader {
    fn fault(&mut self, noted: &str) {
        let (what, target) = noted.split_once(": ").expect("a fault names its target");
        if what == CONTINUED {
            self.woken.insert(target.to_owned());
            return;
        }
        let held = if what.starts_with("client") {
            self.inside.get(target).is_some_and(|&holds| holds > 0)
        } else {
            self.inside.values().any(|&holds| holds > 0)
        };
        if what == KILLED {
            self.inside.remove(target);
        }
        let hits = self.findings.faults.entry(what.to_owned()).or_default();
        hits.times += 1;
        hits.held += usize::from(held);
    }

    fn act(&mut self, event: Event) {
        let client = client_of(&event.owner).to_owned();
        let woken = self.woken.remove(&client);
        match event.act {
            Act::Entered => {
                *self.inside.entry(client).or_default() += 1;
                self.enter(event, woken);
            }
            Act::Step(ref text) => {
                let until = text.strip_prefix("until ").and_then(time);
                let until = until.expect("a step says until when the lease is good");
                self.step(&event, until, woken);
            }
            Act::Left => {
                if let Some(inside) = self.inside.get_mut(&client) {
                    *inside -= 1;
                }
                if let Some(hold) = self.hold(&event) {
                    hold.left = Some(event.at);
                }
            }
        }
    }

    fn enter(&mut self, event: Event, woken: bool) {
        let fence = event
            .owner
            .split_once('@')
            .and_then(|(_, fence)| fence.parse().ok());
        let fence = fence.expect("an owner has a fencing token");
        self.findings.acquisitions += 1;
        let place = self.places.entry(event.place.clone()).or_default();
        let index = place.holds.len();
        let last = place.newest.map(|newest| &place.holds[newest]);
        let is_next =
            |last: &Hold| last.fence + 1 == fence && last.client() == client_of(&event.owner);
        self.findings.handed_over += usize::from(last.is_some_and(is_next));
        match last {
            Some(last) if last.fence >= fence && woken => self.findings.in_flight += 1,
            Some(last) if last.fence >= fence => {
                self.findings.fence_regressions.push(format!(
                    "{}: {} entered after {}",
                    event.place, event.owner, last.owner
                ));
                place.newest = Some(index);
            }
            _ => place.newest = Some(index),
        }
        place.by_owner.insert(event.owner.clone(), index);
        place.holds.push(Hold {
            owner: event.owner,
            fence,
            entered: event.at,
            first_lease: None,
            good_until: Duration::ZERO,
            left: None,
        });
    }

    fn step(&mut self, event: &Event, until: Duration, woken: bool) {
        let hold = self.hold(event).expect("a step is inside of a hold");
        if hold.first_lease.is_none() {
            hold.first_lease = Some(until);
        }
        hold.good_until = hold.good_until.max(until);
        let place = &self.places[&event.place];
        let newest = place.newest.map(|newest| &place.holds[newest]);
        match newest {
            Some(newest) if newest.owner == event.owner => {}
            _ if woken => self.findings.in_flight += 1,
            newest => self.findings.overlaps.push(format!(
                "{}: {} went on after {} had entered",
                event.place,
                event.owner,
                newest.map_or("nobody", |newest| &newest.owner)
            )),
        }
    }

    fn hold(&mut self, event: &Event) -> Option<&mut Hold> {
        let place = self.places.get_mut(&event.place)?;
        let index = *place.by_owner.get(&event.owner)?;
        place.holds.get_mut(index)
    }

    fn finish(mut self) -> Findings {
        for (key, place) in self.places {
            self.findings.renewed += place
                .holds
                .iter()
                .filter(|hold| {
                    hold.first_lease
                        .is_some_and(|first| first < hold.proved_until())
                })
                .count();
            let mut proved = place.holds;
            proved.retain(|hold| hold.entered < hold.proved_until());
            proved.sort_by_key(|hold| hold.entered);
            let mut longest: Option<Hold> = None;
            for hold in proved {
                if let Some(earlier) = &longest
                    && hold.entered < earlier.proved_until()
                {
                    self.findings.overlaps.push(format!(
                        "{key}: {} entered while {} was good for another {:?}",
                        hold.owner,
                        earlier.owner,
                        earlier.proved_until().saturating_sub(hold.entered)
                    ));
                }
                let is_longest = longest
                    .as_ref()
                    .is_none_or(|earlier| earlier.proved_until() < hold.proved_until());
                if is_longest {
                    longest = Some(hold);
                }
            }
        }
        self.findings
    }
}

fn time(text: &str) -> Option<Duration> {
    let (seconds, nanos) = text.split_once('.')?;
    Some(Duration::new(seconds.parse().ok()?, nanos.parse().ok()?))
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        writeln!(f, "{:<36} {:>6}  while a lock was held", "fault", "times")?;
        for (what, Hits { times, held }) in &self.faults {
            writeln!(f, "{what:<36} {times:>6}  {held}")?;
        }
        writeln!(
            f,
            "{} of {} holds outlived their first lease, {} were handed over; {} actions were in flight when their client was stopped",
            self.renewed, self.acquisitions, self.handed_over, self.in_flight
        )?;
        for (name, violations) in [
            ("overlap", &self.overlaps),
            ("fence regression", &self.fence_regressions),
        ] {
            for violation in violations.iter().take(SHOWN) {
                writeln!(f, "{name}: {violation}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as `milliseconds owner act`: `+` enters, `-` leaves, a number is a step with a lease until then. All of one key.
    fn examine(lines: &[&str]) -> Findings {
        let millis = |text: &str| Duration::from_millis(text.parse().expect("milliseconds"));
        let event = |line: &&str| {
            let words: Vec<_> = line.splitn(3, ' ').collect();
            let [at, owner, act] = words[..] else {
                panic!("not a line: {line}")
            };
            let act = match act {
                "+" => Act::Entered,
                "-" => Act::Left,
                step if owner == FAULTS => Act::Step(step.to_owned()),
                until => Act::Step(good_until(millis(until))),
            };
            let place = if owner == FAULTS { FAULTS } else { "key" };
            Event {
                at: millis(at),
                place: place.to_owned(),
                owner: owner.to_owned(),
                act,
            }
        };
        super::examine(lines.iter().map(event).collect::<Vec<_>>())
    }

    #[track_caller]
    fn assert_found(findings: &Findings, overlaps: usize, regressions: usize, in_flight: usize) {
        assert_eq!(findings.overlaps.len(), overlaps, "{findings}");
        assert_eq!(findings.fence_regressions.len(), regressions, "{findings}");
        assert_eq!(findings.in_flight, in_flight, "{findings}");
    }

    #[test]
    fn one_after_the_other_is_well() {
        let findings = examine(&[
            "10 a#1@100 +",
            "11 a#1@100 500",
            "300 a#1@100 800",
            "600 a#1@100 1000",
            "700 a#1@100 -",
            "701 b#1@101 +",
            "702 b#1@101 1200",
            "703 b#1@101 -",
            "703 b#2@102 +",
            "704 b#2@102 1200",
            "705 b#2@102 -",
        ]);
        assert_found(&findings, 0, 0, 0);
        assert_eq!((findings.acquisitions, findings.renewed), (3, 1));
        assert_eq!(findings.handed_over, 1);
    }

    #[test]
    fn whoever_enters_a_good_lease_is_found() {
        let findings = examine(&["10 a#1@1 +", "11 a#1@1 500", "499 b#1@2 +", "500 b#1@2 900"]);
        assert_found(&findings, 1, 0, 0);
        // Without a step it is not known until when the second one's lease is good; the first one's next step tells.
        let findings = examine(&["10 a#1@1 +", "11 a#1@1 500", "499 b#1@2 +", "500 a#1@1 900"]);
        assert_found(&findings, 1, 0, 0);
    }

    #[test]
    fn a_lease_that_is_good_counts_also_while_its_holder_is_stopped_or_dead() {
        for fault in ["client killed: a", "client stopped: a"] {
            let fault = format!("20 {FAULTS} {fault}");
            let before = ["10 a#1@1 +", "11 a#1@1 500", &fault];
            let findings = examine(&[&before[..], &["400 b#1@2 +", "401 b#1@2 900"]].concat());
            assert_found(&findings, 1, 0, 0);
            let findings = examine(&[&before[..], &["500 b#1@2 +", "501 b#1@2 900"]].concat());
            assert_found(&findings, 0, 0, 0);
        }
    }

    #[test]
    fn an_overlap_with_one_before_the_last_is_found() {
        let findings = examine(&[
            "10 a#1@1 +",
            "11 a#1@1 900",
            "20 b#1@2 +",
            "21 b#1@2 25",
            "26 b#1@2 -",
            "30 c#1@3 +",
            "31 c#1@3 700",
        ]);
        assert_found(&findings, 2, 0, 0);
    }

    #[test]
    fn going_on_after_a_newer_holder_entered_is_found() {
        let findings = examine(&[
            "10 a#1@1 +",
            "11 a#1@1 500",
            "600 b#1@2 +",
            "601 b#1@2 900",
            "602 a#1@1 500",
        ]);
        assert_found(&findings, 1, 0, 0);
    }

    #[test]
    fn one_action_of_a_client_that_was_stopped_is_let_pass_and_no_second_one() {
        let stopped = [
            "10 a#1@1 +",
            "11 a#1@1 500",
            "12 faults client stopped: a",
            "600 b#1@2 +",
            "601 b#1@2 900",
            "610 faults client continued: a",
            "611 a#1@1 500",
        ];
        assert_found(&examine(&stopped), 0, 0, 1);
        let twice = [&stopped[..], &["612 a#1@1 500"]].concat();
        assert_found(&examine(&twice), 1, 0, 1);
        // That its lease was good is an overlap, whatever it was stopped in.
        let mut good = stopped;
        good[6] = "611 a#1@1 700";
        assert_found(&examine(&good), 1, 0, 1);
        // It has left, so what it was stopped in is over.
        let left = [&stopped[..6], &["611 a#1@1 -", "612 a#1@1 500"]].concat();
        assert_found(&examine(&left), 1, 0, 0);
    }

    #[test]
    fn a_fence_that_is_not_larger_is_found() {
        for second in ["b#1@7", "b#1@6"] {
            let (enters, leaves) = (format!("20 {second} +"), format!("21 {second} -"));
            let lines = ["10 a#1@7 +", "11 a#1@7 -", &enters, &leaves, "30 c#1@8 +"];
            assert_found(&examine(&lines), 0, 1, 0);
        }
    }

    #[test]
    fn entering_late_is_let_pass_once_and_going_on_then_is_not() {
        let entered = [
            "10 faults client stopped: a",
            "600 b#1@2 +",
            "601 b#1@2 900",
            "610 faults client continued: a",
            "611 a#1@1 +",
        ];
        assert_found(&examine(&entered), 0, 0, 1);
        let went_on = [&entered[..], &["612 a#1@1 500"]].concat();
        assert_found(&examine(&went_on), 1, 0, 1);
    }

    #[test]
    fn faults_are_counted_with_whether_a_lock_was_held() {
        let findings = examine(&[
            "1 faults server killed: 0",
            "10 a#1@1 +",
            "11 faults server killed: 1",
            "12 faults client stopped: a",
            "13 faults client stopped: b",
            "14 faults client continued: a",
            "15 faults client killed: a",
            "16 faults server killed: 2",
        ]);
        let hits = |times, held| Hits { times, held };
        let expected = [
            ("client killed", hits(1, 1)),
            ("client stopped", hits(2, 1)),
            ("server killed", hits(3, 1)),
        ];
        let expected: Vec<_> = expected.map(|(what, hits)| (what.to_owned(), hits)).into();
        assert_eq!(Vec::from_iter(findings.faults), expected);
    }
}
