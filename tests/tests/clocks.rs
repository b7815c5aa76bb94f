//! Wall clocks that are set while locks are held: a lease is measured with a clock that nobody sets, tokens only grow, and
//! a server whose clock jumps is one node that is wrong.

use lock_runtime::LockManager;
use lock_tests::processes::Peer;
use lock_tests::{DEADLINE, Fleet, WallClock, eventually, eventually_async, ready};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(4);

const DAY: i64 = 24 * 3600;
const YEAR: i64 = 365 * DAY;

/// Forth and back, to before 1970 and to what no token can say.
const LEAPS: [i64; 8] = [
    DAY,
    -DAY,
    30 * YEAR,
    -30 * YEAR,
    300 * YEAR,
    -60 * YEAR,
    1,
    0,
];

/// A process whose wall clock is set while it holds a lock.
struct Holder {
    clock: WallClock,
    process: Peer,
}

impl Holder {
    fn start(fleet: &Fleet) -> Self {
        let clock = WallClock::new();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fenced_child"));
        command.env("LOCK_NODES", fleet.lock_nodes());
        let max_ttl = (TTL * 2).as_millis().to_string();
        command.args(["take", &max_ttl, "86400000", "0"]);
        clock.rule(&mut command);
        let process = Peer::start(command);
        Self { clock, process }
    }

    /// Sets its clock, and makes sure that it has been.
    async fn set_clock(&mut self, ahead: i64) {
        self.clock.set(ahead);
        self.process.say("time");
        let says: i64 = self.process.line().await.parse().expect("seconds");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off = says - now.as_secs().cast_signed() - ahead;
        assert!(off.abs() < 60, "set {ahead} s ahead, it says {says}");
    }

    async fn take(&mut self) -> u64 {
        self.process.say("take");
        self.process.line().await.parse().expect("a fencing token")
    }

    async fn release(&mut self) {
        self.process.say("release");
        self.process.expect("released").await;
    }
}

/// Neither lost nor held any longer because of it: renewed when it should be, and free once it is released.
#[tokio::test]
async fn a_lease_is_held_while_the_wall_clock_of_its_holder_is_set() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let rival = fleet.manager();
    ready(&rival).await;
    let mut holder = Holder::start(&fleet);
    holder.take().await;
    for ahead in LEAPS {
        holder.set_clock(ahead).await;
        let set = Instant::now();
        eventually(DEADLINE, "a renewal was due since", || {
            assert!(fleet.nodes_with("account") >= 2, "{ahead}: not held");
            set.elapsed() > TTL / 2
        })
        .await;
        let busy = rival.lock("account").ttl(TTL).acquire().await;
        assert!(busy.is_err_and(|error| error.is_busy()), "{ahead}");
        holder.process.say("look");
        holder.process.expect("held").await;
    }
    let released = Instant::now();
    holder.release().await;
    let next = rival
        .lock("account")
        .ttl(TTL)
        .wait(DEADLINE)
        .acquire()
        .await;
    drop(next.expect("free"));
    assert!(released.elapsed() < TTL / 2, "released, not run out");
    fleet.assert_no_keys("account").await;
}

/// Between a client whose clock is right and one whose clock is not, in turn.
#[tokio::test]
async fn tokens_grow_while_the_wall_clock_of_a_client_is_set() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let right = fleet.manager();
    ready(&right).await;
    let mut holder = Holder::start(&fleet);
    let mut last = 0;
    for ahead in LEAPS {
        holder.set_clock(ahead).await;
        let token = holder.take().await;
        assert!(token > last, "{ahead}: {token} after {last}");
        // Set once more between its acquire and its release.
        holder.set_clock(-ahead).await;
        holder.release().await;
        last = token_of(&right, "account").await;
        assert!(last > token, "{ahead}: {last} after {token}");
    }
}

async fn token_of(locks: &LockManager, key: &str) -> u64 {
    let request = locks.lock(key).ttl(TTL).wait(DEADLINE).fenced(true);
    let lease = request.acquire().await.expect("free");
    let token = lease.fence();
    lease.release().await.expect("released");
    token
}

/// The clock that an application gives may say anything, and is not believed to the end of time.
#[tokio::test]
async fn tokens_grow_whatever_the_clock_of_the_application_says() {
    const ENDS: [i64; 12] = [
        0,
        1,
        -1,
        i64::MAX / 2_000_000_000,
        i64::MIN / 2_000_000_000,
        YEAR,
        1_000 * YEAR,
        -1_000 * YEAR,
        292_000_000 * YEAR,
        -292_000_000 * YEAR,
        60 * YEAR,
        0,
    ];
    let fleet = Fleet::start(3);
    fleet.found().await;
    let seconds = Arc::new(AtomicI64::new(0));
    let says = Arc::clone(&seconds);
    let clock = move || {
        let seconds = says.load(Ordering::SeqCst);
        let since = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 {
            UNIX_EPOCH.checked_sub(since)
        } else {
            UNIX_EPOCH.checked_add(since)
        };
        time.expect("a time that this system can say")
    };
    let embedded = LockManager::builder().node(lock_runtime::memory());
    for builder in [fleet.builder(), embedded] {
        let locks = builder.clone().wall_clock(clock.clone()).build().unwrap();
        // It knows nothing of what the first has seen.
        let other = || builder.clone().wall_clock(clock.clone()).build().unwrap();
        let mut last = 0;
        for end in ENDS {
            seconds.store(end, Ordering::SeqCst);
            for locks in [&locks, &other()] {
                let token = token_of(locks, "k").await;
                assert!(token > last, "{end}: {token} after {last}");
                assert!(token <= 1 << 53, "{end}: {token} is exact");
                last = token;
            }
        }
    }
}

/// A server keeps a lock by its own wall clock: set forward it forgets all of them, set back it keeps them for longer. As
/// long as that is a minority nobody else gets in, and nobody is kept out. (Done by hand: a server whose allocator is
/// jemalloc does not start under libfaketime.)
#[tokio::test]
async fn a_server_whose_wall_clock_is_set_is_one_node_that_is_wrong() {
    let fleet = Fleet::start(3);
    fleet.found().await;
    let (locks, rival) = (fleet.manager(), fleet.manager());
    ready(&locks).await;
    ready(&rival).await;
    let ask = |locks: &LockManager| locks.lock("k").ttl(TTL);
    let is_busy = async || {
        let tried = ask(&rival).acquire().await;
        tried.is_err_and(|error| error.is_busy())
    };
    for wrong in fleet.servers() {
        let lease = ask(&locks).wait(DEADLINE).acquire().await.expect("free");
        eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;
        assert!(wrong.command::<bool>(&["PEXPIREAT", "k", "1"]), "forward");
        for _ in 0..20 {
            assert!(is_busy().await);
        }
        eventually_async(DEADLINE, "it is on all nodes again", || async {
            lease.extend().await.expect("a majority has it");
            fleet.nodes_with("k") == 3
        })
        .await;
        assert!(wrong.command::<bool>(&["PEXPIRE", "k", "86400000"]), "back");
        assert!(is_busy().await);
        lease.release().await.expect("released");
        fleet.assert_no_keys("k").await;

        // Nobody releases this one, and there it never seems to end.
        let lost = ask(&locks).ttl(TTL / 4).extend(false).wait(DEADLINE);
        let lost = lost.acquire().await.expect("free");
        eventually(DEADLINE, "all have it", || fleet.nodes_with("k") == 3).await;
        assert!(wrong.command::<bool>(&["PEXPIRE", "k", "86400000"]), "back");
        std::mem::forget(lost);
        let next = ask(&rival)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("it ran out");
        assert!(wrong.exists("k"));
        next.release().await.expect("a majority had it");
        wrong.flush();
    }
}
