//! How a server is reached, and what it is expected to do.

use std::sync::Arc;
use std::time::Duration;

use redis::RedisConnectionInfo;
use tokio::sync::Notify;

use super::address::Address;
use super::names::Names;
use super::registry::Seat;
use super::sibling;
use super::tls::Connector;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    pub(crate) login: RedisConnectionInfo,
    /// `None`: in plain text. The sentinels are asked in the same way.
    pub(crate) tls: Option<Arc<Connector>>,
    pub(crate) node_timeout: Duration,
    /// How many replicas must have what was written.
    pub(crate) replicas: usize,
    /// How long a server is kept out that has restarted or was promoted. `None`: not at all.
    pub(crate) max_ttl: Option<Duration>,
    /// See [`marker`].
    pub(crate) marker: String,
    /// Of the node that the server belongs to.
    pub(crate) seat: Seat,
    /// The manager's.
    pub(crate) names: Arc<Names>,
    /// `None`: it is a server by itself.
    pub(crate) member: Option<Membership>,
}

/// What a server has to do with a Redis Cluster that it is one of the servers of.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Told when a connection to it is lost, or cannot be made: others of the cluster may know more.
    pub(super) trouble: Arc<Notify>,
    /// One of its slots. `None`: it is only asked what it knows of the others.
    pub(super) slot: Option<u16>,
}

/// Where the server is to be found.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Server(Address),
    Sentinels(Sentinels),
    /// At any of these it is to be learnt where the servers of a cluster are, each of which has a target of its own.
    Cluster(Vec<Address>),
}

/// Who knows which server is the primary of a group.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    pub(crate) group: String,
    pub(crate) hosts: Vec<Address>,
    /// Their own; what [`Target::login`] says is for the servers.
    pub(crate) login: RedisConnectionInfo,
}

/// For how long servers are kept out that may have lost something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// `None`: not at all.
    pub(super) max_ttl: Option<Duration>,
    /// The server is the primary of a Sentinel group.
    pub(super) in_group: bool,
}

/// Behind the prefix, the key under which servers remember in which life they had a vote.
pub(super) const MARKER: &str = "lock-runtime:votes";

/// Behind the prefix, a key that nothing is ever kept under: what servers permit is tried on it.
pub(super) const PROBE: &str = "lock-runtime:check";

/// The key under which servers remember in which life they had a vote.
pub(crate) fn marker(prefix: &str) -> String {
    format!("{prefix}{MARKER}")
}

/// That key for a server of a cluster, each of which has other slots.
pub(super) fn marker_in_slot(prefix: &str, slot: u16) -> String {
    in_slot(marker(prefix), slot)
}

/// A name with a number that makes it a key of this slot. Where it has a tag it is in the slot of all keys with its prefix.
fn in_slot(name: String, slot: u16) -> String {
    match sibling::tag(&name) {
        Some(_) => name,
        None => sibling::numbered(&format!("{name}:"), slot),
    }
}

/// Whether a key, behind the prefix, is one of these.
pub(super) fn is_marker(key: &str) -> bool {
    let numbered = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit());
    key.strip_prefix(MARKER)
        .is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(numbered))
}

impl Target {
    /// The marker's key, where servers are kept out.
    pub(super) fn marker(&self) -> Option<&str> {
        self.max_ttl.is_some().then_some(self.marker.as_str())
    }

    /// For how long the server is kept out.
    pub(super) fn rule(&self) -> Rule {
        Rule {
            max_ttl: self.max_ttl,
            in_group: self.sentinels().is_some(),
        }
    }

    /// The key under which servers remember since when they have been known. It has the name that the fence of a lock by the
    /// marker's name would have, which there is not: so nobody else uses it, who may use locks may use it, and it is where the
    /// marker is.
    pub(super) fn met(&self) -> Arc<str> {
        sibling::fence(&self.marker)
    }

    /// Where the server is the primary of a group.
    pub(super) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.place {
            Place::Server(_) | Place::Cluster(_) => None,
            Place::Sentinels(sentinels) => Some(sentinels),
        }
    }

    /// Whether it is asked for locks.
    pub(super) fn has_to_vote(&self) -> bool {
        let has_slots = |member: &Membership| member.slot.is_some();
        self.member.as_ref().is_none_or(has_slots)
    }

    /// A key that nothing is ever kept under, where the server has it.
    pub(super) fn probe(&self) -> String {
        let probe = [self.prefix(), PROBE].concat();
        match self.member.as_ref().and_then(|member| member.slot) {
            Some(slot) => in_slot(probe, slot),
            None => probe,
        }
    }

    /// What stands before every key.
    pub(super) fn prefix(&self) -> &str {
        let (prefix, _) = self.marker.rsplit_once(MARKER).unwrap_or_default();
        prefix
    }

    /// Channels of locks that there are not, one for each shape of a name under the prefix: whoever may publish on them may on
    /// those of locks.
    pub(super) fn channels(&self) -> [String; 2] {
        let prefix = self.prefix();
        [marker(prefix), format!("{prefix}{{{MARKER}}}")].map(|lock| sibling::channel(&lock))
    }

    /// How long making a connection may take, and how long one may be silent before it is given up.
    pub(super) fn patience(&self) -> Duration {
        self.node_timeout
            .saturating_mul(4)
            .max(Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_in_the_slot_that_it_is_for_and_no_lock_has_its_name() {
        for prefix in ["", "shop:", "a{b", "a}b", "{}x", "}{"] {
            for slot in [0, 1, 5460, 16_383] {
                let marker = marker_in_slot(prefix, slot);
                assert_eq!(sibling::slot(&marker), slot, "{marker}");
                let key = marker.strip_prefix(prefix).expect("the prefix is first");
                assert!(is_marker(key), "{key}");
            }
        }
        // All keys with this prefix are in one slot.
        assert_eq!(marker_in_slot("{shop}:", 7), "{shop}:lock-runtime:votes");
        assert!(is_marker(MARKER));
        for lock in [
            "",
            "order:1",
            "lock-runtime:vote",
            "lock-runtime:votes7",
            "lock-runtime:votes:x",
            "lock-runtime:votes:7:fence",
        ] {
            assert!(!is_marker(lock), "{lock}");
        }
    }
}
