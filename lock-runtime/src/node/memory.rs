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
    fn is(&self, token: Token) -> bool {
        *self.0.0 == *token.as_bytes()
    }

    fn was(&self, token: Token) -> bool {
        self.0.0.strip_prefix(MARK) == Some(token.as_bytes())
    }
}

impl From<Token> for Stored {
    fn from(token: Token) -> Self {
        Self(Owner(token.as_bytes().into()))
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
        token: Token,
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

    fn is_of(&self, key: &Arc<str>, token: Token) -> bool {
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
        let left = left.unwrap_or(seizure.keep);
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
                return Err(NodeError::from("decided without it"));
            }
            if state.is_of(&ask.key, ask.token) {
                // An earlier request of this attempt was late, and it counts.
                let fence = ask.fence.as_ref().map(|fence| state.remember(fence));
                return fence.unwrap_or(Ok(0)).map(Acquired::Granted);
            }
            state.take(&ask.key, ask.token, ask.ttl, ask.fence.as_ref())
        })
    }

    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let mut state = self.state();
            if !extension.commit(position) {
                return Err(NodeError::from("the lease has ended"));
            }
            let Extension {
                key,
                token,
                ttl,
                fence,
                ..
            } = &*extension;
            state.take(key, *token, *ttl, fence.as_ref())
        })
    }

    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64> {
        let mut state = self.state();
        let stored = if state.is_of(&raise.key, raise.token) {
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
        let was_seized = state
            .locks
            .get(key)
            .is_some_and(|stored| stored.was(*token));
        if !was_seized && !state.is_of(key, *token) {
            return Some(Released::NotOurs);
        }
        let keep = keep.filter(|_| !was_seized);
        if keep.is_some_and(|keep| state.locks.set(key, (*token).into(), keep).is_ok()) {
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
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn ask(key: &str, ttl: Duration) -> Arc<Ask> {
        Arc::new(Ask {
            key: key.into(),
            token: Token::fresh().expect("random"),
            ttl,
            fence: None,
            limit: Limit::within(ttl),
            ledger: Arc::default(),
            command: OnceLock::new(),
        })
    }

    fn give_back(ask: &Ask, token: Token, keep: Option<Duration>) -> Return {
        Return {
            key: Arc::clone(&ask.key),
            token,
            keep,
            aloud: keep.is_none().then_some(Duration::ZERO),
            again: false,
            limit: ask.limit.clone(),
            command: OnceLock::new(),
        }
    }

    async fn take(node: &Arc<MemoryNode>, ask: &Arc<Ask>) -> Result<Acquired, NodeError> {
        Arc::clone(node).acquire(Arc::clone(ask), 0).await
    }

    async fn owner(node: &Arc<MemoryNode>, key: &str) -> Option<Holder> {
        Arc::clone(node)
            .look(key.into(), Limit::within(Duration::ZERO))
            .await
            .expect("memory answers")
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_ends_exactly_at_its_ttl_and_leaves_nothing() {
        let node = Arc::new(MemoryNode::new());
        let mine = ask("k", Duration::from_millis(100));
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
        tokio::time::advance(Duration::from_millis(99)).await;
        let theirs = ask("k", Duration::from_millis(100));
        assert_eq!(
            take(&node, &theirs).await,
            Ok(Acquired::found(mine.token.as_bytes(), theirs.token))
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(owner(&node, "other").await, None);
        assert_eq!(
            node.state().locks.by_key.len(),
            0,
            "a look at any key expires all"
        );
        assert_eq!(take(&node, &theirs).await, Ok(Acquired::Granted(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_owner_releases_and_keeping_shortens_the_life() {
        let node = Arc::new(MemoryNode::new());
        let mine = ask("k", Duration::from_secs(10));
        let stranger = Token::fresh().expect("random");
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
        assert_eq!(
            node.release_now(&give_back(&mine, stranger, None)),
            Some(Released::NotOurs)
        );
        let keep = Duration::from_secs(1);
        assert_eq!(
            node.release_now(&give_back(&mine, mine.token, Some(keep))),
            Some(Released::Done { told: 0 })
        );
        assert_eq!(
            owner(&node, "k").await.and_then(|holder| holder.remaining),
            Some(keep)
        );
        tokio::time::advance(keep).await;
        assert_eq!(owner(&node, "k").await, None);
        assert_eq!(
            node.release_now(&give_back(&mine, mine.token, None)),
            Some(Released::NotOurs)
        );
    }

    async fn listen(node: &Arc<MemoryNode>, key: &str) -> Listener {
        Arc::clone(node)
            .listen(key.into(), Limit::within(Duration::ZERO))
            .await
            .expect("memory answers")
    }

    #[tokio::test(start_paused = true)]
    async fn who_listens_is_told_of_each_release_and_of_nothing_else() {
        const TTL: Duration = Duration::from_secs(10);
        let node = Arc::new(MemoryNode::new());
        let mut listeners = [listen(&node, "k").await, listen(&node, "k").await];
        let mut elsewhere = listen(&node, "other").await;
        let release = |ask: &Ask, keep| node.release_now(&give_back(ask, ask.token, keep));

        let mine = ask("k", TTL);
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
        let kept = release(&mine, Some(TTL / 2));
        assert_eq!(kept, Some(Released::Done { told: 0 }), "nothing is free");
        assert_eq!(listeners[0].heard().now_or_never(), None);
        assert_eq!(release(&mine, None), Some(Released::Done { told: 2 }));
        assert_eq!(release(&mine, None), Some(Released::NotOurs));
        for listener in &mut listeners {
            assert_eq!(listener.heard().now_or_never(), Some(Duration::ZERO));
            assert_eq!(listener.heard().now_or_never(), None, "once");
        }
        assert_eq!(elsewhere.heard().now_or_never(), None);

        let [mut stays, leaves] = listeners;
        drop(leaves);
        for _ in 0..3 {
            assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
            assert_eq!(release(&mine, None), Some(Released::Done { told: 1 }));
        }
        assert_eq!(stays.heard().now_or_never(), Some(Duration::ZERO));
        assert_eq!(stays.heard().now_or_never(), None, "several are one");

        drop((stays, elsewhere));
        assert!(node.listening.is_empty());
    }

    #[tokio::test]
    async fn a_request_that_was_decided_without_it_takes_nothing() {
        let node = Arc::new(MemoryNode::new());
        let late = ask("k", Duration::from_secs(10));
        late.ledger.close();
        assert!(take(&node, &late).await.is_err());
        assert_eq!(owner(&node, "k").await, None);
    }

    /// Renewal and release on different threads: the one comes before the other or not at all.
    #[tokio::test]
    async fn what_is_released_while_its_renewal_waits_for_the_node_is_not_taken_again() {
        let node = Arc::new(MemoryNode::new());
        let mine = ask("k", Duration::from_secs(10));
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
        let extension = Arc::new(Extension {
            key: Arc::clone(&mine.key),
            token: mine.token,
            ttl: mine.ttl,
            fence: None,
            until: Instant::now() + mine.ttl,
            limit: mine.limit.clone(),
            ledger: Arc::default(),
            command: OnceLock::new(),
        });
        let renewing = {
            let mut state = node.state();
            let (renewing, its) = (Arc::clone(&node), Arc::clone(&extension));
            let renewing = std::thread::spawn(move || renewing.extend(its, 0).now_or_never());
            // Nothing tells that it waits. If it comes only later, it is refused in any case.
            std::thread::sleep(Duration::from_millis(20));
            extension.ledger.close();
            state.locks.remove(&mine.key);
            renewing
        };
        let renewed = renewing.join().expect("no panic");
        assert_eq!(renewed, Some(Err("the lease has ended".into())));
        assert_eq!(owner(&node, "k").await, None);
    }
}
