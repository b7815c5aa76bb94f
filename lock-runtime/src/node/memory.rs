//! A node in this process: the same semantics without a server, for a first try and for users' own tests.
//!
//! Time is tokio's, so that in a test with a paused clock leases run out exactly when they should.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

use super::{Acquired, Ask, Holder, Limit, Node, NodeError, Owner, Released, Reply, Return, Token};

/// See the [module](self).
pub(crate) struct MemoryNode {
    name: Arc<str>,
    locks: Mutex<Locks>,
}

impl MemoryNode {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(1);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("memory-{number}").into(),
            locks: Mutex::default(),
        }
    }

    /// The locks as they are now. A panic elsewhere cannot have left them half written: each change is one call below.
    fn locks(&self) -> MutexGuard<'_, Locks> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.expire(Instant::now());
        locks
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").finish_non_exhaustive()
    }
}

impl Node for MemoryNode {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            if !ask.commit(position) {
                return Err(NodeError::from("decided without it"));
            }
            let mut locks = self.locks();
            if let Some(lock) = locks.by_key.get(&ask.key) {
                return Ok(Acquired::found(lock.token.as_bytes(), ask.token));
            }
            let expires = Instant::now()
                .checked_add(ask.ttl)
                .ok_or_else(|| NodeError::from("TTL out of range"))?;
            locks.set(
                &ask.key,
                Lock {
                    token: ask.token,
                    expires,
                },
            );
            Ok(Acquired::Granted)
        })
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        let released = self.release_now(&give_back);
        Box::pin(ready(released.ok_or_else(|| "not released".into())))
    }

    fn release_now(&self, give_back: &Return) -> Option<Released> {
        let Return {
            key, token, keep, ..
        } = give_back;
        let mut locks = self.locks();
        if locks
            .by_key
            .get(key)
            .is_none_or(|lock| lock.token != *token)
        {
            return Some(Released::NotOurs);
        }
        match keep.and_then(|keep| Instant::now().checked_add(keep)) {
            Some(expires) => locks.set(
                key,
                Lock {
                    token: *token,
                    expires,
                },
            ),
            None => locks.remove(key),
        }
        Some(Released::Done)
    }

    fn look(self: Arc<Self>, key: Arc<str>, _limit: Limit) -> Reply<Option<Holder>> {
        let holder = self.locks().by_key.get(&key).map(|lock| Holder {
            owner: Owner(lock.token.as_bytes().into()),
            remaining: Some(lock.expires.saturating_duration_since(Instant::now())),
        });
        Box::pin(ready(Ok(holder)))
    }

    fn ping(self: Arc<Self>, _limit: Limit) -> Reply<()> {
        Box::pin(ready(Ok(())))
    }
}

#[derive(Clone, Copy)]
struct Lock {
    token: Token,
    expires: Instant,
}

/// The locks, and the order in which they run out, so that a key nobody asks for again goes too.
#[derive(Default)]
struct Locks {
    by_key: HashMap<Arc<str>, Lock>,
    by_expiry: BTreeSet<(Instant, Arc<str>)>,
}

impl Locks {
    fn set(&mut self, key: &Arc<str>, lock: Lock) {
        self.remove(key);
        self.by_expiry.insert((lock.expires, Arc::clone(key)));
        self.by_key.insert(Arc::clone(key), lock);
    }

    fn remove(&mut self, key: &Arc<str>) {
        if let Some(lock) = self.by_key.remove(key) {
            self.by_expiry.remove(&(lock.expires, Arc::clone(key)));
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

    use super::*;

    fn ask(key: &str, ttl: Duration) -> Arc<Ask> {
        Arc::new(Ask {
            key: key.into(),
            token: Token::fresh().expect("random"),
            ttl,
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
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted));
        tokio::time::advance(Duration::from_millis(99)).await;
        let theirs = ask("k", Duration::from_millis(100));
        assert_eq!(
            take(&node, &theirs).await,
            Ok(Acquired::found(mine.token.as_bytes(), theirs.token))
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(owner(&node, "other").await, None);
        assert_eq!(
            node.locks().by_key.len(),
            0,
            "a look at any key expires all"
        );
        assert_eq!(take(&node, &theirs).await, Ok(Acquired::Granted));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_owner_releases_and_keeping_shortens_the_life() {
        let node = Arc::new(MemoryNode::new());
        let mine = ask("k", Duration::from_secs(10));
        let stranger = Token::fresh().expect("random");
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted));
        assert_eq!(
            node.release_now(&give_back(&mine, stranger, None)),
            Some(Released::NotOurs)
        );
        let keep = Duration::from_secs(1);
        assert_eq!(
            node.release_now(&give_back(&mine, mine.token, Some(keep))),
            Some(Released::Done)
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

    #[tokio::test]
    async fn a_request_that_was_decided_without_it_takes_nothing() {
        let node = Arc::new(MemoryNode::new());
        let late = ask("k", Duration::from_secs(10));
        late.ledger.close();
        assert!(take(&node, &late).await.is_err());
        assert_eq!(owner(&node, "k").await, None);
    }
}
