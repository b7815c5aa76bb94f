//! `lease = name`, and the other ways to hold.

use std::pin::Pin;
use std::time::Duration;

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, locks};

struct Service {
    locks: LockManager,
    renews: bool,
}

impl Service {
    #[distributed_lock(
        key = "{id}",
        ttl = "8s",
        on_lost = cancel,
        extend = self.renews,
        max_hold = Duration::from_secs(60),
        lease = lease,
        fenced = !self.renews,
        manager = self.locks
    )]
    async fn every_way_to_hold(&self, id: u8) -> Outcome<String> {
        assert!(!lease.is_lost());
        tokio::task::yield_now().await;
        Ok(lease.key().to_owned())
    }

    #[distributed_lock(key = "outer", ttl = "8s", lease = lease, manager = self.locks)]
    async fn nested(&self) -> Outcome<[String; 3]> {
        let before = lease.key().to_owned();
        let inner = self.every_way_to_hold(7).await?;
        Ok([before, inner, lease.key().to_owned()])
    }
}

#[distributed_lock(key = "a:{id}", ttl = "8s", lease = _not_used, manager = locks())]
async fn only_for_its_type(id: u8) -> Outcome<u8> {
    Ok(id)
}

#[distributed_lock(key = "b:{id}", ttl = "8s", lease = lease, manager = locks())]
fn boxed(id: u8) -> Pin<Box<dyn Future<Output = Outcome<usize>> + Send>> {
    Box::pin(async move { Ok(lease.key().len() + usize::from(id)) })
}

#[distributed_lock(key = "above", ttl = "8s", lease = above, manager = locks())]
#[distributed_lock(key = "below", ttl = "8s", lease = below, manager = locks())]
async fn stacked() -> Outcome<(String, String)> {
    Ok((above.key().to_owned(), below.key().to_owned()))
}

macro_rules! leased {
    ($name:ident, $lease:ident, $extend:expr, $body:block) => {
        #[distributed_lock(key = "m", ttl = "8s", lease = $lease, extend = $extend, manager = locks())]
        async fn $name() -> Outcome<String> $body
    };
}

leased!(made, held, false, { Ok(held.key().to_owned()) });

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn the_body_sees_its_own_lease() -> Outcome<()> {
    for renews in [true, false] {
        let service = Service {
            locks: locks(),
            renews,
        };
        let seen = is_send(service.nested()).await?;
        assert_eq!(seen, ["outer", "7", "outer"]);
    }
    assert_eq!(only_for_its_type(8).await?, 8);
    assert_eq!(boxed(8).await?, 11);
    let both = stacked().await?;
    assert_eq!(both, ("above".to_owned(), "below".to_owned()));
    assert_eq!(made().await?, "m");
    Ok(())
}
