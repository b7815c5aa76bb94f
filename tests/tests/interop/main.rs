//! One lock for services in several languages: what is on the wire is what their libraries write. Their own code runs here, in
//! `tests/interop`.

mod count;
mod neighbour;

use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, eventually_async, ready};
use neighbour::{KEY, Library, Neighbour};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(30);

/// Until somebody is waited for.
const SHORT: Duration = Duration::from_millis(1_500);

async fn meet(library: Library) -> (Fleet, LockManager, Neighbour) {
    let fleet = Fleet::start(library.nodes());
    let locks = fleet.manager();
    ready(&locks).await;
    let theirs = library.start(&fleet).await;
    (fleet, locks, theirs)
}

/// Whoever has it is busy for the other, until he gives it back.
async fn taken_and_given_back(library: Library) {
    let (fleet, locks, mut theirs) = meet(library).await;
    for _ in 0..3 {
        assert!(theirs.acquire(TTL).await);
        let error = locks.lock(KEY).ttl(TTL).acquire().await;
        let error = error.expect_err("it is theirs");
        assert!(error.is_busy(), "{error}");
        assert!(error.retry_after().expect("busy") <= TTL);
        assert!(theirs.release().await, "we have not touched it");

        let lease = locks.lock(KEY).ttl(TTL).wait(DEADLINE).acquire().await;
        let lease = lease.expect("they have given it back");
        assert!(!theirs.acquire(TTL).await, "it is ours");
        assert!(!lease.is_lost());
        lease.release().await.expect("they have not touched it");
        fleet.assert_no_keys("*").await;
    }
    theirs.end().await;
}

/// Whoever dies has it until it runs out, and not longer.
async fn left_to_run_out(library: Library) {
    let (fleet, locks, mut theirs) = meet(library).await;
    let asked = Instant::now();
    assert!(theirs.acquire(SHORT).await);
    theirs.kill();
    let lease = locks.lock(KEY).ttl(TTL).wait(DEADLINE).acquire().await;
    let lease = lease.expect("it has run out");
    assert!(asked.elapsed() >= SHORT, "{:?}", asked.elapsed());
    lease.release().await.expect("nobody else has it");

    let mut theirs = library.start(&fleet).await;
    let asked = Instant::now();
    let lease = locks.lock(KEY).ttl(SHORT).extend(false).acquire().await;
    let lease = lease.expect("nobody has it");
    let what = "theirs when ours has run out";
    loop {
        let has = theirs.acquire(TTL).await;
        let elapsed = asked.elapsed();
        assert!(elapsed < SHORT + DEADLINE, "not {what}");
        if has {
            assert!(elapsed >= SHORT, "theirs while ours is good: {elapsed:?}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(lease.is_lost(), "{what}");
    lease.release().await.expect_err(what);
    let error = locks.lock(KEY).ttl(TTL).acquire().await;
    assert!(error.expect_err(what).is_busy());
    assert!(theirs.release().await, "nor has our release touched it");
    eventually_async(DEADLINE, "it is free again", || async {
        let lease = locks.lock(KEY).ttl(TTL).acquire().await?;
        lease.release().await.expect("nobody else has it");
        Ok::<_, lock_runtime::LockError>(())
    })
    .await;
    theirs.end().await;
    fleet.assert_no_keys("*").await;
}

/// Their release finds that the lock is theirs no more, and does not know the mark that is in its place: that ends with their time.
#[tokio::test]
async fn a_lock_of_redis_py_may_be_taken_by_force_and_ours_next_to_it() {
    let (fleet, locks, mut theirs) = meet(Library::RedisPy).await;
    let asked = Instant::now();
    assert!(theirs.acquire(SHORT).await);
    let forced = locks.force_release(KEY).await.expect("a key");
    assert!(forced.is_complete() && !forced.was_free(), "{forced}");
    assert!(forced.free_in() <= Some(SHORT), "{forced}");
    assert!(!theirs.release().await, "it is theirs no more");
    let lease = locks.lock(KEY).ttl(TTL).wait(DEADLINE).acquire().await;
    let lease = lease.expect("their time is over");
    assert!(asked.elapsed() >= SHORT, "{:?}", asked.elapsed());

    let forced = fleet.manager().force_release(KEY).await.expect("a key");
    assert!(forced.is_complete() && !forced.was_free(), "{forced}");
    assert!(!theirs.acquire(TTL).await, "we do not know of it yet");
    lease.extend().await.expect_err("it is ours no more");
    assert!(lease.is_lost());
    lease.release().await.expect("it ends the mark");
    assert!(theirs.acquire(TTL).await, "and is free at once");
    assert!(theirs.release().await, "nobody has touched it");
    theirs.end().await;
    fleet.assert_no_keys("*").await;
}

macro_rules! neighbours {
    ($($name:ident: $library:ident, $least:literal rounds each;)*) => {
        $(mod $name {
            use super::{Library, count, left_to_run_out, taken_and_given_back};

            const LIBRARY: Library = Library::$library;

            #[tokio::test]
            async fn is_busy_for_us_and_we_for_it() {
                taken_and_given_back(LIBRARY).await;
            }

            #[tokio::test]
            async fn is_waited_out_by_us_and_we_by_it() {
                left_to_run_out(LIBRARY).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn loses_no_update_and_gets_its_share() {
                count::a_thousand_rounds(LIBRARY, $least).await;
            }
        })*
    };
}

neighbours! {
    redis_py: RedisPy, 25 rounds each;
    pottery: Pottery, 25 rounds each;
    redlock: Redlock, 25 rounds each;
    redlock_5: Redlock5, 25 rounds each;
}
