//! A holder that is stopped for longer than its lease runs not one further statement of its body, and what it had sent
//! before is refused by a store that looks at fencing tokens. So these grow, whatever clocks say, and a renewal does not
//! bring back what was released.

use lock_runtime::LockError;
use lock_tests::processes::{Peer, python};
use lock_tests::recorder::Act;
use lock_tests::{DEADLINE, Disk, Fleet, Recorder, RedisServer, eventually, ready};
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TTL: Duration = Duration::from_secs(1);

/// A row in a database, its writer in the middle of the network: `UPDATE token value` answers how many rows were changed.
const STORE: &str = r#"
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("CREATE TABLE payments (id INTEGER PRIMARY KEY, payer TEXT, fence INTEGER NOT NULL)")
store.execute("INSERT INTO payments VALUES (1, 'nobody', 0)")
for line in sys.stdin:
    word, *rest = line.split()
    if word == "UPDATE":
        fence, payer = rest
        changed = store.execute(
            "UPDATE payments SET payer = ?, fence = ? WHERE id = 1 AND fence < ?", (payer, int(fence), int(fence)))
        print(changed.rowcount, flush=True)
    elif word == "SELECT":
        print(*store.execute("SELECT payer FROM payments WHERE id = 1").fetchone(), flush=True)
"#;

fn child(fleet: &Fleet) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fenced_child"));
    command.env("LOCK_NODES", fleet.lock_nodes());
    command
}

fn steps_of(record: &Recorder, owner: &str) -> Vec<String> {
    let events = record.events().into_iter();
    let steps = events.filter(|event| event.owner == owner);
    steps
        .filter_map(|event| match event.act {
            Act::Step(what) => Some(what),
            Act::Entered | Act::Left => None,
        })
        .collect()
}

async fn a_stopped_holder_does_nothing_more(nodes: usize) {
    let fleet = Fleet::start(nodes);
    fleet.found().await;
    for way in ["attribute", "request"] {
        let directory = TempDir::with_prefix("lock-tests-").unwrap();
        let record = Recorder::new();
        let log = directory.path().join("log");
        let payer = |owner: &str, log: File| {
            let mut command = child(&fleet);
            let ttl = TTL.as_millis().to_string();
            command
                .args(["pay", way])
                .arg(record.path())
                .args([owner, &ttl]);
            command.stderr(log);
            Peer::start(command)
        };
        let mut store = {
            let mut command = python(&["redis"]);
            command
                .args(["-c", STORE])
                .arg(directory.path().join("payments"));
            Peer::start(command)
        };

        let mut first = payer("first", File::create(&log).unwrap());
        // Sent, and on its way to the store.
        let late = first.line().await;
        first.pause();
        // What its body waits for comes while it is stopped, so that it would go on at once.
        first.say("go on");
        let mut second = payer(
            "second",
            File::create(directory.path().join("other")).unwrap(),
        );
        let in_time = second.line().await;
        store.say(&in_time);
        store.expect("1").await;
        second.say("go on");
        second.expect("paid").await;

        first.resume();
        first.expect("not paid").await;
        let (status, _) = first.finish().await;
        assert!(status.success(), "{status}");
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(log.contains("`payment` was lost"), "{way}: {log:?}");
        assert_eq!(steps_of(&record, "first"), ["sent"], "{way}\n{record}");
        assert_eq!(
            steps_of(&record, "second"),
            ["sent", "went on"],
            "{way}\n{record}"
        );
        assert!(record.late_steps("payment").is_empty(), "{way}\n{record}");

        store.say(&late);
        store.expect("0").await;
        store.say("SELECT");
        store.expect("second").await;
        fleet.assert_no_keys("payment").await;
    }
}

#[tokio::test]
async fn a_stopped_holder_does_nothing_more_on_one_node() {
    a_stopped_holder_does_nothing_more(1).await;
}

#[tokio::test]
async fn a_stopped_holder_does_nothing_more_on_five_nodes() {
    a_stopped_holder_does_nothing_more(5).await;
}

/// The longest lease where nodes restart.
const MAX_TTL: Duration = Duration::from_secs(2);

/// For so long fencing tokens are remembered: longer than a test takes, or for as little as is allowed.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = MAX_TTL;

const FENCE: &str = "{account}:fence";

/// A process that takes the lock when it is told to.
struct Taker {
    clock: &'static str,
    process: Peer,
}

impl Taker {
    /// Minutes behind, minutes ahead, right, in between, and jumping back.
    const CLOCKS: [&str; 5] = ["-180000", "300000", "0", "-61000", "back"];

    fn start(fleet: &Fleet, clock: &'static str, fence_ttl: Duration) -> Self {
        let mut command = child(fleet);
        let [max_ttl, fence_ttl] = [MAX_TTL, fence_ttl].map(|time| time.as_millis().to_string());
        command.args(["take", &max_ttl, &fence_ttl, clock]);
        let process = Peer::start(command);
        Self { clock, process }
    }

    async fn take(&mut self, order: &str) -> u64 {
        self.process.say(order);
        self.process.line().await.parse().expect("a fencing token")
    }

    async fn release(&mut self) {
        self.process.say("release");
        self.process.expect("released").await;
    }
}

/// How a lock changes hands.
#[derive(Clone, Copy, Debug)]
enum End {
    Released,
    RunOut,
    Killed,
    NodesLost,
}

/// Two of five come back empty, and have their vote again.
async fn lose_two_nodes(fleet: &Fleet, first: usize, fence: u64) {
    eventually(DEADLINE, "the token is on all nodes", || {
        let values = fleet.values(FENCE);
        let there = |value: &Option<String>| *value == Some(fence.to_string());
        if values.iter().all(there) {
            Ok(())
        } else {
            Err(format!("{values:?}, not {fence}"))
        }
    })
    .await;
    for node in [first % 5, (first + 1) % 5] {
        fleet.servers()[node].restart(Disk::Lose).await;
    }
    eventually(DEADLINE, "both have their vote again", || {
        fleet.nodes_with(lock_tests::fleet::MARKER) == 5
    })
    .await;
}

#[tokio::test]
async fn tokens_grow_whatever_the_clocks_say_and_however_a_lock_ends() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let mut takers = Taker::CLOCKS.map(|clock| Taker::start(&fleet, clock, LONG));
    let (mut last, mut before) = (0, String::from("nothing"));
    let ends = [
        End::Released,
        End::RunOut,
        End::Killed,
        End::Released,
        End::NodesLost,
    ];
    for round in 0..3 {
        for (index, end) in ends.into_iter().enumerate() {
            // Other clocks for other ends in every round.
            let taker = &mut takers[(index + round) % Taker::CLOCKS.len()];
            let once = matches!(end, End::RunOut);
            let fence = taker.take(if once { "take once" } else { "take" }).await;
            let now = format!("clock {} ({end:?})", taker.clock);
            assert!(
                fence > last,
                "round {round}: {fence} for {now} after {last} for {before}"
            );
            (last, before) = (fence, now);
            match end {
                End::Released => taker.release().await,
                End::RunOut => taker.process.expect("lost").await,
                End::Killed => {
                    taker.process.kill();
                    *taker = Taker::start(&fleet, taker.clock, LONG);
                }
                End::NodesLost => {
                    taker.release().await;
                    lose_two_nodes(&fleet, round * 2, fence).await;
                }
            }
        }
    }
    assert!(
        i64::try_from(last).is_ok(),
        "it fits a column of a database"
    );
}

/// A token is remembered for as long as its lock is held, and then for `fence_ttl`.
#[tokio::test]
async fn tokens_grow_over_a_hold_that_is_longer_than_they_are_remembered() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let mut ahead = Taker::start(&fleet, "300000", SHORT);
    let mut behind = Taker::start(&fleet, "-180000", SHORT);
    let first = ahead.take("take").await;
    let taken = Instant::now();
    eventually(DEADLINE, "it has been held for long", || {
        assert!(fleet.nodes_with("account") >= 3, "it is not held any more");
        taken.elapsed() > MAX_TTL * 2
    })
    .await;
    ahead.release().await;
    let second = behind.take("take").await;
    assert!(second > first, "{second} after {first}");
    behind.release().await;
}

/// Once they are, the time is what is left, and what a client has seen itself.
#[tokio::test]
async fn tokens_grow_when_they_were_forgotten() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    // Right when the second one looks first, and then minutes behind.
    let mut takers = ["0", "back"].map(|clock| Taker::start(&fleet, clock, SHORT));
    let mut last = 0;
    for index in [0, 1, 1, 1] {
        let taker = &mut takers[index];
        let fence = taker.take("take").await;
        assert!(fence > last, "clock {}: {fence} after {last}", taker.clock);
        last = fence;
        taker.release().await;
        eventually(DEADLINE, "the token is forgotten", || {
            fleet.nodes_with(FENCE) == 0
        })
        .await;
    }
}

/// What each node says a key has left to live; less than nothing where there is none.
fn ttls(fleet: &Fleet, key: &str) -> Vec<i64> {
    let ttl = |server: &RedisServer| server.pttl(key);
    fleet.servers().iter().map(ttl).collect()
}

mod heavy {
    use super::*;

    const RACES: usize = 10_000;

    /// So long that nothing goes away by itself.
    const STAYS: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_renewal_in_flight_does_not_bring_back_what_is_released() {
        let fleet = Fleet::start(5);
        let locks = fleet.manager();
        ready(&locks).await;
        let (mut renewed, mut too_late) = (0, 0);
        // How long a body is, in polls: tuned so that it ends while its renewal is on the way.
        let mut length = 64_u32;
        for race in 0..RACES {
            let key = format!("race:{race}");
            let request = locks.lock(key.as_str()).ttl(STAYS).wait(DEADLINE);
            let renewing = request.run(|lease| async move {
                let renewing = tokio::spawn(async move { lease.extend().await });
                for _ in 0..fastrand::u32(..length) {
                    tokio::task::yield_now().await;
                }
                (renewing,)
            });
            let (renewing,) = renewing.await.expect("nobody else wants it");
            let released = ttls(&fleet, &key);
            match renewing.await.expect("a renewal does not panic") {
                Ok(()) => {
                    renewed += 1;
                    length = (length / 2).max(1);
                }
                Err(LockError::Lost { .. }) => {
                    too_late += 1;
                    length = (length * 2).min(1 << 16);
                }
                Err(error) => panic!("{key}: {error}"),
            }
            let later = ttls(&fleet, &key);
            let mut pairs = released.iter().zip(&later);
            assert!(
                pairs.all(|(released, later)| later <= released),
                "{key} had {released:?} ms to live when it was released, and later {later:?}"
            );
            if race % 1000 == 999 {
                fleet.assert_no_keys("race:*").await;
            }
        }
        assert!(
            renewed > RACES / 20 && too_late > RACES / 20,
            "{renewed} renewals were in time, {too_late} were not: no races"
        );
        fleet.assert_no_keys("*").await;
    }
}
