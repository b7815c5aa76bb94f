//! Whoever looks on is anybody's code: it may ask for the lock that it is told of.

use crate::journal::Journal;
use futures_util::FutureExt;
use lock_runtime::{Lease, LockManager};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const TTL: Duration = Duration::from_millis(300);

/// Asks what it likes about a lock at each event of the library above debug level.
#[derive(Clone, Default)]
struct Curious {
    asks: Arc<Mutex<Option<Question>>>,
    events: Arc<AtomicUsize>,
}

type Question = Arc<dyn Fn() + Send + Sync>;

impl Curious {
    fn ask(&self, question: impl Fn() + Send + Sync + 'static) {
        *self.asks.lock().expect("nobody panics with it") = Some(Arc::new(question));
    }
}

impl Subscriber for Curious {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("lock_runtime")
            && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.events.fetch_add(1, Ordering::SeqCst);
        let question = self.asks.lock().expect("nobody panics with it").clone();
        if let Some(question) = question {
            question();
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A lease that is over, and nobody has noticed: the thread of its runtime did something else.
async fn lapsed(locks: &LockManager) -> Arc<Lease> {
    let lease = locks.lock("k").ttl(TTL).extend(false).acquire();
    let lease = Arc::new(lease.await.expect("free"));
    std::thread::sleep(TTL + TTL / 3);
    lease
}

/// On a thread of its own, which is left alone if it does not come back.
fn comes_back(work: impl AsyncFnOnce() + Send + 'static) {
    const DEADLINE: Duration = Duration::from_secs(30);
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(work());
        done.send(()).expect("it is waited for");
    });
    ended.recv_timeout(DEADLINE).expect("it comes back");
}

/// Leaves the lease to somebody who looks on, and whose thread this is.
fn watched(work: impl AsyncFnOnce(&Curious, &LockManager, Arc<Lease>) + Send + 'static) {
    comes_back(async || {
        let curious = Curious::default();
        let _guard = tracing::subscriber::set_default(curious.clone());
        let locks = LockManager::in_memory();
        let lease = lapsed(&locks).await;
        work(&curious, &locks, lease).await;
        assert_eq!(curious.events.load(Ordering::SeqCst), 1);
        curious.ask(|| {});
    });
}

#[test]
fn a_subscriber_that_is_told_of_a_loss_may_look_at_the_lease() {
    watched(async |curious, _, lease| {
        let weak = Arc::downgrade(&lease);
        curious.ask(move || {
            let lease = weak.upgrade().expect("it is kept");
            assert!(lease.is_lost() && lease.remaining().is_zero());
            assert!(format!("{lease:?}").contains("remaining: 0ns"));
        });
        assert!(lease.is_lost());
    });
}

#[test]
fn a_subscriber_may_ask_for_the_lock_while_others_get_in_line() {
    watched(async |curious, locks, lease| {
        let again = locks.clone();
        curious.ask(move || {
            let _ = again.lock("k").ttl(TTL).acquire().now_or_never();
        });
        let _ = locks.lock("k").ttl(TTL).acquire().now_or_never();
        assert!(lease.is_lost());
    });
}

/// He may be in the middle of writing something else, with what he writes to locked.
#[test]
fn nothing_is_written_where_a_lease_is_shown() {
    comes_back(async || {
        let journal = Journal::down_to(Level::TRACE);
        let _guard = tracing::subscriber::set_default(journal.clone());
        let locks = LockManager::in_memory();
        let lease = lapsed(&locks).await;
        let before = journal.events().len();
        assert!(format!("{lease:?}").contains("remaining: 0ns"));
        assert_eq!(journal.events().len(), before);
        assert!(lease.is_lost());
        assert_eq!(journal.events().len(), before + 1);
    });
}
