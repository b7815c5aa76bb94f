//! A process that takes locks with fencing tokens on `LOCK_NODES`, for tests that stop or kill it, or set its clock.

use lock_runtime::{Lease, LockError, LockManager, distributed_lock};
use lock_tests::{DEADLINE, Recorder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What the test says, line by line.
type Orders = UnboundedReceiver<String>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let nodes = std::env::var("LOCK_NODES").expect("LOCK_NODES lists the nodes");
    let patient = LockManager::builder().node_timeout(Duration::from_secs(1));
    let builder = patient.nodes(&nodes);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["pay", way, record, owner, ttl] => {
            let locks = builder.build().expect("they can be used");
            let pay = Payment {
                record: Recorder::open(record),
                owner: owner.to_owned(),
                orders: orders(),
            };
            let paid = match way {
                "attribute" => by_attribute(&locks, millis(ttl), pay).await,
                "request" => by_request(&locks, millis(ttl), pay).await,
                other => panic!("not a way to take a lock: {other:?}"),
            };
            match paid {
                Ok(()) => println!("paid"),
                Err(error) => {
                    eprintln!("{error}");
                    println!("not paid");
                }
            }
        }
        ["take", max_ttl, fence_ttl, clock] => {
            let max_ttl = millis(max_ttl);
            let builder = builder.max_ttl(max_ttl).fence_ttl(millis(fence_ttl));
            let locks = builder.wall_clock(wall_clock(clock)).build();
            take_on_demand(&locks.expect("they can be used"), max_ttl / 2).await;
        }
        ref other => panic!("not a part this process can play: {other:?}"),
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("a number of milliseconds"))
}

/// The lines of standard input, read on a thread: what was written while this process was stopped is there at once.
fn orders() -> Orders {
    let (lines, orders) = unbounded_channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lines().map_while(Result::ok);
        input.try_for_each(|line| lines.send(line)).ok();
    });
    orders
}

struct Payment {
    record: Recorder,
    owner: String,
    orders: Orders,
}

impl Payment {
    /// Sends a statement to the store, and goes on when the test says so.
    async fn pay(mut self, lease: &Lease) {
        let inside = self.record.enter("payment", &self.owner);
        inside.step("sent");
        println!("UPDATE {} {}", lease.fence(), self.owner);
        // What is written before the process is stopped and what is written after are not in one poll.
        tokio::task::yield_now().await;
        let order = self.orders.recv().await;
        inside.step("went on");
        assert_eq!(order.as_deref(), Some("go on"));
    }
}

#[distributed_lock(key = "payment", ttl = ttl, wait = DEADLINE, fenced = true, lease = lease, manager = locks)]
async fn by_attribute(
    locks: &LockManager,
    ttl: Duration,
    payment: Payment,
) -> Result<(), LockError> {
    payment.pay(lease).await;
    Ok(())
}

async fn by_request(locks: &LockManager, ttl: Duration, payment: Payment) -> Result<(), LockError> {
    let request = locks.lock("payment").ttl(ttl).wait(DEADLINE).fenced(true);
    request
        .run(|lease| async move { payment.pay(&lease).await })
        .await
}

/// `take` answers the fencing token, and `release` gives the lock back; after `take once` the lease runs out. `look` answers
/// whether it is held, and `time` what time it is, in seconds since 1970.
async fn take_on_demand(locks: &LockManager, ttl: Duration) {
    let mut orders = orders();
    let mut held = None;
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "take" => {
                let request = locks.lock("account").ttl(ttl).wait(DEADLINE).fenced(true);
                let lease = request.acquire().await.expect("free sooner or later");
                println!("{}", lease.fence());
                held = Some(lease);
            }
            "take once" => {
                let request = locks.lock("account").ttl(ttl).wait(DEADLINE).fenced(true);
                let lease = request.extend(false).acquire().await;
                let lease = lease.expect("free sooner or later");
                println!("{}", lease.fence());
                lease.lost().await;
                println!("lost");
            }
            "release" => {
                let lease = held.take().expect("it was taken");
                lease.release().await.expect("nothing is wrong with it");
                println!("released");
            }
            "look" => {
                let held = held.as_ref().is_some_and(|lease| !lease.is_lost());
                println!("{}", if held { "held" } else { "not held" });
            }
            "time" => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let since = since.map(|since| since.as_secs().cast_signed());
                let seconds =
                    since.unwrap_or_else(|until| -until.duration().as_secs().cast_signed());
                println!("{seconds}");
            }
            other => panic!("not an order: {other:?}"),
        }
    }
}

/// So many milliseconds ahead or behind, or `back`: a minute further back every time it is looked at.
fn wall_clock(text: &str) -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let looks = Arc::new(AtomicU64::new(0));
    let text = text.to_owned();
    move || {
        let now = SystemTime::now();
        if text == "back" {
            let looks = looks.fetch_add(1, Ordering::SeqCst);
            return now - Duration::from_secs(60) * u32::try_from(looks).expect("not that often");
        }
        let ahead: i64 = text.parse().expect("milliseconds");
        let offset = Duration::from_millis(ahead.unsigned_abs());
        if ahead < 0 {
            now - offset
        } else {
            now + offset
        }
    }
}
