//! A Redis Cluster as one node: its servers share the keys, and a request goes to the one that has the slot of its key.
//!
//! Which server has which slot is asked in the background ([`refresh`]), and there are connections to all that have some.
//! Where that is out of date, servers send a request on ([`travel`]): it was not executed then, and is sent again within
//! its time, but only after its caller was asked once more whether it still wants it, as another one may have decided
//! meanwhile that nothing is sent any more.
//!
//! # A release finds what the acquire before it left
//!
//! A request reaches the slot's owner over that server's one connection for the key, however it was sent there: members
//! of a cluster are told apart by the address that the cluster announces, so a server is not known twice. Let an acquire be on
//! its way when its release is handed over.
//!
//! - Both go to the same server: the acquire is before the release, on one connection.
//! - The acquire was sent on, and the release is not yet: it comes to the server that does not have the slot any more, and
//!   is sent on the same way, and behind the acquire.
//! - The acquire is not sent on any more once its release was handed over: the ledger is closed by then. What is under way to a
//!   server that has lost the slot is not executed there.
//! - The release does not find its way in time: it is sent again until it is confirmed, or the lock's TTL has ended it.
//!
//! What remains: an owner that was cut off from the others and does not know yet that it was replaced may execute what comes
//! to it. It forgets all that when it is one of them again.
//!
//! # Where a lock is
//!
//! The keys of a lock are in one slot ([`sibling`]). Who waits for it listens on the owner of that slot, as
//! only those who listen there are counted by whoever releases it; when the slot has moved he is told, and listens anew.
//!
//! What is published goes to all servers of a cluster: measured on Redis 7.0, it takes a release's server 2.5 µs of processor
//! time instead of 1.4 and each other server 1.3 µs in a cluster of three, and 6.8 µs instead of 1.7 in one of twelve. So a release
//! is published only if somebody listens where the lock is, which costs 0.5 µs to find out. It is `PUBLISH` and not
//! `SPUBLISH`, which servers before 7.0 do not know and which needs the channel to be in the slot of its lock: those of keys with
//! odd braces are not. Who has not been told yet that the slot has moved does not hear of a release, and finds out when he asks again.
//!
//! While a slot moves, servers answer nothing about keys that are not all in one place (`TRYAGAIN`). A lock that is held with a
//! fencing token is renewed without it then, so it lives on. One that is free cannot be taken with a token until the move of its slot is
//! over, without one it can.
//!
//! # When it votes
//!
//! Each server votes for its own keys: where one is down, its keys have no vote of this node, and all others do. Asked as a
//! whole, the cluster answers a ping when servers with more than half of the slots would vote.
//!
//! Each remembers that it votes under a key in a slot of its own. If that slot moves, it may forget, and have to wait after its
//! next connection, as a server does that remembers another life.

mod refresh;
mod standing;
mod topology;
mod travel;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::address::Address;
use super::connections::Work;
use super::pool::Slot;
use super::sibling;
use super::target::{Membership, Place, Target, marker_in_slot};
use super::trouble::Trouble;
use super::{Limit, NodeError};

pub(super) use travel::Travel;

use topology::{MOST_SERVERS, Topology};

/// How long a server that others send requests to is remembered that has no slots.
const WITHOUT_SLOTS: Duration = Duration::from_secs(60);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Cluster {
    /// What is the same for all servers.
    target: Target,
    /// Some of the servers, as the user names them.
    seeds: Vec<Address>,
    connections: usize,
    known: watch::Sender<Known>,
    members: Mutex<BTreeMap<Address, Arc<Member>>>,
    /// To be run, each in a task of its own. No more wait here than there are connections, and they are taken at once.
    works: mpsc::UnboundedSender<Work>,
    /// There may be more to know.
    trouble: Arc<Notify>,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default)]
struct Known {
    map: Option<Arc<Map>>,
    /// Why there is none.
    trouble: Option<Trouble>,
}

/// Who has which slots.
#[derive(Clone, Debug)]
struct Map {
    topology: Topology,
    /// The primaries, in the order of the topology.
    members: Vec<Arc<Member>>,
}

/// A server of the cluster, and the connections to it.
#[derive(Debug)]
pub(super) struct Member {
    address: Address,
    target: Arc<Target>,
    slots: Box<[Slot]>,
    /// When a request was sent on to it last.
    sent_on: Mutex<Option<Instant>>,
}

impl Cluster {
    /// A cluster, and the work that is to be run for it.
    pub(super) fn new(
        target: Target,
        seeds: Vec<Address>,
        connections: usize,
    ) -> (Arc<Self>, Vec<Work>) {
        let (works, mut to_run) = mpsc::unbounded_channel::<Work>();
        let trouble = Arc::new(Notify::new());
        let cluster = Arc::new(Self {
            target,
            seeds,
            connections,
            known: watch::Sender::default(),
            members: Mutex::default(),
            works,
            trouble: Arc::clone(&trouble),
        });
        let run = async move {
            while let Some(work) = to_run.recv().await {
                tokio::spawn(work);
            }
        };
        let follow = refresh::follow(Arc::downgrade(&cluster), trouble);
        (cluster, vec![Box::pin(run), Box::pin(follow)])
    }

    /// The way of a request for this key.
    pub(super) fn travel<'a>(self: &'a Arc<Self>, key: &'a str) -> Travel<'a> {
        Travel::new(self, key)
    }

    /// The map, as soon as there is one.
    async fn map(&self, limit: &Limit) -> Result<Arc<Map>, NodeError> {
        let map = self.known_map(limit).await;
        map.map_err(|trouble| NodeError::unreachable(trouble.reason))
    }

    /// The same, or what stands in the way of it.
    async fn known_map(&self, limit: &Limit) -> Result<Arc<Map>, Trouble> {
        let now = self.known.borrow().clone();
        let known = if now.map.is_some() || now.trouble.is_some() {
            now
        } else {
            let mut known = self.known.subscribe();
            let settled = |known: &Known| known.map.is_some() || known.trouble.is_some();
            match timeout_at(limit.at(), known.wait_for(settled)).await {
                Ok(Ok(known)) => known.clone(),
                Ok(Err(_)) | Err(_) => return Err("not connected yet".into()),
            }
        };
        match (known.map, known.trouble) {
            (Some(map), _) => Ok(map),
            (None, trouble) => Err(trouble.unwrap_or_else(|| "not connected yet".into())),
        }
    }

    fn target_at(&self, address: &Address, marker: String, slot: Option<u16>) -> Target {
        Target {
            name: format!("{address} of cluster {}", self.target.name).into(),
            place: Place::Server(address.clone()),
            marker,
            member: Some(Membership {
                trouble: Arc::clone(&self.trouble),
                slot,
            }),
            ..self.target.clone()
        }
    }

    /// The server at an address, known from now on if it was not; a slot that it has, or is to have. `None`: there are too many.
    fn member(&self, address: &Address, slot: u16) -> Option<Arc<Member>> {
        self.member_of(MOST_SERVERS, address, slot)
    }

    /// The same, if it is one of so many at the most.
    fn member_of(&self, most: usize, address: &Address, slot: u16) -> Option<Arc<Member>> {
        let mut members = self.members();
        if let Some(member) = members.get(address) {
            return Some(Arc::clone(member));
        }
        if members.len() >= most {
            return None;
        }
        let marker = match self.target.max_ttl {
            Some(_) => marker_in_slot(self.target.prefix(), slot),
            None => self.target.marker.clone(),
        };
        let target = Arc::new(self.target_at(address, marker, Some(slot)));
        let mut slots = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let (slot, work) = Slot::of(Arc::clone(&target), None);
            slots.push(slot);
            // Whoever runs it has gone only with the manager.
            let _ = self.works.send(Box::pin(work));
        }
        let member = Arc::new(Member {
            address: address.clone(),
            target,
            slots: slots.into(),
            sent_on: Mutex::default(),
        });
        members.insert(address.clone(), Arc::clone(&member));
        Some(member)
    }

    /// A server to which a request was sent on.
    fn sent_on(&self, address: &Address, slot: u16) -> Option<Arc<Member>> {
        let member = self.member(address, slot)?;
        *lock(&member.sent_on) = Some(Instant::now());
        Some(member)
    }

    /// A slot has another owner, as one server says. All is asked for anew, and until then it is believed.
    fn moved(&self, address: &Address, slot: u16) -> Option<Arc<Member>> {
        let member = self.sent_on(address, slot)?;
        let mut left = None;
        self.known.send_if_modified(|known| {
            let Some(map) = &mut known.map else {
                return false;
            };
            let owner = map.owner(slot);
            if owner.is_some_and(|owner| owner.address == *address) {
                return false;
            }
            left = owner.cloned();
            let map = Arc::make_mut(map);
            map.topology.set_owner(slot, address);
            if map.members.len() < map.topology.primaries.len() {
                map.members.push(Arc::clone(&member));
            }
            true
        });
        if let Some(old) = left {
            old.leave_channels(|channel| sibling::slot(channel) == slot);
        }
        self.trouble.notify_one();
        Some(member)
    }

    /// What a server says of the whole: from now on it is the map.
    ///
    /// # Errors
    ///
    /// There are too many servers, with those to which requests were sent on a moment ago.
    fn learn(&self, topology: Topology) -> Result<(), Trouble> {
        let servers = topology.primaries.len();
        let is_another = |(address, member): &(&Address, &Arc<Member>)| {
            member.was_sent_to() && !topology.primaries.contains(address)
        };
        let others = self.members().iter().filter(is_another).count();
        if servers + others > MOST_SERVERS {
            return Err(format!(
                "its servers are too many: {servers} have slots, and requests were sent on to {others} others, where {MOST_SERVERS} \
                 are the most"
            )
            .into());
        }
        let shares = topology.shares();
        // Those that have gone are still there: they are on the map until there is another.
        let members: Vec<_> = topology
            .primaries
            .iter()
            .zip(&shares)
            .filter_map(|(address, share)| {
                self.member_of(2 * MOST_SERVERS, address, share.first.unwrap_or(0))
            })
            .collect();
        if members.len() < servers {
            return Err("its servers have changed too often in too little time".into());
        }
        let map = Arc::new(Map { topology, members });
        let before = self.known.send_replace(Known {
            map: Some(Arc::clone(&map)),
            trouble: None,
        });
        let gone = self.forget(&map);
        for member in &gone {
            member.leave_channels(|_| true);
        }
        for member in before.map.iter().flat_map(|before| &before.members) {
            member.leave_channels(|channel| {
                let slot = sibling::slot(channel);
                let was_here = before.map.as_ref().and_then(|before| before.owner(slot));
                let is_here = map
                    .owner(slot)
                    .is_some_and(|owner| Arc::ptr_eq(owner, member));
                was_here.is_some_and(|owner| Arc::ptr_eq(owner, member)) && !is_here
            });
        }
        Ok(())
    }

    /// Forgets servers that are not on the map, and closes the connections to them.
    fn forget(&self, map: &Map) -> Vec<Arc<Member>> {
        let mut gone = Vec::new();
        self.members().retain(|address, member| {
            let stays = map.topology.primaries.contains(address) || member.was_sent_to();
            if !stays {
                gone.push(Arc::clone(member));
            }
            stays
        });
        gone
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<Address, Arc<Member>>> {
        lock(&self.members)
    }
}

impl Drop for Cluster {
    /// Whoever follows the cluster learns that there is none any more.
    fn drop(&mut self) {
        self.trouble.notify_one();
    }
}

impl Map {
    fn owner(&self, slot: u16) -> Option<&Arc<Member>> {
        self.members.get(self.topology.owner(slot)?)
    }
}

impl Member {
    fn is_ready(&self) -> bool {
        self.slots.iter().all(Slot::is_ready)
    }

    /// Whether a request was sent on to it not long ago.
    fn was_sent_to(&self) -> bool {
        let sent_on = *lock(&self.sent_on);
        sent_on.is_some_and(|at| at.elapsed() < WITHOUT_SLOTS)
    }

    /// Who listens here for what is published of a lock may hear more of it elsewhere.
    fn leave_channels(&self, left: impl Fn(&str) -> bool) {
        for slot in &self.slots {
            slot.listening.send_away(&left);
        }
    }
}

/// A panic elsewhere cannot have left it half written: nothing in between can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
