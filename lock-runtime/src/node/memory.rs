//! A node in this process: the same semantics without a server, for a first try and for users' own tests.
//!
//! Time is tokio's, so that in a test with a paused clock leases run out exactly when they should.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

use super::facts::{Found, Server};
use super::listening::Listening;
use super::seizure::MARK;
use super::sibling;
use super::{
    Acquired, Ask, Extension, Fence, Holder, Kept, Limit, Listener, Node, NodeError, Owner, Raise,
    Released, Reply, Return, Seizure, Standing, Token,
};
use crate::clock;

/// See the [module](self).
pub(crate) struct MemoryNode {
    name: Arc<str>,
    state: Mutex<State>,
    /// By the keys of locks.
    listening: Arc<Listening>,
}

#[derive(Default)]
struct State {
    locks: Expiring<Stored>,
    fences: Expiring<u64>,
}

/// Whose a lock is, in the form in which servers keep it.
#[derive(PartialEq, Eq)]
struct Stored(Owner);

impl Stored {
    fn is(&self, token: &Token) -> bool {
        token.is(&self.0.0)
    }

    fn was(&self, token: &Token) -> bool {
        self.0
            .0
            .strip_prefix(MARK)
            .is_some_and(|owner| token.is(owner))
    }
}

impl From<&Token> for Stored {
    fn from(token: &Token) -> Self {
        Self(token.owner())
    }
}

impl MemoryNode {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(1);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("memory-{number}").into(),
            state: Mutex::default(),
            listening: Arc::default(),
        }
    }

    /// What is there now. A panic elsewhere cannot have left it half written: each change is one call below.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        state.locks.expire(now);
        state.fences.expire(now);
        state
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").finish_non_exhaustive()
    }
}

impl State {
    /// Makes the lock this owner's for a TTL, unless it is somebody else's.
    fn take(
        &mut self,
        key: &Arc<str>,
        token: &Token,
        ttl: Duration,
        fence: Option<&Fence>,
    ) -> Result<Acquired, NodeError> {
        if let Some(stored) = self.locks.get(key)
            && !stored.is(token)
        {
            return Ok(Acquired::Held(stored.0.clone()));
        }
        self.locks.set(key, token.into(), ttl)?;
        match fence {
            Some(fence) => self.remember(fence).map(Acquired::Granted),
            None => Ok(Acquired::Granted(0)),
        }
    }

    fn is_of(&self, key: &Arc<str>, token: &Token) -> bool {
        self.locks.get(key).is_some_and(|stored| stored.is(token))
    }

    fn holder(&self, key: &Arc<str>) -> Option<Holder> {
        let (Stored(owner), expires) = self.locks.by_key.get(key)?;
        Some(Holder {
            owner: owner.clone(),
            remaining: Some(expires.saturating_duration_since(Instant::now())),
        })
    }

    /// Puts the mark where the owner was, for as long as the lock lives.
    fn seize(&mut self, seizure: &Seizure) -> Result<Option<Holder>, NodeError> {
        let before = self.holder(&seizure.key);
        let owner = before.as_ref().map(|holder| &holder.owner);
        let Some(owner) = owner.or(seizure.refused.as_ref()) else {
            return Ok(None);
        };
        let mark = match owner.seized_from() {
            Some(_) => owner.clone(),
            None => Owner([MARK, &owner.0].concat().into()),
        };
        let left = before.as_ref().and_then(|holder| holder.remaining);
        let left = match left {
            Some(left) if seizure.refused.is_some() => left.max(seizure.keep),
            Some(left) => left,
            None => seizure.keep,
        };
        self.locks.set(&seizure.key, Stored(mark), left)?;
        Ok(before)
    }

    /// Stores a fencing token unless a larger one is stored. Answers what was stored before.
    fn remember(&mut self, fence: &Fence) -> Result<u64, NodeError> {
        let stored = self.fences.get(&fence.key).copied().unwrap_or(0);
        if fence.token >= stored {
            self.fences.set(&fence.key, fence.token, fence.ttl)?;
        }
        Ok(stored)
    }
}

impl Node for MemoryNode {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let mut state = self.state();
            // No release can come in between.
            if !ask.commit(position) {
                return Err(NodeError::not_asked("decided without it"));
            }
            if state.is_of(&ask.key, &ask.token) {
                // An earlier request of this attempt was late, and it counts.
                let fence = ask.fence.as_ref().map(|fence| state.remember(fence));
                return fence.unwrap_or(Ok(0)).map(Acquired::Granted);
            }
            state.take(&ask.key, &ask.token, ask.ttl, ask.fence.as_ref())
        })
    }

    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let mut state = self.state();
            if !extension.commit(position) {
                return Err(NodeError::not_asked("the lease has ended"));
            }
            let Extension {
                key,
                token,
                ttl,
                fence,
                ..
            } = &*extension;
            state.take(key, token, *ttl, fence.as_ref())
        })
    }

    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64> {
        let mut state = self.state();
        let stored = if state.is_of(&raise.key, &raise.token) {
            state.remember(&raise.fence)
        } else {
            Err("the lock is not ours there".into())
        };
        Box::pin(ready(stored))
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        let released = self.release_now(&give_back);
        Box::pin(ready(released.ok_or_else(|| "not released".into())))
    }

    fn release_now(&self, give_back: &Return) -> Option<Released> {
        let Return {
            key,
            token,
            keep,
            aloud,
            ..
        } = give_back;
        let mut state = self.state();
        let was_seized = state.locks.get(key).is_some_and(|stored| stored.was(token));
        if !was_seized && !state.is_of(key, token) {
            return Some(Released::NotOurs);
        }
        let keep = keep.filter(|_| !was_seized);
        if keep.is_some_and(|keep| state.locks.set(key, token.into(), keep).is_ok()) {
            return Some(Released::Done { told: 0 });
        }
        state.locks.remove(key);
        drop(state);
        let Some(waited) = *aloud else {
            return Some(Released::Done { told: 0 });
        };
        // Who has the lock does not listen for it, so all of them are others.
        let told = self.listening.tell(key, waited);
        Some(Released::Done { told })
    }

    fn look(self: Arc<Self>, key: Arc<str>, _limit: Limit) -> Reply<Option<Holder>> {
        let holder = self.state().holder(&key);
        Box::pin(ready(Ok(holder)))
    }

    fn listen(self: Arc<Self>, key: Arc<str>, _limit: Limit) -> Reply<Listener> {
        let listener = self.listening.join(&key);
        Box::pin(ready(Ok(listener)))
    }

    fn ping(self: Arc<Self>, _limit: Limit) -> Reply<()> {
        Box::pin(ready(Ok(())))
    }

    /// It loses nothing while its process lives.
    fn standing(self: Arc<Self>, _limit: Limit) -> Reply<Standing> {
        Box::pin(ready(Ok(Standing::Votes)))
    }

    fn inspect(self: Arc<Self>, key: Arc<str>, _limit: Limit) -> Reply<Kept> {
        let state = self.state();
        let kept = Kept {
            holder: state.holder(&key),
            fence: state.fences.get(&sibling::fence(&key)).copied(),
            abstains: None,
        };
        Box::pin(ready(Ok(kept)))
    }

    fn seize(self: Arc<Self>, seizure: Arc<Seizure>) -> Reply<Option<Holder>> {
        let seized = self.state().seize(&seizure);
        Box::pin(ready(seized))
    }

    fn examine(self: Arc<Self>, _limit: Limit) -> Reply<Vec<Server>> {
        let server = Server {
            name: Arc::clone(&self.name),
            found: Found::Embedded,
        };
        Box::pin(ready(Ok(vec![server])))
    }

    fn admit(self: Arc<Self>, _life: Arc<str>, _limit: Limit) -> Reply<()> {
        Box::pin(ready(Ok(())))
    }
}

/// Values that run out, and the order in which they do, so that a key nobody asks for again goes too.
struct Expiring<V> {
    by_key: HashMap<Arc<str>, (V, Instant)>,
    by_expiry: BTreeSet<(Instant, Arc<str>)>,
}

impl<V> Default for Expiring<V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_expiry: BTreeSet::new(),
        }
    }
}

impl<V> Expiring<V> {
    fn get(&self, key: &Arc<str>) -> Option<&V> {
        self.by_key.get(key).map(|(value, _)| value)
    }

    fn set(&mut self, key: &Arc<str>, value: V, ttl: Duration) -> Result<(), NodeError> {
        let expires = clock::now()
            .checked_add(ttl)
            .ok_or_else(|| NodeError::from("TTL out of range"))?;
        self.remove(key);
        self.by_expiry.insert((expires, Arc::clone(key)));
        self.by_key.insert(Arc::clone(key), (value, expires));
        Ok(())
    }

    fn remove(&mut self, key: &Arc<str>) {
        if let Some((_, expires)) = self.by_key.remove(key) {
            self.by_expiry.remove(&(expires, Arc::clone(key)));
        }
    }

    fn expire(&mut self, now: Instant) {
        while self.by_expiry.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.by_expiry.pop_first() {
                self.by_key.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
