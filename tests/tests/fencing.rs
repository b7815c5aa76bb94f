//! Fencing tokens: larger for every later holder of a key, whatever the clocks of the holders say.

use lock_runtime::{LockManager, LockManagerBuilder, distributed_lock, memory};
use lock_tests::{DEADLINE, Disk, Fleet, eventually, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(20);

/// A clock that says what it is told, in microseconds since 1970.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, micros: u64) {
        self.0.store(micros, Ordering::SeqCst);
    }

    fn of(&self, builder: LockManagerBuilder) -> LockManager {
        let now = Arc::clone(&self.0);
        let read = move || UNIX_EPOCH + Duration::from_micros(now.load(Ordering::SeqCst));
        builder.wall_clock(read).build().expect("a manager")
    }
}

async fn fence(locks: &LockManager, key: &str) -> u64 {
    let request = locks.lock(key).ttl(TTL).fenced(true).wait(DEADLINE);
    let lease = request.acquire().await.expect("free");
    let fence = lease.fence();
    lease.release().await.expect("released");
    fence
}

/// How many commands took tokens to a server.
fn rounds(fleet: &Fleet) -> u64 {
    let calls = |server: &lock_tests::RedisServer| {
        let stats = server.command_stats();
        stats.get("evalsha").copied().unwrap_or(0) + stats.get("eval").copied().unwrap_or(0)
    };
    fleet.servers().iter().map(calls).max().unwrap_or(0)
}

#[tokio::test]
async fn a_token_is_the_time_and_takes_one_round_while_clocks_agree() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let (ours, theirs) = (fleet.manager(), fleet.manager());
    ready(&ours).await;
    ready(&theirs).await;
    // The first calls teach the servers the scripts.
    let all_five = lock_tests::eventually_async(DEADLINE, "all five were asked", || async {
        let token = fence(&ours, "k").await;
        (fleet.nodes_with("{k}:fence") == 5).then_some(token)
    });
    let before = all_five.await;
    // Nodes that were not waited for are told later.
    fleet.assert_no_keys("k").await;
    for server in fleet.servers() {
        server.reset_command_stats();
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros();
    let ours = fence(&ours, "k").await;
    let theirs = fence(&theirs, "k").await;
    assert!(before < ours && ours < theirs, "{before} {ours} {theirs}");
    let ahead = u128::from(ours).abs_diff(now);
    assert!(ahead < 60_000_000, "{ours} is the time, {now}");
    assert!(i64::try_from(theirs).is_ok());
    assert_eq!(rounds(&fleet), 4, "two acquires and two releases");
}

#[tokio::test]
async fn a_clock_that_is_behind_takes_a_second_round_and_not_a_smaller_token() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let (ahead, behind) = (Clock::default(), Clock::default());
    ahead.set(9_000_000_000);
    behind.set(1_000);
    let (ours, theirs) = (ahead.of(fleet.builder()), behind.of(fleet.builder()));
    ready(&ours).await;
    ready(&theirs).await;
    let first = fence(&ours, "k").await;
    assert_eq!(first, 9_000_000_000);
    assert_eq!(fence(&theirs, "k").await, 9_000_000_001);
    assert_eq!(
        fence(&theirs, "k").await,
        9_000_000_002,
        "it has seen that one"
    );
    // Another key begins with what this client has seen, so its own clock does not matter any more.
    assert!(fence(&theirs, "other").await > 9_000_000_002);
    ahead.set(5);
    assert!(
        fence(&ours, "k").await > 9_000_000_002,
        "a clock that jumped back"
    );
}

#[tokio::test]
async fn a_clock_may_say_anything() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    for now in [
        UNIX_EPOCH,
        UNIX_EPOCH - YEAR * 100,
        UNIX_EPOCH + Duration::from_nanos(1),
        UNIX_EPOCH + YEAR * 250,
    ] {
        let builder = LockManager::builder().node(memory());
        let locks = builder.wall_clock(move || now).build().unwrap();
        let mut before = 0;
        for _ in 0..3 {
            let fence = fence(&locks, "k").await;
            assert!(fence > before && fence < 1 << 53, "{now:?}: {fence}");
            before = fence;
        }
    }
}

/// Nobody is given the same one again.
#[tokio::test]
async fn a_token_that_nothing_is_larger_than_is_given_once() {
    const LARGEST: u64 = 1 << 53;
    let fleet = Fleet::start(3);
    fleet.found().await;
    // As many holders have come after a clock that was at the end of time as there are tokens left.
    for server in fleet.servers() {
        let last_but_one = (LARGEST - 1).to_string();
        let () = server.command(&["SET", "{k}:fence", &last_but_one, "EX", "3600"]);
    }
    let late = Clock::default();
    late.set(LARGEST * 2);
    let (first, second) = (late.of(fleet.builder()), late.of(fleet.builder()));
    assert_eq!(fence(&first, "k").await, LARGEST);
    for locks in [first, second, fleet.manager()] {
        ready(&locks).await;
        let request = locks.lock("k").ttl(TTL);
        let error = request.clone().fenced(true).acquire().await;
        let error = error.expect_err("there is no larger one");
        assert!(error.is_outage(), "{error}");
        assert!(error.to_string().contains("fencing token"), "{error}");
        let plain = request.wait(DEADLINE).acquire().await;
        plain
            .expect("it is free")
            .release()
            .await
            .expect("released");
    }
}

#[tokio::test]
async fn tokens_grow_over_expiry_and_the_loss_of_a_minority() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let clock = Clock::default();
    clock.set(1_000_000);
    let builder = || fleet.builder().max_ttl(Duration::from_secs(3));
    let locks = clock.of(builder());
    ready(&locks).await;
    let expired = locks
        .lock("k")
        .ttl(Duration::from_millis(300))
        .extend(false);
    let expired = expired
        .fenced(true)
        .wait(DEADLINE)
        .acquire()
        .await
        .expect("free");
    let mut last = expired.fence();
    eventually(DEADLINE, "it has run out", || expired.is_lost()).await;
    for lost in [&fleet.servers()[..2], &fleet.servers()[3..]] {
        for server in lost {
            server.kill();
            server.restart(Disk::Lose).await;
        }
        // A client that has seen nothing, with a clock that is behind.
        let behind = Clock::default();
        behind.set(10);
        let locks = behind.of(builder());
        let request = locks
            .lock("k")
            .ttl(Duration::from_secs(2))
            .fenced(true)
            .wait(DEADLINE);
        let lease = request.acquire().await.expect("three of five");
        let later = lease.fence();
        assert!(later > last, "{later} after {last}");
        lease.release().await.expect("three of five");
        // The nodes that were lost are kept out, and then learn the token from the next holder.
        let until_all = lock_tests::eventually_async(DEADLINE, "all five have a token", || async {
            let lease = locks
                .lock("k")
                .ttl(Duration::from_secs(2))
                .fenced(true)
                .wait(DEADLINE);
            let lease = lease.acquire().await.expect("three of five");
            let fences = fleet.nodes_with("{k}:fence");
            let fence = lease.fence();
            lease.release().await.expect("three of five");
            if fences == 5 {
                Ok(fence)
            } else {
                Err(format!("on {fences} nodes"))
            }
        });
        last = until_all.await;
        assert!(last > later, "{last} after {later}");
    }
}

#[tokio::test(start_paused = true)]
async fn embedded_nodes_fence_too_and_several_keys_share_a_token() {
    let clock = Clock::default();
    clock.set(500);
    let node = lock_runtime::memory();
    let ours = clock.of(LockManager::builder().node(node.clone()));
    let behind = Clock::default();
    let theirs = behind.of(LockManager::builder().node(node));
    let first = fence(&ours, "a").await;
    let both = theirs
        .lock_all(["a", "b"])
        .ttl(TTL)
        .fenced(true)
        .acquire()
        .await
        .expect("free");
    assert!(both.fence() > first);
    let shared = both.fence();
    both.release().await.expect("released");
    for key in ["a", "b"] {
        let later = Clock::default().of(LockManager::builder().node(lock_runtime::memory()));
        assert!(
            fence(&later, key).await < shared,
            "another node knows nothing"
        );
        assert!(fence(&theirs, key).await > shared, "{key}");
    }
    // A lease that was not asked to be fenced has a token that every store refuses.
    let plain = ours.lock("c").ttl(TTL).acquire().await.expect("free");
    assert_eq!(plain.fence(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_remembered_as_long_as_it_was_asked_for_and_no_longer() {
    let node = lock_runtime::memory();
    let clock = Clock::default();
    clock.set(1_000_000);
    let remember = Duration::from_secs(120);
    let ours = clock.of(LockManager::builder()
        .node(node.clone())
        .fence_ttl(remember));
    assert_eq!(fence(&ours, "k").await, 1_000_000);
    let behind = Clock::default();
    let theirs = behind.of(LockManager::builder().node(node.clone()));
    tokio::time::advance(Duration::from_secs(119)).await;
    assert_eq!(fence(&theirs, "k").await, 1_000_001);
    tokio::time::advance(Duration::from_secs(25 * 3600)).await;
    let forgotten = Clock::default().of(LockManager::builder().node(node));
    assert_eq!(fence(&forgotten, "k").await, 1, "then only clocks can tell");
}

#[distributed_lock(key = "order:{id}", ttl = "10s", fenced = true, lease = lease, manager = locks)]
async fn write(
    locks: &LockManager,
    id: u32,
    fence: &mut u64,
) -> Result<bool, lock_runtime::LockError> {
    // UPDATE orders SET …, fence = $1 WHERE id = $2 AND fence < $1
    let accepted = *fence < lease.fence();
    *fence = lease.fence();
    Ok(accepted)
}

#[tokio::test]
async fn the_attribute_hands_the_token_to_the_body() {
    let locks = LockManager::in_memory();
    let mut fence = 0;
    for _ in 0..3 {
        assert!(write(&locks, 1, &mut fence).await.expect("free"));
    }
}
