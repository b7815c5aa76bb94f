//! Functions of every shape expand without a warning, and do what they did without the lock.
#![deny(warnings, clippy::all, clippy::pedantic)]
// The shapes are what is tested, and some are not how one would write them.
#![allow(
    clippy::needless_pass_by_value,
    clippy::toplevel_ref_arg,
    clippy::unused_async
)]

use std::fmt::{Debug, Display};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};

type Outcome<T> = Result<T, LockError>;

fn locks() -> LockManager {
    LockManager::in_memory()
}

mod receivers {
    use super::*;

    #[derive(Clone)]
    struct Counter {
        name: String,
        count: u64,
        locks: LockManager,
    }

    impl Counter {
        const STEP: u64 = 2;

        #[distributed_lock(key = "{self.name}:{Self::STEP}", ttl = "8s", manager = self.locks)]
        async fn by_reference(&self) -> Outcome<u64> {
            Ok(self.count + Self::STEP)
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_mutable_reference(&mut self, by: u64) -> Outcome<()> {
            self.count += by;
            Ok(())
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_value(self) -> Outcome<String> {
            Ok(self.name)
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_mutable_value(mut self) -> Outcome<String> {
            self.name.push('!');
            Ok(self.name)
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_arc(self: Arc<Self>) -> Outcome<u64> {
            Ok(self.count)
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_box(self: Box<Self>) -> Outcome<u64> {
            Ok(self.count)
        }

        #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
        async fn by_pin(self: Pin<&mut Self>) -> Outcome<u64> {
            Ok(self.count)
        }

        #[distributed_lock(key = "{name}", ttl = "8s", manager = locks)]
        async fn without(name: &str, locks: &LockManager) -> Outcome<Self> {
            Ok(Self {
                name: name.to_owned(),
                count: 1,
                locks: locks.clone(),
            })
        }
    }

    #[tokio::test]
    async fn every_kind_of_self() -> Outcome<()> {
        let mut counter = Counter::without("c", &locks()).await?;
        assert_eq!(counter.by_reference().await?, 3);
        counter.by_mutable_reference(4).await?;
        assert_eq!(Arc::new(counter.clone()).by_arc().await?, 5);
        assert_eq!(Box::new(counter.clone()).by_box().await?, 5);
        assert_eq!(Pin::new(&mut counter).by_pin().await?, 5);
        assert_eq!(counter.clone().by_value().await?, "c");
        assert_eq!(counter.by_mutable_value().await?, "c!");
        Ok(())
    }

    trait Job {
        const NAME: &'static str;

        fn run(&self, id: u64) -> impl Future<Output = Outcome<String>> + Send;

        #[distributed_lock(key = "{Self::NAME}", ttl = "8s", manager = locks())]
        async fn by_default(&self) -> Outcome<&'static str> {
            Ok(Self::NAME)
        }
    }

    impl Job for Counter {
        const NAME: &'static str = "job";

        #[distributed_lock(key = "{self.name}:{id}", ttl = "8s", manager = self.locks)]
        async fn run(&self, id: u64) -> Outcome<String> {
            Ok(format!("{}:{id}", self.name))
        }
    }

    #[tokio::test]
    async fn methods_of_traits() -> Outcome<()> {
        let counter = Counter::without("c", &locks()).await?;
        assert_eq!(counter.run(7).await?, "c:7");
        assert_eq!(counter.by_default().await?, "job");
        Ok(())
    }
}

mod parameters {
    use super::*;

    struct Extracted<T>(T);

    struct Order {
        id: u64,
        tags: Vec<String>,
        pair: (u8, (u8, u8)),
    }

    #[distributed_lock(key = "{id}:{a}{b}:{order_id}:{first}", ttl = "8s", manager = locks())]
    async fn patterns(
        Extracted(id): Extracted<u64>,
        (a, mut b): (u64, u64),
        whole @ 0..=u8::MAX: u8,
        Order { id: order_id, .. }: Order,
        [first, ..]: [u64; 3],
    ) -> Outcome<u64> {
        b += u64::from(whole);
        Ok(id + a + b + order_id + first)
    }

    #[distributed_lock(key = "order", ttl = "8s", manager = locks())]
    async fn bindings(
        mut n: u32,
        _: Order,
        _unused: Order,
        ref text: String,
        #[allow(unused)] allowed: u8,
    ) -> Outcome<u32> {
        n += u32::from(text.is_empty());
        Ok(n)
    }

    #[distributed_lock(key = "order", ttl = "8s", manager = locks())]
    async fn configured(
        #[cfg(any())] missing: Missing,
        #[cfg(not(any()))] present: u8,
    ) -> Outcome<u8> {
        Ok(present)
    }

    #[distributed_lock(key = "{r#type}:{type}:{r#match.0}", ttl = "8s", manager = locks())]
    async fn r#raw(r#type: u8, r#match: (u8,)) -> Outcome<u8> {
        Ok(r#type + r#match.0)
    }

    #[distributed_lock(
        keys = ["{order.id:05}:{order.tags[0]:?}", "{order.pair.1.0}", order.id, "plain"],
        ttl = "8s",
        manager = locks()
    )]
    async fn moved_by_the_body(order: Order) -> Outcome<Vec<String>> {
        Ok(order.tags)
    }

    #[distributed_lock(key = key, ttl = ttl, wait = ttl, hold_at_least = Duration::ZERO, manager = locks())]
    async fn only_in_arguments(key: String, ttl: Duration) -> Outcome<()> {
        Ok(())
    }

    fn order() -> Order {
        Order {
            id: 3,
            tags: vec!["a".to_owned()],
            pair: (1, (2, 3)),
        }
    }

    #[tokio::test]
    async fn every_kind_of_parameter() -> Outcome<()> {
        assert_eq!(
            patterns(Extracted(1), (2, 3), 4, order(), [5, 6, 7]).await?,
            18
        );
        assert_eq!(bindings(1, order(), order(), String::new(), 0).await?, 2);
        assert_eq!(configured(5).await?, 5);
        assert_eq!(r#raw(1, (2,)).await?, 3);
        assert_eq!(moved_by_the_body(order()).await?, ["a"]);
        only_in_arguments("key".to_owned(), Duration::from_secs(8)).await
    }
}

mod generics {
    use super::*;

    #[distributed_lock(key = "{N}:{value:?}", ttl = "8s", manager = locks())]
    async fn generic<'a, T, const N: usize>(
        value: &'a T,
        len: impl Fn(&T) -> usize,
    ) -> Outcome<(&'a T, usize)>
    where
        T: Debug + ?Sized + 'a,
    {
        Ok((value, len(value) + N))
    }

    #[distributed_lock(key = "elided", ttl = "8s", manager = locks())]
    async fn elided(text: &str) -> Outcome<std::borrow::Cow<'_, str>> {
        Ok(text.into())
    }

    #[tokio::test]
    async fn generics_and_lifetimes() -> Outcome<()> {
        assert_eq!(generic::<str, 2>("abc", str::len).await?, ("abc", 5));
        assert_eq!(elided("abc").await?, "abc");
        Ok(())
    }
}

mod returns {
    use super::*;

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn early(value: &str) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        if value.is_empty() {
            return Ok(0);
        }
        if value == "x" {
            Err("is x")?;
        }
        Ok(value.parse()?)
    }

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn coerced(value: u8) -> std::io::Result<Box<dyn Fn() -> u8 + Send>> {
        Ok(Box::new(move || value))
    }

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn partly_hidden(value: u8) -> Result<impl Display + use<>, LockError> {
        Ok(value)
    }

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn hidden(value: u8) -> impl Debug {
        if value == 0 {
            return Err(std::io::Error::other("zero"));
        }
        Ok(value)
    }

    #[distributed_lock(key = "r", ttl = "8s", on_busy = skip, manager = locks())]
    async fn nothing() {}

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn tail_temporary(cell: std::cell::RefCell<String>) -> Outcome<usize> {
        Ok(cell.borrow().len())
    }

    #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
    async fn diverging() -> Outcome<u8> {
        unimplemented!("on purpose")
    }

    #[distributed_lock(key = "{n}", ttl = "8s", manager = locks)]
    async fn recursive(n: u8, locks: &LockManager) -> Outcome<u8> {
        if n == 0 {
            Ok(0)
        } else {
            Ok(1 + Box::pin(recursive(n - 1, locks)).await?)
        }
    }

    #[tokio::test]
    async fn every_kind_of_return() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        assert_eq!(early("").await?, 0);
        assert_eq!(early("8").await?, 8);
        assert_eq!(early("x").await.unwrap_err().to_string(), "is x");
        assert!(early("y").await.is_err());
        assert_eq!(coerced(8).await?(), 8);
        assert_eq!(partly_hidden(8).await?.to_string(), "8");
        assert_eq!(format!("{:?}", hidden(8).await), "Ok(8)");
        nothing().await;
        assert_eq!(tail_temporary(String::from("abc").into()).await?, 3);
        let panicked = tokio::spawn(diverging()).await.unwrap_err();
        assert!(panicked.is_panic());
        assert_eq!(recursive(2, &locks()).await?, 2);
        Ok(())
    }
}

mod futures {
    use super::*;

    #[distributed_lock(key = "f:{text}", ttl = "8s", manager = locks())]
    fn boxed<'a>(text: &'a str) -> Pin<Box<dyn Future<Output = Outcome<&'a str>> + Send + 'a>> {
        let text = text.trim();
        Box::pin(async move { Ok(text) })
    }

    #[distributed_lock(key = "f", ttl = "8s", manager = locks())]
    fn hidden(value: u8) -> impl Future<Output = Outcome<u8>> + Send {
        async move { Ok(value) }
    }

    fn is_send(future: impl Future<Output = Outcome<u8>> + Send) {
        drop(future);
    }

    #[distributed_lock(key = "f", ttl = "8s", manager = locks())]
    async fn sendable(value: u8) -> Outcome<u8> {
        tokio::task::yield_now().await;
        Ok(value)
    }

    #[distributed_lock(key = "f", ttl = "8s", manager = locks())]
    async fn not_sendable(value: std::rc::Rc<u8>) -> Outcome<u8> {
        tokio::task::yield_now().await;
        Ok(*value)
    }

    #[tokio::test]
    async fn functions_that_give_back_a_future() -> Outcome<()> {
        assert_eq!(boxed(" a ").await?, "a");
        assert_eq!(hidden(8).await?, 8);
        Ok(())
    }

    #[tokio::test]
    async fn what_is_send_stays_so_and_what_is_not_compiles() -> Outcome<()> {
        is_send(sendable(8));
        is_send(hidden(8));
        assert_eq!(not_sendable(8.into()).await?, 8);
        Ok(())
    }
}

mod attributes {
    use super::*;

    /// Documented above
    #[must_use]
    #[distributed_lock(key = "outer:{id}", ttl = "8s", manager = locks())]
    #[distributed_lock(key = "inner:{id}", ttl = "8s", manager = locks())]
    /// and below.
    #[inline]
    async fn stacked(id: u8) -> Outcome<u8> {
        #![allow(unused_variables)]
        use std::collections::BTreeMap;
        const STEP: u8 = 1;
        let unused = BTreeMap::<u8, u8>::new();
        Ok(id + STEP)
    }

    #[distributed_lock(key = "main", ttl = "8s", manager = locks())]
    #[tokio::test]
    async fn above_a_test() -> Outcome<()> {
        assert_eq!(stacked(7).await?, 8);
        Ok(())
    }

    macro_rules! guarded {
        ($(#[$attr:meta])* $vis:vis $name:ident($param:ident), $key:literal, $ttl:expr, $ret:ty, $body:block) => {
            $(#[$attr])*
            #[distributed_lock(key = $key, ttl = $ttl, manager = locks())]
            $vis async fn $name($param: u8) -> $ret $body
        };
    }

    guarded!(/** Documented. */ pub(super) made(id), "made:{id}", "8s", Outcome<u8>, { Ok(id) });
    guarded!(
        hidden(id),
        "made:{id}",
        Duration::from_secs(8),
        Outcome<impl Display>,
        { Ok(id) }
    );

    #[tokio::test]
    async fn made_by_macros() -> Outcome<()> {
        assert_eq!(made(8).await?, 8);
        assert_eq!(hidden(8).await?.to_string(), "8");
        Ok(())
    }
}

mod leases {
    use super::*;

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
}
