//! What a function under `#[distributed_lock]` does: when its body runs, and what it returns when not.

use lock_runtime::{LockError, LockManager, assert_held, distributed_lock};
use lock_tests::Fleet;
use std::time::Duration;

mod answers {
    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    #[distributed_lock(key = "k", ttl = TTL, manager = locks)]
    async fn failing(locks: &LockManager) -> Result<u32, LockError> {
        Ok(7)
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = skip, manager = locks)]
    async fn silent(locks: &LockManager, ran: &mut bool) {
        *ran = true;
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = skip, manager = locks)]
    async fn optional(locks: &LockManager) -> Option<u32> {
        Some(7)
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = skip, manager = locks)]
    async fn fallible(locks: &LockManager, ran: &mut bool) -> Result<(), LockError> {
        *ran = true;
        Ok(())
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = skip, manager = locks)]
    async fn fallible_optional(locks: &LockManager) -> std::io::Result<Option<u32>> {
        Ok(Some(7))
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = Ok(0), manager = locks)]
    async fn value(locks: &LockManager) -> Result<u32, LockError> {
        Ok(7)
    }

    #[distributed_lock(
        key = "k",
        ttl = "1m",
        on_busy = |busy| Err(Failure(format!("later: {}", busy.is_busy()))),
        manager = locks
    )]
    async fn closure(locks: &LockManager) -> Result<u32, Failure> {
        Ok(7)
    }

    /// An error of the caller's own.
    #[derive(Debug, PartialEq)]
    pub(super) struct Failure(String);

    impl From<LockError> for Failure {
        fn from(error: LockError) -> Self {
            Self(format!("outage: {}", error.is_outage()))
        }
    }

    #[tokio::test]
    async fn of_a_free_lock_are_the_bodys() {
        let locks = LockManager::in_memory();
        let mut ran = false;
        assert_eq!(failing(&locks).await.expect("free"), 7);
        silent(&locks, &mut ran).await;
        assert!(ran);
        assert_eq!(optional(&locks).await, Some(7));
        assert_eq!(fallible_optional(&locks).await.expect("free"), Some(7));
        assert_eq!(value(&locks).await.expect("free"), 7);
        assert_eq!(closure(&locks).await, Ok(7));
        assert_eq!(locks.stats().acquired, 6);
    }

    #[tokio::test]
    async fn of_a_busy_lock_are_what_was_asked_for() {
        let locks = LockManager::in_memory();
        let _lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
        let mut ran = false;
        assert!(failing(&locks).await.expect_err("held").is_busy());
        silent(&locks, &mut ran).await;
        assert_eq!(optional(&locks).await, None);
        fallible(&locks, &mut ran).await.expect("skipped");
        assert_eq!(fallible_optional(&locks).await.expect("skipped"), None);
        assert_eq!(value(&locks).await.expect("the value"), 0);
        assert_eq!(
            closure(&locks).await,
            Err(Failure("later: true".to_owned()))
        );
        assert!(!ran);
        assert_eq!(locks.stats().busy, 7);
    }

    /// An outage is never treated as busy, and the body does not run.
    #[tokio::test]
    async fn of_an_outage_are_errors_or_a_log_and_a_count() {
        let fleet = Fleet::start(1);
        fleet.servers()[0].kill();
        let locks = fleet.manager();
        let mut ran = false;
        assert!(failing(&locks).await.expect_err("down").is_outage());
        silent(&locks, &mut ran).await;
        assert_eq!(optional(&locks).await, None);
        assert!(
            fallible(&locks, &mut ran)
                .await
                .expect_err("down")
                .is_outage()
        );
        fallible_optional(&locks).await.expect_err("down");
        assert!(value(&locks).await.expect_err("down").is_outage());
        assert_eq!(
            closure(&locks).await,
            Err(Failure("outage: true".to_owned()))
        );
        assert!(!ran);
        let stats = locks.stats();
        assert_eq!((stats.no_quorum, stats.busy, stats.acquired), (7, 0, 0));
    }

    #[distributed_lock(key = "k", ttl = "1m", on_busy = skip)]
    async fn unconfigured(ran: &mut bool) {
        *ran = true;
    }

    #[distributed_lock(key = "k", ttl = "1m")]
    async fn unconfigured_fallible(ran: &mut bool) -> Result<(), LockError> {
        *ran = true;
        Ok(())
    }

    /// Nothing in this file installs a manager.
    #[tokio::test]
    async fn without_a_manager_are_errors() {
        let mut ran = false;
        unconfigured(&mut ran).await;
        let error = unconfigured_fallible(&mut ran)
            .await
            .expect_err("no manager");
        assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
        assert!(!ran);
    }

    #[distributed_lock(key = "k", ttl = ttl, manager = locks)]
    async fn with_ttl(locks: &LockManager, ttl: Duration, ran: &mut bool) -> Result<(), LockError> {
        *ran = true;
        Ok(())
    }

    #[distributed_lock(key = key, ttl = "1s", manager = locks)]
    async fn with_key(locks: &LockManager, key: &str, ran: &mut bool) -> Result<(), LockError> {
        *ran = true;
        Ok(())
    }

    #[tokio::test]
    async fn of_what_cannot_be_locked_are_errors() {
        let locks = LockManager::in_memory();
        let mut ran = false;
        for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let error = with_ttl(&locks, ttl, &mut ran).await.expect_err("no TTL");
            assert!(matches!(error, LockError::InvalidTtl { .. }), "{error}");
        }
        for key in ["", " \t", &"x".repeat(2000)] {
            let error = with_key(&locks, key, &mut ran).await.expect_err("no key");
            assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        }
        assert!(!ran);
    }

    #[distributed_lock(key = "k", ttl = "1m", manager = locks)]
    async fn response(locks: &LockManager) -> axum_core::response::Response {
        axum_core::response::IntoResponse::into_response("done")
    }

    #[tokio::test]
    async fn are_429_and_503_where_a_response_is_returned() {
        let locks = LockManager::in_memory();
        assert_eq!(response(&locks).await.status(), 200);
        let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
        let busy = response(&locks).await;
        assert_eq!(busy.status(), 429);
        let seconds: u64 = busy.headers()["retry-after"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!((50..=60).contains(&seconds), "{seconds}");
        drop(lease);

        let fleet = Fleet::start(1);
        fleet.servers()[0].kill();
        let outage = response(&fleet.manager()).await;
        assert_eq!(outage.status(), 503);
        assert!(outage.headers().get("retry-after").is_none());
    }
}

mod keys {
    use super::*;

    struct Order {
        id: u32,
        lines: Vec<String>,
    }

    impl Order {
        fn customer(&self) -> String {
            format!("customer {}", self.id % 10)
        }
    }

    struct Shop {
        region: &'static str,
        locks: LockManager,
    }

    impl Shop {
        #[distributed_lock(
            key = "{self.region}:{order.id:05}:{order.customer()}:{note:?}:{{x}}",
            ttl = "60s",
            manager = self.locks
        )]
        async fn pay(&self, order: Order, note: String) -> Result<String, LockError> {
            drop(order.lines);
            Ok(note)
        }
    }

    #[tokio::test]
    async fn are_made_from_the_parameters_before_the_body_has_them() {
        let locks = LockManager::in_memory();
        let shop = Shop {
            region: "eu",
            locks: locks.clone(),
        };
        let pay = |id| {
            shop.pay(
                Order {
                    id,
                    lines: Vec::new(),
                },
                "a\"b".to_owned(),
            )
        };
        assert_eq!(pay(7).await.expect("free"), "a\"b");
        let key = r#"eu:00007:customer 7:"a\"b":{x}"#;
        let _lease = locks
            .lock(key)
            .ttl(Duration::from_secs(60))
            .acquire()
            .await
            .expect("free");
        let error = pay(7).await.expect_err("held");
        assert_eq!(error.key(), Some(key));
        pay(8).await.expect("another order");
    }

    #[distributed_lock(keys = ["account:{from}", "account:{to}"], ttl = "60s", manager = locks)]
    async fn transfer(locks: &LockManager, from: u32, to: u32) -> Result<usize, LockError> {
        let mut held = 0;
        for account in [from, to] {
            let request = locks
                .lock(format!("account:{account}"))
                .ttl(Duration::from_secs(1));
            let asked_again = request.acquire().await;
            held += usize::from(matches!(asked_again, Err(LockError::AlreadyHeld { .. })));
        }
        Ok(held)
    }

    #[tokio::test]
    async fn taken_together_are_all_held_in_either_order() {
        let locks = LockManager::in_memory();
        for (from, to) in [(1, 2), (2, 1), (1, 1)] {
            assert_eq!(transfer(&locks, from, to).await.expect("free"), 2);
        }
        let request = locks.lock("account:2").ttl(Duration::from_secs(60));
        let _lease = request.acquire().await.expect("free");
        for (from, to) in [(1, 2), (2, 1), (2, 2)] {
            assert!(
                transfer(&locks, from, to)
                    .await
                    .expect_err("held")
                    .is_busy()
            );
        }
        assert_eq!(transfer(&locks, 1, 3).await.expect("free"), 2);
    }
}

mod settings {
    use super::*;
    use tokio::time::Instant;

    #[distributed_lock(key = "k", ttl = "60s", wait = "2s", manager = locks)]
    async fn patient(locks: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "k", ttl = "60s", wait = forever, manager = locks)]
    async fn endless(locks: &LockManager) -> Result<(), LockError> {
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn wait_is_kept() {
        let locks = LockManager::in_memory();
        let _lease = locks
            .lock("k")
            .ttl(Duration::from_secs(60))
            .extend(false)
            .acquire()
            .await
            .expect("free");
        let asked = Instant::now();
        assert!(patient(&locks).await.expect_err("held").is_busy());
        let waited = asked.elapsed();
        assert!(
            waited >= Duration::from_secs(2) && waited < Duration::from_millis(2_010),
            "{waited:?}"
        );
        endless(&locks).await.expect("it runs out");
        assert!(asked.elapsed() >= Duration::from_secs(60));
    }

    #[distributed_lock(key = "tick", ttl = "10s", hold_at_least = "2s", on_busy = skip, manager = locks)]
    async fn tick(locks: &LockManager) -> Option<()> {
        Some(())
    }

    #[tokio::test(start_paused = true)]
    async fn hold_at_least_is_kept() {
        let locks = LockManager::in_memory();
        assert_eq!(tick(&locks).await, Some(()));
        assert_eq!(
            tick(&locks).await,
            None,
            "the other replica's clock is a bit behind"
        );
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(tick(&locks).await, Some(()));
    }

    #[distributed_lock(key = "k", ttl = "1s", extend = false, manager = locks)]
    async fn too_long(locks: &LockManager, finished: &mut bool) -> Result<(), LockError> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        *finished = true;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_outlives_its_lease_is_stopped() {
        let locks = LockManager::in_memory();
        let mut finished = false;
        let error = too_long(&locks, &mut finished).await.expect_err("lost");
        assert!(matches!(error, LockError::Lost { .. }), "{error}");
        assert!(!finished);
    }
}

mod held {
    use super::*;

    async fn guarded_only() -> u32 {
        tokio::task::yield_now().await;
        assert_held();
        7
    }

    #[distributed_lock(key = "k", ttl = "60s", manager = locks)]
    async fn guarded(locks: &LockManager) -> Result<u32, LockError> {
        let (one, other) = tokio::join!(guarded_only(), guarded_only());
        Ok(one + other)
    }

    #[distributed_lock(key = "k", ttl = "60s", manager = locks)]
    async fn spawning(locks: &LockManager) -> Result<bool, LockError> {
        Ok(tokio::spawn(guarded_only()).await.is_err())
    }

    #[tokio::test]
    async fn is_asserted_inside_a_body_and_nowhere_else() {
        let locks = LockManager::in_memory();
        assert_eq!(guarded(&locks).await.expect("free"), 14);
        assert!(
            spawning(&locks).await.expect("free"),
            "a spawned task is outside"
        );
        let outside = tokio::spawn(guarded_only())
            .await
            .expect_err("it must panic");
        assert!(outside.is_panic());
        let _lease = locks
            .lock("k")
            .ttl(Duration::from_secs(60))
            .acquire()
            .await
            .expect("free");
        tokio::spawn(guarded_only())
            .await
            .expect_err("a lease is not a body");
    }

    #[distributed_lock(key = "outer", ttl = "60s", manager = locks)]
    async fn outer(locks: &LockManager) -> Result<u32, LockError> {
        let inner = guarded(locks).await?;
        assert_held();
        Ok(inner)
    }

    #[tokio::test]
    async fn locks_nest_and_each_is_released_once() {
        let fleet = Fleet::start(3);
        let locks = fleet.manager();
        lock_tests::ready(&locks).await;
        assert_eq!(outer(&locks).await.expect("free"), 14);
        fleet.assert_no_keys("*").await;
        assert_eq!(locks.stats().releases_unconfirmed, 0);
    }
}
