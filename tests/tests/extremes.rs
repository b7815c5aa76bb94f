//! Every duration that can be given, at its extremes: what was asked for or a typed error, and never a panic, a lock that
//! does not end, or a wait that does. Run in debug and in release builds; `ttl_and_wait.rs` has what lies between.

use lock_runtime::{ConfigError, LockError, LockManager, LockRequest, memory};
use lock_tests::{DEADLINE, Fleet, eventually};
use std::time::Duration;
use tokio::time::{Instant, advance, timeout};

const MAX_TTL: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(10);
const NANO: Duration = Duration::from_nanos(1);
const MILLI: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// From nothing to what no clock can say.
const EXTREMES: [Duration; 8] = [
    Duration::ZERO,
    NANO,
    Duration::from_nanos(999_999),
    MILLI,
    TTL,
    Duration::from_millis(u64::MAX),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

/// What is asked for. `None`: what is the default.
#[derive(Clone, Copy, Debug)]
struct Asked {
    ttl: Duration,
    wait: Option<Duration>,
    hold_at_least: Option<Duration>,
    max_hold: Option<Duration>,
}

impl Asked {
    fn of(self, locks: &LockManager, key: &str) -> LockRequest {
        let request = locks.lock(key).ttl(self.ttl);
        let request = self.wait.into_iter().fold(request, LockRequest::wait);
        let kept = self.hold_at_least.into_iter();
        let request = kept.fold(request, LockRequest::hold_at_least);
        self.max_hold
            .into_iter()
            .fold(request, LockRequest::max_hold)
    }

    /// Whether it can be had, by what the documentation says.
    fn is_valid(self) -> bool {
        let ttl = Duration::from_millis(3)..=MAX_TTL;
        ttl.contains(&self.ttl)
            && self.hold_at_least.is_none_or(|kept| kept <= MAX_TTL)
            && self.max_hold.is_none_or(|most| most >= self.ttl)
    }

    fn all() -> Vec<Self> {
        let options = || EXTREMES.into_iter().map(Some).chain([None]);
        let mut all = Vec::new();
        for ttl in EXTREMES {
            for wait in options() {
                for hold_at_least in options() {
                    for max_hold in options() {
                        all.push(Self {
                            ttl,
                            wait,
                            hold_at_least,
                            max_hold,
                        });
                    }
                }
            }
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn every_combination_is_granted_or_refused() {
    let locks = LockManager::in_memory();
    let mut granted = 0;
    for asked in Asked::all() {
        let outcome = asked.of(&locks, "k").acquire().await;
        match outcome {
            Ok(lease) => {
                assert!(asked.is_valid(), "granted: {asked:?}");
                assert!(lease.remaining() < asked.ttl && !lease.is_lost());
                lease.extend().await.expect("held");
                let held = Instant::now();
                lease.release().await.expect("released");
                let next = locks.lock("k").ttl(TTL).wait(MAX_TTL).acquire().await;
                next.expect("free in the end")
                    .release()
                    .await
                    .expect("released");
                let kept = asked.hold_at_least.unwrap_or_default();
                assert!(held.elapsed() <= kept + MILLI * 300, "{asked:?}");
                granted += 1;
            }
            Err(LockError::InvalidTtl { .. }) => assert!(!asked.is_valid(), "refused: {asked:?}"),
            Err(error) => panic!("{asked:?}: {error}"),
        }
        let body = asked.of(&locks, "body").run(|_| async { 7 }).await;
        assert_eq!(body.is_ok(), asked.is_valid(), "{asked:?}: {body:?}");
        advance(MAX_TTL).await;
    }
    assert!(granted > 100, "{granted}");
}

/// However long the wait and whatever else is asked for, a lock that stays busy is waited for exactly as long.
#[tokio::test(start_paused = true)]
async fn every_wait_for_a_busy_lock_lasts_as_long_as_was_asked() {
    let locks = LockManager::in_memory();
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    for asked in Asked::all().into_iter().filter(|asked| asked.is_valid()) {
        let began = Instant::now();
        let outcome = timeout(MAX_TTL, asked.of(&locks, "k").acquire()).await;
        let wait = asked.wait.unwrap_or_default();
        match outcome {
            Ok(Err(error)) => {
                assert!(error.is_busy(), "{asked:?}: {error}");
                let waited = began.elapsed();
                assert!(
                    waited >= wait && waited <= wait + MILLI * 2,
                    "{asked:?}: {waited:?}"
                );
            }
            Ok(Ok(_)) => panic!("{asked:?}: it is held"),
            Err(_) => assert!(wait > MAX_TTL, "{asked:?}: it waits on"),
        }
    }
    assert!(!lease.is_lost(), "renewed all the time");
}

#[tokio::test]
async fn the_same_on_a_server() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let usual = Asked {
        ttl: TTL,
        wait: None,
        hold_at_least: None,
        max_hold: None,
    };
    for extreme in EXTREMES {
        let extreme_one = [
            Asked {
                ttl: extreme,
                ..usual
            },
            Asked {
                wait: Some(extreme),
                ..usual
            },
            Asked {
                hold_at_least: Some(extreme),
                ..usual
            },
            Asked {
                max_hold: Some(extreme),
                ..usual
            },
        ];
        for (number, asked) in extreme_one.into_iter().enumerate() {
            let key = format!("{number} {extreme:?}");
            let outcome = asked.of(&locks, &key).fenced(true).acquire().await;
            fleet.assert_no_key_without_ttl();
            assert_eq!(outcome.is_ok(), asked.is_valid(), "{asked:?}: {outcome:?}");
            drop(outcome);
            if asked.hold_at_least == Some(TTL) {
                eventually(DEADLINE, "it was told", || {
                    fleet.servers()[0].pttl(&key) > 0
                })
                .await;
                let kept = fleet.servers()[0].pttl(&key);
                assert!(kept <= 10_000, "{kept} ms");
            } else {
                fleet.assert_no_keys(&key).await;
            }
        }
    }
}

/// A manager is built, and works, or says which number cannot be.
#[tokio::test(start_paused = true)]
async fn every_combination_of_a_managers_durations_is_used_or_refused() {
    let year = DAY * 365;
    let extremes = || {
        let limits = [
            MILLI * 2,
            MILLI * 10,
            TTL,
            DAY,
            DAY + NANO,
            year,
            year + NANO,
        ];
        EXTREMES.into_iter().chain(limits)
    };
    let mut built = 0;
    for max_ttl in extremes() {
        for node_timeout in extremes() {
            for fence_ttl in extremes() {
                let numbers = format!("{max_ttl:?} {node_timeout:?} {fence_ttl:?}");
                let valid = (MILLI * 10..=DAY).contains(&max_ttl)
                    && (MILLI..=TTL).contains(&node_timeout)
                    && node_timeout < max_ttl
                    && (max_ttl..=year).contains(&fence_ttl);
                let builder = LockManager::builder().node(memory());
                let builder = builder.max_ttl(max_ttl).node_timeout(node_timeout);
                let locks = match builder.fence_ttl(fence_ttl).build() {
                    Ok(locks) => locks,
                    Err(ConfigError::OutOfRange(_)) => {
                        assert!(!valid, "refused: {numbers}");
                        continue;
                    }
                    Err(error) => panic!("{numbers}: {error}"),
                };
                assert!(valid, "built: {numbers}");
                built += 1;
                let request = locks.lock("k").ttl(max_ttl).fenced(true);
                let lease = request
                    .hold_at_least(max_ttl)
                    .acquire()
                    .await
                    .expect("free");
                assert!(lease.fence() > 0);
                lease.release().await.expect("released");
                let kept = locks.lock("k").ttl(max_ttl).acquire().await;
                assert!(kept.is_err_and(|error| error.is_busy()), "{numbers}");
                advance(max_ttl).await;
                let next = locks.lock("k").ttl(max_ttl).acquire().await;
                next.expect("free").release().await.expect("released");
            }
        }
    }
    assert!(built > 10, "{built}");
}

/// The greatest numbers are such that servers take.
#[tokio::test]
async fn the_greatest_durations_on_a_server() {
    let fleet = Fleet::start(1);
    let builder = fleet.builder().max_ttl(DAY).fence_ttl(DAY * 365);
    let locks = builder.node_timeout(TTL).build().expect("a manager");
    let request = locks.lock("k").ttl(DAY).hold_at_least(DAY).fenced(true);
    let lease = request
        .max_hold(Duration::MAX)
        .wait(Duration::MAX)
        .acquire();
    let lease = lease.await.expect("free");
    lease.extend().await.expect("held");
    assert!(lease.remaining() > DAY * 9 / 10 && lease.fence() > 0);
    lease.release().await.expect("released");
    let server = &fleet.servers()[0];
    assert!((1..=86_400_000).contains(&server.pttl("k")), "kept");
    assert!(server.pttl("{k}:fence") > 364 * 86_400_000, "remembered");
    fleet.assert_no_key_without_ttl();
}

/// What is left of `hold_at_least` is kept, and be it less than the millisecond in which a node counts.
#[tokio::test(start_paused = true)]
async fn less_than_a_millisecond_is_kept_too() {
    let locks = LockManager::in_memory();
    let ask = || locks.lock("k").ttl(TTL);
    for left in [
        NANO,
        Duration::from_micros(1),
        Duration::from_micros(500),
        MILLI.saturating_sub(NANO),
    ] {
        let kept = ask().hold_at_least(TTL / 2).acquire().await.expect("free");
        advance((TTL / 2).saturating_sub(left)).await;
        kept.release().await.expect("released");
        let busy = ask().acquire().await;
        assert!(busy.is_err_and(|error| error.is_busy()), "{left:?} is left");
        advance(left).await;
        let next = ask().acquire().await.expect("nothing is left");
        next.release().await.expect("released");
    }
}

/// Bodies that end within the millisecond in which `hold_at_least` does, before or after.
#[tokio::test]
async fn a_release_at_the_end_of_hold_at_least_frees_the_lock() {
    let fleet = Fleet::start(3);
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    for micros in (0..4_000).step_by(20) {
        let kept = Duration::from_micros(micros);
        let request = locks.lock("k").ttl(TTL).wait(DEADLINE).hold_at_least(kept);
        let body = |_| async { std::thread::sleep(Duration::from_micros(micros / 2)) };
        request.run(body).await.expect("free soon");
        fleet.assert_no_key_without_ttl();
    }
    fleet.assert_no_keys("k").await;
}
