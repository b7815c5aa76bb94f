//! A crate that denies what can be denied. Without its attributes it is clean, so what is reported is ours.
//!
//! The tests put its lints in front.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

#[cfg(not(feature = "plain"))]
use lock_runtime::distributed_lock;
use lock_runtime::{LockError, LockManager};

/// How long an order is locked.
pub const TTL: Duration = Duration::from_secs(8);

/// What can go wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The lock is not ours.
    Lock(LockError),
    /// The order is being paid already.
    InUse(u64),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::InUse(id) => write!(f, "order {id} is in use"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// An order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Order {
    /// Its number.
    pub id: u64,
    /// What it costs.
    pub cents: u64,
}

/// A shop.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shop {
    /// Where it is.
    pub region: String,
    /// Its locks.
    pub locks: LockManager,
}

async fn store(cents: u64) -> u64 {
    std::future::ready(cents).await
}

async fn tick() {
    std::future::ready(()).await;
}

/// Runs on a schedule.
#[cfg_attr(
    not(feature = "plain"),
    distributed_lock(key = "cron", ttl = "30s", hold_at_least = "2s", on_busy = skip)
)]
pub async fn cron() {
    tick().await;
}

/// Pays.
///
/// # Errors
///
/// When the lock is not ours.
#[cfg_attr(
    not(feature = "plain"),
    distributed_lock(key = "order:{order.id:05}", ttl = TTL, wait = "2s")
)]
pub async fn pay(order: Order, mut tries: u32, _traced: bool) -> Result<u64, Failure> {
    tries += 1;
    if order.cents == 0 {
        return Ok(u64::from(tries));
    }
    Ok(store(order.cents).await)
}

/// Transfers.
///
/// # Errors
///
/// When the locks are not ours.
#[cfg_attr(
    not(feature = "plain"),
    distributed_lock(
        keys = ["account:{from}", "account:{to}"],
        ttl = "8s",
        wait = forever,
        on_busy = |_busy| Err(Failure::InUse(from))
    )
)]
pub async fn transfer(from: u64, to: u64, cents: u64) -> Result<(u64, u64), Failure> {
    let moved = store(cents).await;
    Ok((from.wrapping_sub(moved), to.wrapping_add(moved)))
}

/// Reads a pair.
///
/// # Errors
///
/// When the lock is not ours.
#[cfg_attr(
    not(feature = "plain"),
    distributed_lock(key = "pair:{first}", ttl = "8s", on_busy = Ok(None))
)]
pub async fn pair<'a, T>(
    (first, second): (u64, &'a str),
    kind: PhantomData<T>,
) -> Result<Option<(&'a str, PhantomData<T>)>, LockError>
where
    T: Send,
{
    let stored = store(first).await;
    Ok((stored > 0).then_some((second, kind)))
}

impl Shop {
    /// Closes the shop.
    ///
    /// # Errors
    ///
    /// When the lock is not ours.
    #[cfg_attr(
        not(feature = "plain"),
        distributed_lock(
            key = "{self.region}",
            ttl = "8s",
            manager = self.locks,
            name = "shop::close",
            max_hold = "1h",
            on_lost = continue
        )
    )]
    pub async fn close(&mut self, reason: String) -> Result<usize, Failure> {
        tick().await;
        self.region.push_str(&reason);
        Ok(self.region.len())
    }

    /// Counts what is in stock.
    ///
    /// # Errors
    ///
    /// When the lock is not ours.
    #[cfg_attr(
        not(feature = "plain"),
        distributed_lock(key = "stock:{self.region}", ttl = "8s", extend = false)
    )]
    pub async fn count(self: Arc<Self>) -> Result<usize, Failure> {
        tick().await;
        Ok(self.region.len())
    }

    /// As `#[async_trait]` leaves it.
    #[cfg_attr(
        not(feature = "plain"),
        distributed_lock(key = "{self.region}", ttl = "8s", on_busy = skip)
    )]
    #[must_use]
    pub fn boxed<'a>(&'a self) -> Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>> {
        Box::pin(async move { Some(store(self.region.len() as u64).await) })
    }
}

/// Sells.
pub trait Sell {
    /// Sells one.
    fn sell(&self, id: u64) -> impl Future<Output = Result<u64, Failure>> + Send;
}

impl Sell for Shop {
    #[cfg_attr(
        not(feature = "plain"),
        distributed_lock(key = "{self.region}:{id}", ttl = "8s", manager = self.locks)
    )]
    async fn sell(&self, id: u64) -> Result<u64, Failure> {
        let stored = store(id).await;
        if stored == 0 {
            Err(Failure::InUse(id))
        } else {
            Ok(stored)
        }
    }
}

/// What only the attribute has.
#[cfg(not(feature = "plain"))]
pub mod leases {
    use super::{LockError, distributed_lock, store};

    /// Writes with a fence.
    ///
    /// # Errors
    ///
    /// When the lock is not ours.
    #[distributed_lock(key = "account:{id}", ttl = "8s", lease = lease, fenced = true)]
    pub async fn write(id: u64) -> Result<u64, LockError> {
        Ok(store(id).await + lease.fence())
    }
}
