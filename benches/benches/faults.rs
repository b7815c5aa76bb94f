//! What nodes cost that do not answer: acquiring with one and with two of five nodes silent, next to acquiring with all of
//! them well, on the same servers and in turns.
//!
//! `cargo bench --package lock-benches --bench faults`

use std::time::{Duration, Instant};

use lock_benches::machine;
use lock_runtime::{LockManager, LockManagerBuilder};
use lock_tests::{Fleet, Mode, Proxy};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(30);
const NODES: usize = 5;
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const ROUNDS: usize = 31;

/// A manager for which some of the nodes are silent. The others it reaches directly.
struct Contender {
    name: &'static str,
    locks: LockManager,
    /// Of each round.
    latencies: Vec<Vec<Duration>>,
    _silent: Vec<Proxy>,
}

impl Contender {
    async fn new(name: &'static str, fleet: &Fleet, silent: usize) -> Self {
        let proxies: Vec<Proxy> = fleet.servers()[..silent].iter().map(Proxy::start).collect();
        let through = proxies.iter().map(Proxy::url);
        let urls = through.chain(fleet.urls().into_iter().skip(silent));
        // Long, so that whatever waits for a silent node is not to be overlooked.
        let patient = LockManager::builder().node_timeout(NODE_TIMEOUT);
        let locks = urls.fold(patient, LockManagerBuilder::node);
        let locks = locks.build().expect("a manager");
        lock_tests::ready(&locks).await;
        lock_tests::eventually(lock_tests::DEADLINE, "all are connected", || {
            proxies.iter().all(|proxy| proxy.open_connections() == 1)
        })
        .await;
        for proxy in &proxies {
            proxy.set(Mode::Blackhole);
        }
        Self {
            name,
            locks,
            latencies: Vec::new(),
            _silent: proxies,
        }
    }

    async fn round(&mut self, tasks: usize, cycles: usize, counts: bool) {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (locks, name) = (self.locks.clone(), self.name);
            running.spawn(async move {
                let mut latencies = Vec::with_capacity(cycles / tasks);
                for number in 0..cycles / tasks {
                    let request = locks.lock(format!("{name}:{task}:{number}")).ttl(TTL);
                    let asked = Instant::now();
                    let lease = request.acquire().await.expect("free");
                    latencies.push(asked.elapsed());
                    lease.release().await.expect("released");
                }
                latencies
            });
        }
        let mut latencies = running.join_all().await.concat();
        latencies.sort_unstable();
        if counts {
            self.latencies.push(latencies);
        }
    }

    /// The median over the rounds, as the machine has moments in which it does something else.
    fn quantile(&self, percent: usize) -> Duration {
        let of_round = |latencies: &Vec<Duration>| latencies[latencies.len() * percent / 100];
        let mut rounds: Vec<_> = self.latencies.iter().map(of_round).collect();
        rounds.sort_unstable();
        rounds[rounds.len() / 2]
    }
}

#[tokio::main]
async fn main() {
    let fleet = lock_benches::servers::start(NODES);
    fleet.found().await;
    println!(
        "{}; {NODES} nodes on loopback, node_timeout {NODE_TIMEOUT:?}; medians of {ROUNDS} rounds in turns\n",
        machine()
    );
    for (tasks, cycles) in [(1, 500), (32, 3_200)] {
        let mut contenders = [
            Contender::new("all five answer", &fleet, 0).await,
            Contender::new("one is silent", &fleet, 1).await,
            Contender::new("two are silent", &fleet, 2).await,
        ];
        for round in 0..=ROUNDS {
            for contender in &mut contenders {
                contender.round(tasks, cycles, round > 0).await;
            }
        }
        println!("| acquiring, {tasks} tasks | p50 | p99 | p50 ÷ healthy | p99 ÷ healthy |");
        println!("|---|---|---|---|---|");
        let [p50, p99] = [50, 99].map(|percent| contenders[0].quantile(percent).as_secs_f64());
        for contender in &contenders {
            let [half, most] = [50, 99].map(|percent| contender.quantile(percent).as_secs_f64());
            println!(
                "| {} | {:.0} µs | {:.0} µs | {:.2} | {:.2} |",
                contender.name,
                half * 1e6,
                most * 1e6,
                half / p50,
                most / p99
            );
        }
        println!();
    }
}
