//! Whether a server has lived long enough to vote.
//!
//! A server that crashed may come back without its last writes, and grant a lock that somebody holds. The Redlock
//! description has a rule for it: keep it out for as long as the longest lease. A restart always breaks the connection,
//! so every new connection asks how long the server has been up. Younger than `max_ttl`: it has no vote until it is older.
//! No clocks are compared; but the server counts its uptime with its own, so one that is set forward ages it.
//!
//! A replica that was promoted may lack its primary's last writes as well, and does not say when it was promoted: only that
//! it was (`master_replid2`), and in which life it has been since (`master_replid`). So it has no vote until `max_ttl` has
//! passed since it was first met in this life, however long it has been up. That holds wherever a name leads to the server:
//! to the primary of a Sentinel group, to that of a cluster's shard, to a host whose address was changed. A primary that was
//! restarted with its data on disk says the same (Redis 7.0 and later), and is kept out in the same way. One that has had no
//! replica for an hour (`repl-backlog-ttl`) forgets that it was promoted, and is then as old as it says.
//!
//! Neither being a replica for a while nor being promoted breaks a connection. So it is asked every few seconds whether the
//! server is still in the life in which it was met, and given up if not. A server that was replaced and took its place again
//! within those seconds is not noticed: it takes two failovers, each of which begins with a silence that is longer in most
//! deployments (`cluster-node-timeout`), or somebody who has servers take over by hand.
//!
//! In a Sentinel group every server is kept out that does not remember this life, however old it is and whatever it says: the
//! group may have been given another one. And as the primary before may have [voted a while longer](super::sentinel), it is
//! kept out for that much longer.
//!
//! For how long a server has been known is remembered by the server as well, so that clients that do not live so long wait
//! together.
//!
//! A deployment that is brand-new need not wait, and a client that comes to it a moment later neither. So each server
//! remembers, under a key of its own, in which life it was last known to have a vote: while it is in that life it has lost
//! nothing. A replica has that key from its primary, and is in no such life. If all nodes are kept out and none remembers
//! anything, the deployment is new, and all are admitted; so not all nodes that were told may forget it at the same time.
//!
//! A server that was kept out remembers for how long. A client whose leases may be longer than that does not take it for an
//! answer: or one process with a smaller `max_ttl` would have it vote for all the others, before what it forgot is over.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::role::info_field;
use super::sentinel::OLD_PRIMARY_VOTES;
use super::target::{Rule, Target};
use super::{NodeError, Standing};

/// For how long a server remembers. It is told again with every connection, and every hour.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// An uptime is the difference of two moments that were both cut to seconds, so it may be almost this much too long. Where the
/// time is ours, it is for clocks that run at different speeds.
const ROUNDING: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Life {
    /// Which life of the server this is. `None`: it may not be asked.
    id: Option<Arc<str>>,
    /// It has had others since it was started.
    promoted: bool,
    /// For how long a lease of this client may last.
    max_ttl: Duration,
    /// It does not remember since when it has been known.
    is_to_be_noted: bool,
    standing: Mutex<Known>,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Votes(Grounds),
    Young { until: Instant, unknown: bool },
}

/// Why it has a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grounds {
    /// It was new, as all the others were: there is nothing that it could have forgotten.
    New,
    /// It was kept out for as long as a lease of these milliseconds may last.
    KeptOut(u128),
}

impl Grounds {
    /// As the server remembers it, behind its life.
    fn words(self) -> String {
        match self {
            Self::New => String::new(),
            Self::KeptOut(millis) => format!("/{millis}"),
        }
    }
}

/// What a server remembers, as it answers.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// In which life it had a vote.
    pub(super) voted_in: Value,
    /// In which it was known and had none yet, and for how much longer it remembers that.
    pub(super) met_in: Value,
    pub(super) met_left: Value,
}

impl Memory {
    /// For how long it has been known in this life.
    fn known_for(&self, id: &str) -> Option<Duration> {
        match (&self.met_in, &self.met_left) {
            (Value::BulkString(met_in), Value::Int(left)) if met_in == id.as_bytes() => {
                let left = Duration::from_millis(u64::try_from(*left).ok()?);
                Some(REMEMBERED.saturating_sub(left))
            }
            _ => None,
        }
    }
}

/// The server that was met last where connections lead to, in which life, and when that was first.
#[derive(Debug, Default)]
pub(super) struct Met(Option<(Arc<str>, Instant)>);

impl Met {
    fn since(&mut self, id: &Arc<str>) -> Instant {
        let now = Instant::now();
        let before = self.0.take().filter(|(before, _)| before == id);
        self.0.insert(before.unwrap_or((Arc::clone(id), now))).1
    }
}

impl Life {
    /// From what a server says of itself, `INFO server` and `INFO replication`, and what it remembers.
    pub(super) fn new(info: &str, memory: &Memory, rule: Rule, met: &mut Met) -> Self {
        let since = promoted_to(info);
        let promoted = since.is_some();
        let id: Option<Arc<str>> = info_field(info, "run_id").map(|run_id| match since {
            Some(since) => format!("{run_id}:{since}").into(),
            None => run_id.into(),
        });
        let uptime = info_field(info, "uptime_in_seconds")
            .and_then(|seconds| seconds.parse().ok())
            .map(Duration::from_secs);

        let now = Instant::now();
        let known_for = id.as_ref().and_then(|id| memory.known_for(id));
        let noted = known_for.and_then(|time| now.checked_sub(time));
        let met = id.as_ref().map_or(now, |id| met.since(id));
        let met = noted.map_or(met, |noted| noted.min(met));
        let max_ttl = rule.max_ttl.map(|max_ttl| max_ttl.saturating_add(ROUNDING));
        let kept_out = match (max_ttl, uptime) {
            (Some(max_ttl), _) if rule.in_group => {
                Some((met, max_ttl.saturating_add(OLD_PRIMARY_VOTES)))
            }
            (Some(max_ttl), _) if promoted => Some((met, max_ttl)),
            (Some(max_ttl), Some(uptime)) => Some((now, max_ttl.saturating_sub(uptime))),
            // The rule is off, or the server may not be asked.
            (None, _) | (_, None) => None,
        };
        let counts_from_meeting = rule.in_group || promoted;
        let until = kept_out.and_then(|(since, time)| since.checked_add(time));
        let life = Self {
            id,
            promoted,
            max_ttl: rule.max_ttl.unwrap_or_default(),
            is_to_be_noted: counts_from_meeting && known_for.is_none(),
            standing: Mutex::new(match until.filter(|until| *until > now) {
                Some(until) => Known::Young {
                    until,
                    unknown: false,
                },
                None => Known::Votes(Grounds::KeptOut(
                    rule.max_ttl.unwrap_or_default().as_millis(),
                )),
            }),
        };
        life.note(&memory.voted_in);
        life
    }

    pub(super) fn votes(&self) -> Result<(), NodeError> {
        match self.standing() {
            Standing::Votes => Ok(()),
            Standing::Abstains { for_another, .. } => Err(NodeError::Abstains(for_another)),
        }
    }

    /// Whether it may be asked which life it is in.
    pub(super) fn is_known(&self) -> bool {
        self.id.is_some()
    }

    /// Whether `INFO replication` says that the server is a replica, or was one since it said who it is.
    pub(super) fn is_over(&self, info: &str) -> bool {
        let Some(id) = &self.id else {
            return false;
        };
        let is_another = |since: &str| id.split_once(':').is_none_or(|(_, known)| known != since);
        info_field(info, "role") == Some("slave") || promoted_to(info).is_some_and(is_another)
    }

    /// Takes note of what the server remembers.
    pub(super) fn note(&self, remembered: &Value) -> Standing {
        let grounds = match (remembered, &self.id) {
            (Value::BulkString(remembered), Some(id)) => self.grounds(remembered, id),
            _ => None,
        };
        let known = &mut *self.known();
        match (grounds, &mut *known) {
            (_, Known::Votes(Grounds::New)) | (None, Known::Votes(_)) => {}
            (Some(grounds), _) => *known = Known::Votes(grounds),
            (None, Known::Young { unknown, .. }) => *unknown = *remembered == Value::Nil,
        }
        self.stands(known)
    }

    /// Why it has a vote for this client, if what it remembers is of this life and says so.
    fn grounds(&self, remembered: &[u8], id: &str) -> Option<Grounds> {
        let remembered = std::str::from_utf8(remembered).ok()?;
        let (life, grounds) = match remembered.split_once('/') {
            None => (remembered, Grounds::New),
            Some((life, millis)) => (life, Grounds::KeptOut(millis.parse().ok()?)),
        };
        let is_enough = match grounds {
            Grounds::New => true,
            Grounds::KeptOut(millis) => millis >= self.max_ttl.as_millis(),
        };
        (is_enough && self.is_remembered(life.as_bytes(), id)).then_some(grounds)
    }

    /// One that has forgotten that it was promoted is in the same life as before it did.
    fn is_remembered(&self, remembered: &[u8], id: &str) -> bool {
        match remembered.strip_prefix(id.as_bytes()) {
            Some([]) => true,
            Some([first, ..]) => !self.promoted && *first == b':',
            None => false,
        }
    }

    pub(super) fn is(&self, life: &str) -> bool {
        self.id.as_deref() == Some(life)
    }

    /// It is new, as all others are.
    pub(super) fn admit(&self) {
        *self.known() = Known::Votes(Grounds::New);
    }

    /// The command that makes the server remember that it is admitted in this life.
    pub(super) fn admission(&self, target: &Target) -> Option<Cmd> {
        mark(target, self.voted_by(Grounds::New)?)
    }

    /// The same where it has a vote, with what it has it for.
    pub(super) fn reminder(&self, target: &Target) -> Option<Cmd> {
        mark(target, self.voted()?)
    }

    fn voted(&self) -> Option<String> {
        let known = *self.known();
        match known {
            Known::Votes(grounds) => self.voted_by(grounds),
            Known::Young { .. } => None,
        }
    }

    fn voted_by(&self, grounds: Grounds) -> Option<String> {
        let life = self.id.as_deref()?;
        Some(format!("{life}{}", grounds.words()))
    }

    /// The command that makes the server remember since when it has been known in this life, where it has no vote yet.
    pub(super) fn introduce(&self, target: &Target) -> Option<Cmd> {
        if !self.is_to_be_noted || self.votes().is_ok() {
            return None;
        }
        let mut command = redis::cmd("SET");
        command.arg(&*target.met()).arg(self.id.as_deref()?);
        command.arg("PX").arg(REMEMBERED.as_secs() * 1000);
        Some(command)
    }

    pub(super) fn standing(&self) -> Standing {
        self.stands(&mut self.known())
    }

    fn stands(&self, known: &mut Known) -> Standing {
        if let Known::Young { until, unknown } = *known {
            let for_another = until.saturating_duration_since(Instant::now());
            if !for_another.is_zero() {
                return Standing::Abstains {
                    for_another,
                    unknown: self.id.clone().filter(|_| unknown),
                };
            }
            *known = Known::Votes(Grounds::KeptOut(self.max_ttl.as_millis()));
        }
        Standing::Votes
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mark(target: &Target, voted: String) -> Option<Cmd> {
    let mut command = redis::cmd("SET");
    command.arg(target.marker()?).arg(voted);
    command.arg("EX").arg(REMEMBERED.as_secs());
    Some(command)
}

/// In which life a server has been since it was promoted, if it says that it was.
fn promoted_to(info: &str) -> Option<&str> {
    let before = info_field(info, "master_replid2")?;
    let promoted = before.bytes().any(|digit| digit != b'0');
    info_field(info, "master_replid").filter(|_| promoted)
}

#[cfg(test)]
mod tests;
