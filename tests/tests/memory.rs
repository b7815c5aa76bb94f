//! A key that was used once leaves nothing behind: no byte of memory either, whatever its callers did.

use futures_util::{StreamExt, stream};
use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Site, dropped_after};
use peak_alloc::PeakAlloc;
use std::time::Duration;
use tokio::task::yield_now;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const TTL: Duration = Duration::from_secs(60);
const KEPT: Duration = Duration::from_millis(3);
const KEYS: usize = 600;
const AT_A_TIME: usize = 32;
const ROUNDS: usize = 9;

/// A leak makes every round grow by so much for each of its keys, at least. Buffers and tables grow in some rounds only, to
/// the most that was ever in them.
const LEAK: usize = 16 * KEYS;

/// All that can be done with a key, and given up.
async fn use_once(locks: &LockManager, key: &str, fenced: bool) {
    let ask = || locks.lock(key).ttl(TTL).fenced(fenced);
    let lease = ask().wait(DEADLINE).acquire().await.expect("free");
    let busy = ask().acquire().await.expect_err("held");
    assert!(busy.is_busy(), "{busy}");
    let waited = dropped_after(1, ask().wait_forever().acquire()).await;
    assert!(waited.is_none_or(|lease| lease.is_err()));
    lease.extend().await.expect("held");
    lease.release().await.expect("released");
    for polls in 0..3 {
        dropped_after(polls, ask().acquire()).await;
        let call = ask().wait(DEADLINE).run(|_| yield_now());
        dropped_after(polls, call).await;
    }
    let together = locks.lock_all([key, &format!("{key}, another")]).ttl(TTL);
    drop(together.wait(DEADLINE).acquire().await.expect("free"));
    let kept = ask().hold_at_least(KEPT).wait(DEADLINE);
    kept.run(|_| yield_now()).await.expect("free");
}

async fn no_byte_is_left(site: &Site, fenced: bool) {
    let locks = site.manager().await;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let numbers = stream::iter(0..KEYS).map(|number| format!("{round}:{number}"));
        let used = numbers.for_each_concurrent(AT_A_TIME, async |key| {
            use_once(&locks, &key, fenced).await;
        });
        used.await;
        site.idle(&locks, 0).await;
        if let Site::Servers(fleet) = site {
            fleet.assert_no_keys("[^{]*").await;
        } else {
            // Embedded nodes forget what has run out when they are asked for anything.
            tokio::time::sleep(KEPT).await;
            lock_tests::cycle(&locks, "any", TTL).await;
            site.idle(&locks, 0).await;
        }
        rounds.push(ALLOCATED.current_usage());
    }
    println!("bytes after each {KEYS} keys: {rounds:?}");
    let pairs = rounds.windows(2);
    let mut growth: Vec<_> = pairs.map(|pair| pair[1].saturating_sub(pair[0])).collect();
    growth.sort_unstable();
    // The smallest may be one in which a buffer was given back.
    assert!(growth[1] < LEAK, "every round has grown: {rounds:?}");
}

mod heavy {
    use super::*;

    /// In one test, as the count is of all threads of the process.
    #[tokio::test]
    async fn no_byte_is_left_of_keys_that_were_used_once() {
        let before = ALLOCATED.current_usage();
        let strings = (0..KEYS).map(|number| format!("{number:032}"));
        let kept: Vec<_> = strings.collect();
        let counted = ALLOCATED.current_usage().saturating_sub(before);
        assert!(counted > LEAK, "only {counted} bytes are counted");
        drop(kept);

        no_byte_is_left(&Site::embedded(), false).await;
        let site = Site::servers().await;
        for fenced in [false, true] {
            no_byte_is_left(&site, fenced).await;
        }
    }
}
