//! Five Redis nodes, a PostgreSQL database, two services and k6: started, put under load, and brought to rest.

use crate::faults::{Fault, plan};
use crate::ledger::Books;
use crate::orders::{self, Order};
use crate::setting::{PIECES, SCARCE, SCARCE_PIECES, Setting};
use lock_tests::processes::{Peer, k6};
use lock_tests::{DEADLINE, Fleet, Payments, Postgres, RedisServer, eventually_async};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::sleep_until;

pub(crate) const NODES: usize = 5;
const SERVICES: usize = 2;

/// What customers do.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/k6/checkout.js");

/// What k6 writes for each order.
const RECORD: &str = "orders.txt";

/// Beyond the time of the load, until the last customer has his answer.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) services: Vec<Payments>,
    database: Postgres,
    began: Instant,
}

/// What a load left.
pub(crate) struct Run {
    pub(crate) orders: Vec<Order>,
    pub(crate) faults: Vec<Fault>,
    /// How k6 ended, and what it says of it.
    pub(crate) status: ExitStatus,
    pub(crate) summary: Vec<String>,
    pub(crate) initial: BTreeMap<i64, i64>,
    pub(crate) books: Books,
    /// Bodies that were stopped because their lease was lost, by the services' logs.
    pub(crate) lost: usize,
    /// On any node, a TTL after the end.
    pub(crate) keys_left: Vec<String>,
    pub(crate) versions: Versions,
}

pub(crate) struct Versions {
    pub(crate) redis: String,
    pub(crate) database: String,
    pub(crate) k6: String,
}

pub(crate) async fn run(setting: &Setting) -> Run {
    let mut stage = Stage::set(setting).await;
    let initial = stage.stock_up(setting.products);
    let (status, summary, orders, faults) = stage.load(setting).await;
    for service in &mut stage.services {
        service.stop().await;
    }
    Run {
        orders,
        faults,
        status,
        summary,
        initial,
        books: Books::read(&stage.database),
        lost: log_files(&setting.to).iter().map(|log| losses(log)).sum(),
        keys_left: stage.keys_left().await,
        versions: stage.versions(),
    }
}

fn log_files(directory: &Path) -> Vec<PathBuf> {
    let file = |service| directory.join(format!("service-{service}.log"));
    (1..=SERVICES).map(file).collect()
}

/// As the library words it when it answers for such a call. Were it worded otherwise, none would be found, and the comparison would
/// excuse less.
fn losses(log: &Path) -> usize {
    let log =
        std::fs::read_to_string(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let lost =
        |line: &&str| line.contains("answered for a lock") && line.contains("was lost after");
    log.lines().filter(lost).count()
}

impl Stage {
    /// Everything is up, and the services say that they are ready.
    async fn set(setting: &Setting) -> Self {
        let nodes = (0..NODES).map(|_| RedisServer::options().append_only("everysec"));
        for file in log_files(&setting.to)
            .iter()
            .chain([&setting.to.join(RECORD)])
        {
            // Of an earlier run: these are added to.
            std::fs::remove_file(file).ok();
        }
        let mut fleet = Fleet::of(nodes);
        if setting.chaos {
            fleet = fleet.behind_proxies();
        }
        let database = Postgres::start();
        let locks = (!setting.without_locks).then(|| fleet.lock_nodes());
        let service =
            |log: &PathBuf| Payments::new(database.url(), locks.clone(), SCARCE_PIECES, log);
        let mut services: Vec<_> = log_files(&setting.to).iter().map(service).collect();
        for service in &mut services {
            service.start().await;
            let ready = || async {
                match service.is_ready().await {
                    Ok(true) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            };
            eventually_async(DEADLINE, "a service is ready", ready).await;
        }
        Self {
            fleet,
            services,
            database,
            began: Instant::now(),
        }
    }

    /// Besides the product that the example knows, of which there is little: so many of which there is enough.
    fn stock_up(&self, products: u32) -> BTreeMap<i64, i64> {
        self.database.query(&format!(
            "INSERT INTO products SELECT id, {PIECES} FROM generate_series(1, {products}) AS id"
        ));
        let plenty = (1..=products).map(|id| (i64::from(id), i64::from(PIECES)));
        plenty.chain([(SCARCE, i64::from(SCARCE_PIECES))]).collect()
    }

    async fn load(
        &mut self,
        setting: &Setting,
    ) -> (ExitStatus, Vec<String>, Vec<Order>, Vec<Fault>) {
        let record = setting.to.join(RECORD);
        let log = setting.to.join("k6.log");
        let errors = File::create(&log);
        let errors = errors.unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let mut command = k6();
        command
            .args([
                "--quiet",
                "--no-color",
                "--log-format",
                "raw",
                "--console-output",
            ])
            .arg(&record)
            .arg(SCRIPT)
            .stderr(errors)
            .envs(self.customers(setting));
        let wall = SystemTime::now();
        self.began = Instant::now();
        let mut customers = Peer::start(command);
        let mut faults = Vec::new();
        if setting.chaos {
            for planned in plan(setting.ramp(), setting.hold) {
                faults.push(self.trouble(planned).await);
            }
        }
        let rest = setting.whole().saturating_sub(self.began.elapsed());
        let (status, summary) = customers.finish_within(rest + PATIENCE).await;
        let lines = std::fs::read_to_string(&record)
            .unwrap_or_else(|error| panic!("k6: {status}, {error}, see {}", log.display()));
        let orders = orders::read(&lines, wall).unwrap_or_else(|error| panic!("{error}"));
        (status, summary, orders, faults)
    }

    fn customers(&self, setting: &Setting) -> Vec<(&'static str, String)> {
        let services: Vec<_> = self.services.iter().map(Payments::url).collect();
        let products = (1..=i64::from(setting.products)).chain([SCARCE]);
        let products: Vec<_> = products.map(|id| id.to_string()).collect();
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        vec![
            ("VUS", setting.vus.to_string()),
            ("RAMP", millis(setting.ramp())),
            ("HOLD", millis(setting.hold)),
            ("BASE_URLS", services.join(",")),
            ("PRODUCTS", products.join(",")),
            ("SCARCE", SCARCE.to_string()),
            ("CHAOS", u8::from(setting.chaos).to_string()),
            ("RECORD", "1".to_owned()),
        ]
    }

    /// Waits for its time; returns when it really began and ended.
    async fn trouble(&mut self, planned: Fault) -> Fault {
        let Fault { trouble, from, to } = planned;
        let name = trouble.name();
        sleep_until((self.began + from).into()).await;
        let from = self.began.elapsed();
        trouble.begin(self);
        println!("after {:.1} s: {name}", from.as_secs_f64());
        sleep_until((self.began + to).into()).await;
        trouble.end(self).await;
        let to = self.began.elapsed();
        println!("after {:.1} s: no longer {name}", to.as_secs_f64());
        Fault { trouble, from, to }
    }

    /// What is on the nodes when the locks of those who were killed have run out; they are given the time for it.
    async fn keys_left(&self) -> Vec<String> {
        let end = Instant::now() + DEADLINE;
        loop {
            let keys = self.keys();
            if keys.is_empty() || Instant::now() > end {
                return keys;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn keys(&self) -> Vec<String> {
        let keys = self.fleet.servers().iter().flat_map(|server| {
            let node = server.name();
            let keys = server.keys("*").into_iter();
            keys.filter(|key| !lock_tests::fleet::is_kept(key))
                .map(move |key| format!("{node}: {key}"))
        });
        keys.collect()
    }

    fn versions(&self) -> Versions {
        let info: redis::InfoDict = self.fleet.servers()[0].command(&["INFO", "server"]);
        let k6 = Command::new(k6().get_program()).arg("version").output();
        let k6 = k6.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let k6 = k6.unwrap_or_default();
        Versions {
            redis: info.get("redis_version").unwrap_or_default(),
            database: self.database.query("SHOW server_version"),
            k6: k6.split_whitespace().nth(1).unwrap_or_default().to_owned(),
        }
    }
}
