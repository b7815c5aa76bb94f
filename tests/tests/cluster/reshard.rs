//! A slot moves from server to server while locks in it are taken, renewed, waited for and given back.

use super::TTL;
use lock_runtime::{Lease, LockManager, Verdict};
use lock_tests::cluster::Step;
use lock_tests::{Cluster, DEADLINE, eventually};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// When a lock is taken, or given back.
const MOMENTS: [Option<Step>; 5] = [
    None,
    Some(Step::Importing),
    Some(Step::Migrating),
    Some(Step::NewOwnerKnows),
    Some(Step::Done),
];

/// A lock that is taken at one moment and given back at another, for every two of them.
struct Schedule {
    locks: LockManager,
    rival: LockManager,
    held: BTreeMap<(usize, usize), Lease>,
}

impl Schedule {
    fn key(taken: usize, given_back: usize) -> String {
        format!("{{slot}}{taken}-{given_back}")
    }

    /// What is held is renewed, and held for everybody else.
    async fn renew(&self) {
        for ((taken, given_back), lease) in &self.held {
            let key = Self::key(*taken, *given_back);
            let renewed = lease.extend().await;
            renewed.unwrap_or_else(|error| panic!("{key}: {error}"));
            let busy = self.rival.lock(&*key).ttl(TTL).acquire().await;
            let error = busy.expect_err("it is held");
            assert!(error.is_busy(), "{key}: {error}");
        }
    }

    /// What is due at a moment.
    async fn run(&mut self, cluster: &Cluster, moment: usize) {
        for given_back in moment..MOMENTS.len() {
            let key = Self::key(moment, given_back);
            let lease = self.locks.lock(&*key).ttl(TTL).acquire().await;
            let lease = lease.unwrap_or_else(|error| panic!("{key}: {error}"));
            self.held.insert((moment, given_back), lease);
        }
        self.renew().await;
        for taken in 0..=moment {
            let Some(lease) = self.held.remove(&(taken, moment)) else {
                continue;
            };
            let key = Self::key(taken, moment);
            let released = lease.release().await;
            released.unwrap_or_else(|error| panic!("{key}: {error}"));
            cluster.assert_no_keys(&key).await;
        }
    }
}

/// To a server that had no slots before, so that those who are sent there have never heard of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_one_lock_at_every_step_of_a_move() {
    let cluster = Cluster::options()
        .primaries(2)
        .without_slots(1)
        .start()
        .await;
    let mut schedule = Schedule {
        locks: cluster.manager().await,
        rival: cluster.manager().await,
        held: BTreeMap::new(),
    };
    schedule.run(&cluster, 0).await;
    let slot = cluster.slot("{slot}");
    let (from, to) = (cluster.owner(slot), &cluster.servers()[2]);
    let mut moved = 0;
    cluster
        .reshard(slot, from, to, async |step| {
            let moment = MOMENTS.iter().position(|moment| *moment == Some(step));
            if let Some(moment) = moment {
                schedule.run(&cluster, moment).await;
            } else {
                moved += 1;
                schedule.renew().await;
            }
        })
        .await;
    // Those that were taken before the old owner sent anybody elsewhere.
    assert_eq!(moved, 4);
    assert!(schedule.held.is_empty());
    assert_eq!(cluster.owner(slot).name(), to.name());
    cluster.assert_no_keys("*").await;
}

/// While one of the two has moved, or is not there, servers refuse to say anything about both: a lock that is held lives on,
/// and one that is free cannot be taken until the move is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_and_its_fence_that_are_on_two_servers_for_a_while() {
    let cluster = Cluster::start().await;
    let (locks, rival) = (cluster.manager().await, cluster.manager().await);
    let [held, free] = ["{slot}held", "{slot}free"];
    let ask = |key| locks.lock(key).ttl(TTL).fenced(true);
    let mut first = 0;
    for _ in 0..2 {
        let lease = ask(free).acquire().await.expect("free");
        assert!(lease.fence() > first);
        first = lease.fence();
        lease.release().await.expect("held");
    }
    let lease = ask(held).acquire().await.expect("free");

    let slot = cluster.slot(held);
    let (from, to) = (cluster.owner(slot), cluster.another(held));
    let mut waiting = None;
    cluster
        .reshard(slot, from, to, async |step| {
            if step == Step::Migrating {
                let port = to.port().to_string();
                for key in [held, "{slot}free:fence"] {
                    from.command::<()>(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
                }
                assert_eq!(from.keys("*"), ["{slot}held:fence"]);
                let left = || {
                    to.command::<()>(&["ASKING"]);
                    to.pttl(held)
                };
                let second = i64::try_from(TTL.as_millis()).expect("short") - 1000;
                eventually(DEADLINE, "a second is over", || left() < second).await;
                lease.extend().await.expect("held");
                assert!(left() > second, "it was renewed: {}", left());
                let busy = rival.lock(held).ttl(TTL).acquire().await;
                assert!(busy.expect_err("it is held").is_busy());
                let seen = rival.inspect(held).await.expect("a key");
                assert!(matches!(seen.verdict(), Verdict::Held { .. }), "{seen}");

                let refused = ask(free)
                    .acquire()
                    .await
                    .expect_err("its fence is elsewhere");
                assert!(refused.is_outage(), "{refused}");
                assert!(refused.to_string().contains("TRYAGAIN"), "{refused}");
                waiting = Some(tokio::spawn(ask(free).wait(DEADLINE).acquire()));
            }
        })
        .await;
    let next = waiting.expect("it was begun").await.expect("no panic");
    let next = next.expect("both are there");
    assert!(next.fence() > first, "{} after {first}", next.fence());
    next.release().await.expect("held");
    lease.extend().await.expect("held");
    lease.release().await.expect("held");
    assert!(!to.exists(held) && !to.exists(free));
}

/// It listened on the server that had the lock, and is counted by the one that has it now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_listens_where_the_lock_has_gone() {
    let cluster = Cluster::start().await;
    let (holder, waiter) = (cluster.manager().await, cluster.manager().await);
    let slot = cluster.slot("k");
    let held = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    let waiting = tokio::spawn(waiter.lock("k").ttl(TTL).wait(TTL).acquire());
    let listens = |server: &lock_tests::RedisServer| {
        let channels: Vec<String> = server.command(&["PUBSUB", "CHANNELS", "*"]);
        !channels.is_empty()
    };
    let mut from = cluster.owner(slot);
    eventually(DEADLINE, "it listens", || listens(from)).await;
    for _ in 0..3 {
        let to = cluster.another("k");
        cluster.reshard(slot, from, to, async |_| {}).await;
        eventually(DEADLINE, "it listens there, and only there", || {
            listens(to) && cluster.listened_to() == 1
        })
        .await;
        from = to;
    }
    held.release().await.expect("held");
    let lease = timeout(Duration::from_secs(5), waiting).await;
    let lease = lease.expect("woken").expect("no panic").expect("released");
    lease.release().await.expect("held");
    cluster.assert_nobody_listens().await;
}
