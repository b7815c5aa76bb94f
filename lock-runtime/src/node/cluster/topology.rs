//! Who has which slots, as a server of the cluster says, and where it sends those who came to the wrong one.

use std::sync::Arc;

use redis::Value;

use crate::node::address::Address;
use crate::node::sibling::SLOTS;

/// How many servers a cluster may have. Redis itself is made for a thousand; whoever names more is not believed.
pub(super) const MOST_SERVERS: usize = 1000;

/// What `CLUSTER SLOTS` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topology {
    /// Those that have slots.
    pub(super) primaries: Vec<Address>,
    /// Those that may be primaries one day.
    pub(super) replicas: Vec<Address>,
    /// By slot, the place of its owner among the primaries.
    owners: Arc<[u16]>,
}

const NOBODY: u16 = u16::MAX;

impl Topology {
    /// Reads the answer of a server. One that does not know its own host's name means the one by which it was `asked`.
    pub(super) fn read(answer: &Value, asked: &Address) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "CLUSTER SLOTS was answered in a way that Redis does not";
        let Value::Array(ranges) = answer else {
            return Err(UNREADABLE);
        };
        // Each slot may be one by itself.
        if ranges.len() > usize::from(SLOTS) {
            return Err(UNREADABLE);
        }
        let mut primaries: Vec<Address> = Vec::new();
        let mut replicas: Vec<Address> = Vec::new();
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        for range in ranges {
            let Value::Array(range) = range else {
                return Err(UNREADABLE);
            };
            let [first, last, primary, others @ ..] = range.as_slice() else {
                return Err(UNREADABLE);
            };
            let (Some(first), Some(last)) = (slot(first), slot(last)) else {
                return Err(UNREADABLE);
            };
            let address = address(primary, asked).ok_or(
                "a server of the cluster has no address, as one that is to be called by a name and has none",
            )?;
            let known = primaries.iter().position(|known| *known == address);
            let place = known.unwrap_or(primaries.len());
            if known.is_none() {
                primaries.push(address);
            }
            if let Some(owned) = owners.get_mut(first..=last) {
                owned.fill(u16::try_from(place).unwrap_or(NOBODY));
            }
            for replica in others {
                replicas
                    .extend(self::address(replica, asked).filter(|one| !replicas.contains(one)));
            }
            if primaries.len() + replicas.len() > MOST_SERVERS {
                return Err("the cluster has more servers than Redis is made for");
            }
        }
        if primaries.is_empty() {
            return Err("no server of the cluster has slots");
        }
        Ok(Self {
            primaries,
            replicas,
            owners: owners.into(),
        })
    }

    /// Where the slot's owner is among the primaries.
    pub(super) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = *self.owners.get(usize::from(slot))?;
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// The slot has another owner.
    pub(super) fn set_owner(&mut self, slot: u16, address: &Address) {
        let known = self.primaries.iter().position(|known| known == address);
        let place = known.unwrap_or(self.primaries.len());
        if known.is_none() {
            self.primaries.push(address.clone());
        }
        let owners = Arc::make_mut(&mut self.owners);
        if let (Some(owner), Ok(place)) = (owners.get_mut(usize::from(slot)), u16::try_from(place))
        {
            *owner = place;
        }
    }

    /// How many slots each of the primaries has, and the first of them.
    pub(super) fn shares(&self) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.primaries.len()];
        for (slot, &owner) in (0..SLOTS).zip(&*self.owners) {
            if let Some(share) = shares.get_mut(usize::from(owner)) {
                share.first.get_or_insert(slot);
                share.slots += 1;
            }
        }
        shares
    }
}

/// What one primary has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) slots: u16,
    pub(super) first: Option<u16>,
}

fn slot(value: &Value) -> Option<usize> {
    match value {
        Value::Int(slot) => usize::try_from(*slot)
            .ok()
            .filter(|&slot| slot < usize::from(SLOTS)),
        _ => None,
    }
}

fn address(server: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(server) = server else {
        return None;
    };
    let [host, Value::Int(port), ..] = server.as_slice() else {
        return None;
    };
    let host = match host {
        Value::Nil => "",
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => return None,
    };
    announced(host, u16::try_from(*port).ok()?, asked)
}

fn announced(host: &str, port: u16, asked: &Address) -> Option<Address> {
    match (host, asked) {
        // A server that is to be called by a name and has none.
        ("?", _) | (_, Address::Unix(_)) => None,
        ("", Address::Tcp(host, _)) => Some(Address::Tcp(host.clone(), port)),
        (host, Address::Tcp(..)) => Some(Address::Tcp(host.to_ascii_lowercase(), port)),
    }
}

/// What a server says that does not have the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot has another owner.
    Moved(Address),
    /// The slot is on its way there, and the key is not here: this once, there.
    Ask(Address),
    /// Some of the keys are here and some there.
    TryAgain,
}

impl Redirect {
    /// From the words of the server that was `asked`.
    pub(super) fn read(words: &str, asked: &Address) -> Option<Self> {
        let mut parts = words.split_whitespace();
        let kind = match parts.next()? {
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            "TRYAGAIN" => return Some(Self::TryAgain),
            _ => return None,
        };
        let (host, port) = parts.nth(1)?.rsplit_once(':')?;
        announced(host, port.parse().ok()?, asked).map(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    fn server(host: Value, port: i64) -> Value {
        let id = Value::BulkString(b"07c37dfeb235213a872192d90877d0cd55635b91".into());
        Value::Array(vec![host, Value::Int(port), id, Value::Array(vec![])])
    }

    fn named(host: &str) -> Value {
        Value::BulkString(host.into())
    }

    fn range(first: i64, last: i64, servers: Vec<Value>) -> Value {
        let mut range = vec![Value::Int(first), Value::Int(last)];
        range.extend(servers);
        Value::Array(range)
    }

    #[test]
    fn every_slot_has_the_owner_that_was_said() {
        let answer = Value::Array(vec![
            range(
                0,
                99,
                vec![server(named("Ten.example"), 1), server(named("r"), 4)],
            ),
            range(100, 199, vec![server(named("b"), 2)]),
            range(16_383, 16_383, vec![server(named("ten.example"), 1)]),
        ]);
        let topology = Topology::read(&answer, &at("seed", 9)).expect("a topology");
        assert_eq!(topology.primaries, [at("ten.example", 1), at("b", 2)]);
        assert_eq!(topology.replicas, [at("r", 4)]);
        for (slot, owner) in [
            (0, Some(0)),
            (99, Some(0)),
            (100, Some(1)),
            (199, Some(1)),
            (200, None),
            (16_382, None),
            (16_383, Some(0)),
            (16_384, None),
            (u16::MAX, None),
        ] {
            assert_eq!(topology.owner(slot), owner, "{slot}");
        }
        let share = |slots, first| Share {
            slots,
            first: Some(first),
        };
        assert_eq!(topology.shares(), [share(101, 0), share(100, 100)]);
    }

    #[test]
    fn a_slot_that_has_moved_has_its_new_owner_and_no_other_slot_has() {
        let answer = Value::Array(vec![range(0, 16_383, vec![server(named("a"), 1)])]);
        let before = Topology::read(&answer, &at("seed", 9)).expect("a topology");
        let mut topology = before.clone();
        topology.set_owner(7, &at("b", 2));
        topology.set_owner(8, &at("b", 2));
        topology.set_owner(SLOTS, &at("b", 2));
        assert_eq!(topology.primaries, [at("a", 1), at("b", 2)]);
        assert_eq!(
            [6, 7, 8, 9].map(|slot| topology.owner(slot)),
            [Some(0), Some(1), Some(1), Some(0)]
        );
        assert_eq!(before.owner(7), Some(0));
    }

    #[test]
    fn a_host_without_a_name_is_the_one_that_was_asked() {
        let seed = at("seed", 9);
        for host in [Value::Nil, named("")] {
            let answer = Value::Array(vec![range(0, 16_383, vec![server(host, 7)])]);
            let topology = Topology::read(&answer, &seed).expect("a topology");
            assert_eq!(topology.primaries, [at("seed", 7)]);
        }
        let answer = Value::Array(vec![range(0, 1, vec![server(named("?"), 7)])]);
        assert!(Topology::read(&answer, &seed).is_err());
    }

    #[test]
    fn what_no_server_of_a_cluster_says_is_refused() {
        let many = (0..=1000).map(|port| range(0, 0, vec![server(named("a"), port)]));
        for answer in [
            Value::Nil,
            Value::Okay,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![])]),
            Value::Array(vec![range(0, 1, vec![])]),
            Value::Array(vec![range(0, 16_384, vec![server(named("a"), 1)])]),
            Value::Array(vec![range(-1, 0, vec![server(named("a"), 1)])]),
            Value::Array(vec![range(0, 1, vec![server(named("a"), 65_536)])]),
            Value::Array(vec![range(0, 1, vec![server(Value::Int(1), 1)])]),
            Value::Array(many.collect()),
        ] {
            let read = Topology::read(&answer, &at("seed", 9));
            assert!(read.is_err(), "{answer:?}");
        }
        // Backwards, it is no slot.
        let answer = Value::Array(vec![range(5, 4, vec![server(named("a"), 1)])]);
        let topology = Topology::read(&answer, &at("seed", 9)).expect("a topology");
        assert_eq!(topology.owner(4), None);
    }

    #[test]
    fn redirects_are_read_in_the_words_of_servers() {
        let asked = at("10.0.0.9", 7000);
        for (words, redirect) in [
            (
                "MOVED 3999 127.0.0.1:6381",
                Some(Redirect::Moved(at("127.0.0.1", 6381))),
            ),
            (
                "ASK 3999 Ten.example:6381",
                Some(Redirect::Ask(at("ten.example", 6381))),
            ),
            ("MOVED 1 :6381", Some(Redirect::Moved(at("10.0.0.9", 6381)))),
            ("ASK 1 ::1:6381", Some(Redirect::Ask(at("::1", 6381)))),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Some(Redirect::TryAgain),
            ),
            ("MOVED 1 ?:6381", None),
            ("MOVED 1", None),
            ("MOVED 1 a:65536", None),
            ("MOVED", None),
            ("CLUSTERDOWN The cluster is down", None),
            ("no answer in 50ms", None),
            ("", None),
        ] {
            assert_eq!(Redirect::read(words, &asked), redirect, "{words}");
        }
    }
}
