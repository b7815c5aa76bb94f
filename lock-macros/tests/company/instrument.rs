//! `#[tracing::instrument]`: which of the two is inside decides whether the span covers waiting for the lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lock_runtime::distributed_lock;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, instrument};

use crate::{LockManager, Outcome, holds};

#[distributed_lock(key = "order:{id}", ttl = "8s", manager = locks)]
#[instrument(skip(locks), err)]
async fn lock_above(locks: &LockManager, id: u64) -> Outcome<u64> {
    tokio::task::yield_now().await;
    holds("order:7");
    Ok(id)
}

#[instrument(skip(locks), fields(order = id), ret)]
#[distributed_lock(key = "order:{id}", ttl = "8s", manager = locks)]
async fn lock_below(locks: &LockManager, id: u64) -> Outcome<u64> {
    tokio::task::yield_now().await;
    holds("order:7");
    Ok(id)
}

struct Shop {
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(key = "{order.0}", ttl = "8s", manager = self.locks)]
    #[instrument(skip_all)]
    async fn method_above(&self, order: (u64, String), mut more: Vec<u64>) -> Outcome<Vec<u64>> {
        holds("7");
        more.push(order.0);
        Ok(more)
    }

    #[instrument(skip_all)]
    #[distributed_lock(key = "{order.0}", ttl = "8s", manager = self.locks)]
    async fn method_below(&self, order: (u64, String), mut more: Vec<u64>) -> Outcome<Vec<u64>> {
        holds("7");
        more.push(order.0);
        Ok(more)
    }
}

#[tokio::test]
async fn both_orders_run_with_the_lock_held() -> Outcome<()> {
    let locks = LockManager::in_memory();
    assert_eq!(lock_above(&locks, 7).await?, 7);
    assert_eq!(lock_below(&locks, 7).await?, 7);
    let shop = Shop { locks };
    let order = || (7, "seven".to_owned());
    assert_eq!(shop.method_above(order(), vec![6]).await?, [6, 7]);
    assert_eq!(shop.method_below(order(), vec![6]).await?, [6, 7]);
    assert_eq!(shop.locks.stats().acquired, 4);
    Ok(())
}

/// Counts the spans with the name of one of the functions above.
#[derive(Default)]
struct Spans {
    last: AtomicU64,
    named: Mutex<Vec<&'static str>>,
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name().starts_with("lock_")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut named = self.0.named.lock().expect("nobody panics");
        named.push(span.metadata().name());
        Id::from_u64(self.0.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Seen(Arc<Spans>);

#[tokio::test]
async fn the_span_of_the_lower_one_covers_the_refusal() -> Outcome<()> {
    let locks = LockManager::in_memory();
    let request = locks.lock("order:7").ttl(std::time::Duration::from_secs(8));
    let _lease = request.acquire().await?;
    let spans = Arc::<Spans>::default();
    let _default = tracing::subscriber::set_default(Seen(Arc::clone(&spans)));
    assert!(lock_above(&locks, 7).await.is_err());
    assert!(lock_below(&locks, 7).await.is_err());
    let named = spans.named.lock().expect("nobody panics").clone();
    assert_eq!(named, ["lock_above"]);
    Ok(())
}
