//! Many contenders while the cluster changes under them.

use super::TTL;
use lock_runtime::LockManager;
use lock_tests::{Cluster, DEADLINE, Recorder, dropped_after, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

/// Long enough for a machine that is busy.
const LONG: Duration = Duration::from_secs(90);

/// Short enough that locks are renewed while they are held, and long enough that none is lost for a machine that is busy.
const SHORT: Duration = Duration::from_secs(15);

/// Contenders for some locks, each of which notes that it is alone and that its fencing token is larger than the last.
struct Contest {
    keys: Vec<String>,
    fences: Vec<AtomicU64>,
    record: Recorder,
    taken: AtomicU64,
    is_over: AtomicBool,
}

/// How often locks are taken at least.
const ENOUGH: u64 = 200;

impl Contest {
    fn new(keys: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            fences: keys.iter().map(|_| AtomicU64::new(0)).collect(),
            keys,
            record: Recorder::new(),
            taken: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    /// Begins it: three tasks with each manager.
    async fn begin(self: &Arc<Self>, cluster: &Cluster) -> JoinSet<()> {
        let mut contenders = JoinSet::new();
        for (process, locks) in managers(cluster).await.into_iter().enumerate() {
            for task in 0..3 {
                let name = format!("{process}.{task}");
                contenders.spawn(Arc::clone(self).contend(locks.clone(), name));
            }
        }
        contenders
    }

    /// Takes locks until it is over.
    async fn contend(self: Arc<Self>, locks: LockManager, name: String) {
        let mut random = fastrand::Rng::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let which = random.usize(..self.keys.len());
            let key = &*self.keys[which];
            let request = locks.lock(key).ttl(SHORT).wait(LONG).fenced(true);
            let lease = request.acquire().await;
            let lease = lease.unwrap_or_else(|error| panic!("{name}: {error}"));
            let inside = self.record.enter(key, &name);
            let before = self.fences[which].swap(lease.fence(), Ordering::SeqCst);
            assert!(
                before < lease.fence(),
                "{key}: {} after {before}",
                lease.fence()
            );
            match random.u8(..100) {
                0 => sleep(SHORT / 3).await,
                1..20 => drop(lease.extend().await),
                20..50 => sleep(Duration::from_millis(random.u64(..5))).await,
                _ => {}
            }
            assert!(!lease.is_lost(), "{name} has lost {key}");
            drop(inside);
            lease.release().await.expect("held");
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_enough(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= ENOUGH
    }

    /// Waits until locks have been taken for a while.
    async fn goes_on(&self) {
        let before = self.taken.load(Ordering::Relaxed);
        eventually(LONG, "locks are taken", || {
            self.taken.load(Ordering::Relaxed) >= before + ENOUGH / 4
        })
        .await;
    }

    async fn end(&self, mut contenders: JoinSet<()>) {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(contender) = contenders.join_next().await {
            contender.expect("no panic");
        }
        for key in &self.keys {
            self.record.assert_exclusive(key);
        }
    }
}

async fn managers(cluster: &Cluster) -> [LockManager; 3] {
    [
        cluster.manager().await,
        cluster.manager().await,
        cluster.manager().await,
    ]
}

/// Moves a slot to the next server, with a moment between the steps.
async fn move_on(cluster: &Cluster, slot: u16) {
    let from = cluster.owner(slot);
    let next = cluster.servers().iter().cycle();
    let mut next = next.skip_while(|server| server.name() != from.name());
    let to = next.nth(1).expect("another one");
    let pause = async |_| sleep(Duration::from_millis(20)).await;
    cluster.reshard(slot, from, to, pause).await;
    sleep(Duration::from_millis(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_inside_together_while_the_slot_moves() {
    let cluster = Cluster::start().await;
    let slot = cluster.slot("{slot}");
    let keys = (0..3).map(|number| format!("{{slot}}{number}"));
    let contest = Contest::new(keys.collect());
    let contenders = contest.begin(&cluster).await;
    let moves = async {
        let mut moves = 0;
        while moves < 10 || !contest.is_enough() {
            move_on(&cluster, slot).await;
            moves += 1;
        }
    };
    timeout(LONG, moves).await.expect("often enough");
    contest.end(contenders).await;
    cluster.assert_no_keys("{slot}?").await;
    cluster.assert_nobody_listens().await;
}

/// A failover that an operator asks for loses nothing, however busy it is. Each primary is exchanged for its replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_inside_together_while_primaries_are_exchanged() {
    let cluster = Cluster::options().replicas(1).start().await;
    let keys = cluster.key_on_each("k");
    let slots: Vec<_> = keys.iter().map(|key| cluster.slot(key)).collect();
    let contest = Contest::new(keys);
    let contenders = contest.begin(&cluster).await;
    let exchanges = async {
        for (slot, replica) in slots.into_iter().zip(&cluster.servers()[3..]) {
            contest.goes_on().await;
            cluster.exchange(slot, replica).await;
        }
        contest.goes_on().await;
    };
    timeout(LONG * 2, exchanges).await.expect("often enough");
    contest.end(contenders).await;
    cluster.assert_no_keys("k?").await;
    cluster.assert_nobody_listens().await;
}

/// Asks for a lock and gives up after some time, or after some steps. Whether it came to that.
async fn given_up(locks: &LockManager, random: &mut fastrand::Rng) -> bool {
    let key = format!("{{slot}}{}", random.u8(..6));
    let request = locks.lock(key).ttl(TTL).wait(DEADLINE);
    let request = request.fenced(random.bool());
    let call = async {
        let lease = request.acquire().await.expect("waited for");
        drop(lease.extend().await);
        drop(lease.release().await);
    };
    if random.bool() {
        dropped_after(random.usize(..6), call).await.is_none()
    } else {
        let patience = Duration::from_micros(random.u64(..4_000));
        timeout(patience, call).await.is_err()
    }
}

/// Callers who give up at any time, while the slot of their locks is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_leaves_nothing_while_the_slot_moves() {
    let cluster = Cluster::start().await;
    let slot = cluster.slot("{slot}");
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for locks in managers(&cluster).await {
        for _ in 0..8 {
            let (locks, is_over) = (locks.clone(), Arc::clone(&is_over));
            callers.spawn(async move {
                let mut random = fastrand::Rng::new();
                let mut count = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    count += u64::from(given_up(&locks, &mut random).await);
                    yield_now().await;
                }
                count
            });
        }
    }
    for _ in 0..20 {
        move_on(&cluster, slot).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut count = 0;
    while let Some(caller) = callers.join_next().await {
        count += caller.expect("no panic");
    }
    assert!(count > 1000, "{count} gave up");
    cluster.assert_no_keys("{slot}?").await;
    cluster.assert_nobody_listens().await;
}
