//! Writes down what happens, and judges it.
//!
//! A holder believes in its lock from when its acquire returns until it ends it, or finds it lost, or the time is over that
//! its lease said it had. It is asked often, and only while it is known to be good, as asking whether a lease is over is
//! what ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::scenario::Scenario;
use super::server::Question;
use crate::lease::Lease;
use crate::node::Token;

/// One line of the log.
#[derive(Clone, Debug, Hash)]
pub(super) struct Entry {
    at: u64,
    client: usize,
    node: usize,
    what: &'static str,
    attempt: u64,
    number: u64,
}

/// Not about a node.
pub(super) const NO_NODE: usize = usize::MAX;

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            client,
            node,
            what,
            attempt,
            number,
        } = self;
        write!(f, "{at:>6} client {client}")?;
        if *node != NO_NODE {
            write!(f, " node {node}")?;
        }
        write!(f, " {what} #{attempt} ({number})")
    }
}

/// Somebody who held a lock.
#[derive(Debug)]
struct Holder {
    client: usize,
    key: usize,
    fence: u64,
    ttl: u64,
    acquired: u64,
    /// Believes in it until then.
    until: u64,
    ended: Option<u64>,
    /// To be looked at from outside, just before `until`.
    lease: Weak<Lease>,
    looked: u64,
    /// Something was heard in the last moment before `until`, which may have been a renewal.
    heard_last: bool,
}

impl Holder {
    fn end(&self) -> u64 {
        self.ended.map_or(self.until, |ended| ended.min(self.until))
    }
}

/// An owner token on its way.
#[derive(Debug)]
struct Attempt {
    client: usize,
    token: Token,
    key: usize,
    /// The fencing tokens that were proposed for it.
    proposed: Vec<u64>,
    /// When a node first granted it.
    granted: Option<u64>,
    /// When a request that takes or keeps the lock was last sent.
    sent: u64,
    released: bool,
}

/// What is counted, to know that faults were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) acquired: u64,
    pub(super) benign: u64,
    pub(super) handed_over: u64,
    pub(super) fenced: u64,
    pub(super) raised: u64,
    pub(super) renewed: u64,
    pub(super) lost: u64,
    pub(super) forgotten_while_held: u64,
    pub(super) paused_past_the_deadline: u64,
    pub(super) sent_to_young_nodes: u64,
    pub(super) admitted: u64,
    pub(super) heard: u64,
    pub(super) taken: u64,
}

impl Counts {
    fn all(&self) -> [(&'static str, u64); 13] {
        [
            ("acquired", self.acquired),
            ("acquired when all is well", self.benign),
            ("handed over", self.handed_over),
            ("fenced", self.fenced),
            ("raised", self.raised),
            ("renewed", self.renewed),
            ("lost", self.lost),
            ("forgotten while held", self.forgotten_while_held),
            ("paused past the deadline", self.paused_past_the_deadline),
            ("sent to young nodes", self.sent_to_young_nodes),
            ("admitted", self.admitted),
            ("heard of a release", self.heard),
            ("taken by force", self.taken),
        ]
    }

    /// A simulation in which something never happens proves nothing about it.
    pub(super) fn check_that_all_was_met(&self) {
        for (what, count) in self.all() {
            assert!(count > 0, "never met: {what}");
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.benign += other.benign;
        self.handed_over += other.handed_over;
        self.fenced += other.fenced;
        self.raised += other.raised;
        self.renewed += other.renewed;
        self.lost += other.lost;
        self.forgotten_while_held += other.forgotten_while_held;
        self.paused_past_the_deadline += other.paused_past_the_deadline;
        self.sent_to_young_nodes += other.sent_to_young_nodes;
        self.admitted += other.admitted;
        self.heard += other.heard;
        self.taken += other.taken;
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) log: Vec<Entry>,
    pub(super) counts: Counts,
    pub(super) faults: Vec<String>,
    /// How many workers have done all that they had to.
    pub(super) finished: usize,
    /// How many locks went from hand to hand in each client, as it said last.
    handed_over: BTreeMap<usize, u64>,
    holders: Vec<Holder>,
    /// Who may not believe in his lock after which time, as it was taken from him when.
    taken: Vec<Taken>,
    attempts: Vec<Attempt>,
}

/// A lock that was taken by force from somebody who did not know of it yet.
#[derive(Debug)]
struct Taken {
    holder: HolderId,
    at: u64,
}

/// By which the recorder is told about holders.
pub(super) type HolderId = usize;

impl Recorder {
    pub(super) fn note(
        &mut self,
        at: u64,
        client: usize,
        node: usize,
        what: &'static str,
        attempt: u64,
        number: u64,
    ) {
        self.log.push(Entry {
            at,
            client,
            node,
            what,
            attempt,
            number,
        });
    }

    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.log.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    /// A request leaves. Answers the number of its attempt.
    pub(super) fn sent(&mut self, client: usize, now: u64, question: &Question) -> u64 {
        let (token, key, fence, takes) = match question {
            Question::Acquire(ask) => (ask.token.clone(), &ask.key, ask.fence.as_ref(), true),
            Question::Extend(extension) => (extension.token.clone(), &extension.key, None, true),
            Question::Raise(raise) => (raise.token.clone(), &raise.key, Some(&raise.fence), false),
            Question::Release(give_back) => (give_back.token.clone(), &give_back.key, None, false),
            _ => return 0,
        };
        let index = self.attempt(client, token, key, now);
        let attempt = &mut self.attempts[index];
        let mut faults = Vec::new();
        if takes && attempt.released {
            faults.push(format!(
                "attempt #{index} is sent at {now}, behind its release"
            ));
        }
        if let Question::Extend(extension) = question
            && attempt.sent + usable(millis(extension.ttl)) <= now
        {
            faults.push(format!(
                "attempt #{index} is renewed at {now}, after its deadline"
            ));
        }
        if takes {
            attempt.sent = now;
        }
        attempt.released |= matches!(question, Question::Release(_));
        if let Some(fence) = fence
            && !attempt.proposed.contains(&fence.token)
        {
            attempt.proposed.push(fence.token);
        }
        match question {
            Question::Raise(_) => self.counts.raised += 1,
            Question::Extend(_) => self.counts.renewed += 1,
            _ => {}
        }
        self.faults.extend(faults);
        index as u64
    }

    fn attempt(&mut self, client: usize, token: Token, key: &str, now: u64) -> usize {
        let known = self.attempts.iter().rposition(|known| known.token == token);
        known.unwrap_or_else(|| {
            let key = key.trim_start_matches("key-").parse();
            self.attempts.push(Attempt {
                client,
                token,
                key: key.expect("a key of the scenario"),
                proposed: Vec::new(),
                granted: None,
                sent: now,
                released: false,
            });
            self.attempts.len() - 1
        })
    }

    /// A node granted the lock.
    pub(super) fn granted(&mut self, token: &Token, at: u64) {
        let mut attempts = self.attempts.iter_mut().rev();
        if let Some(attempt) = attempts.find(|attempt| attempt.token == *token) {
            attempt.granted.get_or_insert(at);
        }
    }

    pub(super) fn number(&self, token: Option<Token>) -> u64 {
        let known = |token| self.attempts.iter().rposition(|known| known.token == token);
        token.and_then(known).unwrap_or(0) as u64
    }

    /// An acquire has returned.
    pub(super) fn acquired(
        &mut self,
        client: usize,
        keys: &[usize],
        ttl: u64,
        now: u64,
        (left, fence): (Duration, u64),
        lease: &Weak<Lease>,
    ) -> Vec<HolderId> {
        self.counts.acquired += 1;
        self.counts.fenced += u64::from(fence > 0);
        let first = self.holders.len();
        for &key in keys {
            self.note(now, client, NO_NODE, "holds", key as u64, fence);
            self.holders.push(Holder {
                client,
                key,
                fence,
                ttl,
                acquired: now,
                until: now,
                ended: None,
                lease: Weak::clone(lease),
                looked: now,
                heard_last: false,
            });
        }
        let ids: Vec<_> = (first..self.holders.len()).collect();
        self.looked(&ids, now, left);
        ids
    }

    /// A holder was told how much time it has left.
    pub(super) fn looked(&mut self, ids: &[HolderId], now: u64, left: Duration) {
        for &id in ids {
            let left = millis(left);
            let holder = &mut self.holders[id];
            if holder.ended.is_some() {
                continue;
            }
            holder.looked = now;
            if left == 0 {
                holder.ended = Some(now);
                self.counts.lost += 1;
                continue;
            }
            if holder.until < now && !holder.heard_last {
                let fault = format!("a lease that was over at {} is back at {now}", holder.until);
                self.faults.push(fault);
            }
            if holder.until < now + left {
                holder.until = now + left;
                holder.heard_last = false;
            }
            self.check_time(id);
        }
    }

    /// No lease is good for longer than its TTL less the drift, from when the last request for it was sent.
    fn check_time(&mut self, id: HolderId) {
        let holder = &self.holders[id];
        let own = self
            .attempts
            .iter()
            .filter(|attempt| attempt.client == holder.client && attempt.key == holder.key);
        // The token is one of a block, of which the last is known.
        let lasts = own.clone().flat_map(|attempt| &attempt.proposed);
        let last = lasts.filter(|&&last| last >= holder.fence).min();
        let of_token = |attempt: &&Attempt| {
            holder.fence == 0 || last.is_some_and(|last| attempt.proposed.contains(last))
        };
        let sent = own.filter(of_token).map(|attempt| attempt.sent).max();
        let latest = sent.unwrap_or(0) + usable(holder.ttl);
        if holder.until > latest {
            let fault = format!("a lease is good until {}, after {latest}", holder.until);
            self.fault(fault);
        }
    }

    /// On a majority a lock was taken from whoever had it when that began, and it is known now.
    pub(super) fn taken(&mut self, client: usize, key: usize, began: u64, now: u64) {
        self.note(now, client, NO_NODE, "took by force", key as u64, began);
        let holders = self.holders.iter().enumerate();
        let live = holders.filter(|(_, holder)| {
            holder.key == key && holder.acquired < began && holder.end() > now
        });
        let live: Vec<_> = live.map(|(holder, _)| Taken { holder, at: now }).collect();
        self.counts.taken += live.len() as u64;
        self.taken.extend(live);
    }

    /// So many locks were handed over in the client by now.
    pub(super) fn handed_over(&mut self, client: usize, count: u64) {
        let before = self.handed_over.insert(client, count).unwrap_or(0);
        self.counts.handed_over += count - before;
    }

    /// A holder ends it, or was told that it is over.
    pub(super) fn ended(&mut self, ids: &[HolderId], now: u64) {
        for &id in ids {
            let holder = &mut self.holders[id];
            holder.ended.get_or_insert(now);
            let (client, key, fence) = (holder.client, holder.key as u64, holder.fence);
            self.note(now, client, NO_NODE, "ends", key, fence);
        }
    }

    /// A client that runs hears something.
    pub(super) fn heard(&mut self, client: usize, at: u64) {
        let holders = self.holders.iter_mut();
        for holder in holders.filter(|holder| holder.client == client) {
            holder.heard_last |= holder.ended.is_none() && holder.until == at + 1;
        }
    }

    /// Leases of a client that are to be looked at now, while they are good.
    pub(super) fn due(&mut self, client: usize, now: u64) -> Vec<(HolderId, Arc<Lease>)> {
        let holders = self.holders.iter().enumerate();
        let live = holders.filter(|(_, holder)| {
            holder.client == client && holder.ended.is_none() && now < holder.until
        });
        live.filter_map(|(id, holder)| Some((id, holder.lease.upgrade()?)))
            .collect()
    }

    /// When next to look at leases of a client: just before they would be over.
    pub(super) fn look_at(&self, client: usize, now: u64) -> Option<u64> {
        let live = self.holders.iter().filter(|holder| {
            holder.client == client
                && holder.ended.is_none()
                && holder.looked + 1 < holder.until
                && holder.lease.strong_count() > 0
        });
        live.map(|holder| holder.until - 1)
            .filter(|at| *at > now)
            .min()
    }

    /// What was met by somebody who believes to hold a lock now.
    pub(super) fn is_held(&self, at: u64) -> bool {
        let mut holders = self.holders.iter().rev();
        holders.any(|holder| (holder.acquired..holder.end()).contains(&at))
    }

    /// Whether this client holds something that is over before it runs again.
    pub(super) fn oversleeps(&self, client: usize, from: u64, to: u64) -> bool {
        let mut holders = self.holders.iter().rev();
        holders.any(|holder| {
            holder.client == client && holder.ended.is_none() && (from..to).contains(&holder.until)
        })
    }

    /// What was promised about holders, at the end.
    pub(super) fn judge(&mut self, scenario: &Scenario) {
        let mut faults = Vec::new();
        for key in 0..scenario.keys {
            let mut holders: Vec<_> = self.holders.iter().filter(|held| held.key == key).collect();
            holders.sort_by_key(|holder| (holder.acquired, holder.end()));
            let fenced: Vec<_> = holders.iter().filter(|held| held.fence > 0).collect();
            if scenario.within_drift {
                faults.extend(overlaps(&holders));
                for pair in fenced.windows(2) {
                    if pair[0].fence >= pair[1].fence {
                        faults.push(falls(pair[0], pair[1]));
                    }
                }
            }
            // Whatever the clocks do: who was first granted by a node after another had the lock is later.
            for (index, later) in fenced.iter().enumerate() {
                let granted = self.first_granted(later);
                let mut earlier = fenced[..index].iter();
                let falling = earlier.find(|earlier| {
                    earlier.fence >= later.fence && granted.is_some_and(|at| earlier.acquired < at)
                });
                if let Some(earlier) = falling {
                    faults.push(falls(earlier, later));
                }
            }
        }
        if scenario.within_drift {
            faults.extend(self.taken.iter().filter_map(|taken| self.holds_on(taken)));
        }
        self.faults.extend(faults);
    }

    /// Whoever had a lock that was taken from him renews it no more: he may believe what he was told before.
    fn holds_on(&self, taken: &Taken) -> Option<String> {
        let holder = &self.holders[taken.holder];
        let Holder { client, key, .. } = *holder;
        let (end, latest) = (holder.end(), taken.at + usable(holder.ttl));
        (end > latest).then(|| {
            format!(
                "client {client} holds key {key} until {end}, after it was taken from him at {}",
                taken.at
            )
        })
    }

    fn first_granted(&self, holder: &Holder) -> Option<u64> {
        let mut attempts = self.attempts.iter();
        let own = attempts.find(|attempt| {
            attempt.client == holder.client
                && attempt.key == holder.key
                && attempt.proposed.contains(&holder.fence)
        });
        own?.granted
    }
}

fn millis(duration: Duration) -> u64 {
    let millis = duration.as_micros().div_ceil(1_000);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

/// For how long a lease is good, from the moment that it counts from: written down here once more.
fn usable(ttl: u64) -> u64 {
    (ttl - ttl / 100).saturating_sub(2)
}

/// Holders that believe at the same time.
fn overlaps(holders: &[&Holder]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut longest: Option<&Holder> = None;
    for holder in holders {
        if let Some(earlier) = longest
            && holder.acquired < earlier.end()
            && holder.acquired < holder.end()
        {
            faults.push(format!(
                "two hold key {} at {}: client {} since {} until {}, client {} until {}",
                holder.key,
                holder.acquired,
                earlier.client,
                earlier.acquired,
                earlier.end(),
                holder.client,
                holder.end(),
            ));
        }
        if longest.is_none_or(|longest| longest.end() < holder.end()) {
            longest = Some(holder);
        }
    }
    faults
}

fn falls(earlier: &Holder, later: &Holder) -> String {
    format!(
        "the fence of key {} falls from {} (client {} at {}) to {} (client {} at {})",
        later.key,
        earlier.fence,
        earlier.client,
        earlier.acquired,
        later.fence,
        later.client,
        later.acquired,
    )
}
