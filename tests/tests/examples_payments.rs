//! The example `payments` as users run it: processes on one database sell what there is and not one more, and each
//! answer says what became of the order.

use lock_tests::http::{Response, answer, ask, send, try_ask};
use lock_tests::processes::{Peer, example, python};
use lock_tests::version::acquire_command;
use lock_tests::{DEADLINE, Fleet, Postgres, RedisServer, eventually, eventually_async};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(30);

/// The lock that the example takes to sell its product.
const KEY: &str = "product:9921";

/// How long a service may take to end, by its help.
const AT_MOST: Duration = Duration::from_secs(23);

const ORDER: &str = r#"{"product_id": 9921, "user_id": 7}"#;

/// A new database file.
struct Shop(TempDir);

impl Shop {
    fn new() -> Self {
        Self(TempDir::with_prefix("lock-tests-").expect("a temporary directory"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("payments.db")
    }

    /// The example on this file and on embedded nodes, whatever the environment of the tests says.
    fn service(&self) -> Command {
        let mut command = service();
        command.arg("--database").arg(self.file());
        command
    }

    /// What is in the file once the services have closed it.
    async fn assert_has(&self, stock: i64, sold: i64) {
        let found = figures(&self.file()).await;
        assert_eq!(found, (stock, sold), "stock and sales in the file");
    }
}

fn service() -> Command {
    let mut command = example("payments");
    command
        .env_remove("LOCK_NODES")
        .env_remove("DATABASE_URL")
        .args(["--listen", "127.0.0.1:0"]);
    command
}

/// Stock and sales, as another program than the example reads them.
async fn figures(file: &Path) -> (i64, i64) {
    const READ: &str = "
import sqlite3, sys
shop = sqlite3.connect(sys.argv[1])
for question in 'SELECT stock FROM products WHERE id = 9921', 'SELECT COUNT(*) FROM sales WHERE product_id = 9921':
    print(shop.execute(question).fetchone()[0])
";
    let mut command = python(&["redis"]);
    command.args(["-c", READ]).arg(file);
    let (status, lines) = Peer::start(command).finish().await;
    assert!(status.success(), "{status}: {lines:?}");
    let figure = |line: &String| line.parse().expect("a number");
    match &lines[..] {
        [stock, sold] => (figure(stock), figure(sold)),
        _ => panic!("not two numbers: {lines:?}"),
    }
}

/// A running service.
struct Service {
    process: Peer,
    address: String,
}

impl Service {
    async fn start(command: Command) -> Self {
        Self::listening(Peer::start(command)).await
    }

    /// Two processes that start at the same time.
    async fn start_two(command: impl Fn() -> Command) -> [Self; 2] {
        let [one, two] = [command(), command()].map(Peer::start);
        [Self::listening(one).await, Self::listening(two).await]
    }

    async fn listening(mut process: Peer) -> Self {
        let line = process.line().await;
        let address = line.strip_prefix("listening on ").expect(&line).to_owned();
        Self { process, address }
    }

    async fn get(&self, path: &str) -> Response {
        self.ask(&format!("GET {path}"), "").await
    }

    async fn order(&self, order: &str) -> Response {
        self.ask("POST /v1/checkout", order).await
    }

    async fn ask(&self, what: &str, body: &str) -> Response {
        ask(&self.address, what, body).await
    }

    #[track_caller]
    fn assert_has(&self, stock: u32, sold: usize) -> impl Future<Output = ()> {
        let expected = format!(r#"{{"stock":{stock},"sold":{sold}}}"#);
        let caller = std::panic::Location::caller();
        async move {
            let found = self.get("/v1/products/9921").await;
            let found = (found.status, found.body.as_str());
            assert_eq!(found, (200, expected.as_str()), "at {caller}");
        }
    }

    /// Waits until it says whether it is ready.
    async fn wait_for_ready(&self, status: u16) {
        let what = format!("GET /ready answers {status}");
        eventually_async(DEADLINE, &what, || async {
            match try_ask(&self.address, "GET /ready", "").await {
                Ok(found) if found.status == status => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .await;
    }

    /// It ends by itself, in order, and has written nothing but its address.
    async fn assert_ends(&mut self) {
        let (status, lines) = self.process.finish().await;
        assert_eq!((status.code(), lines), (Some(0), Vec::new()));
    }

    async fn stop(mut self) {
        self.process.terminate();
        self.assert_ends().await;
    }
}

#[tokio::test]
async fn the_command_line_is_explained_and_checked() {
    let shop = Shop::new();
    let run = async |arguments: &[&str], url: &str| {
        let mut command = example("payments");
        command.args(arguments).current_dir(shop.0.path());
        command.env("DATABASE_URL", url);
        let (status, lines) = Peer::start(command).finish().await;
        (status.code(), lines)
    };
    let postgres = "postgres://localhost/shop";
    let (code, lines) = run(&["--help"], postgres).await;
    assert_eq!(code, Some(0));
    for word in [
        "--listen",
        "--stock",
        "--database",
        "DATABASE_URL",
        "LOCK_NODES",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(word)),
            "{word}: {lines:?}"
        );
    }
    let refused = (Some(2), Vec::new());
    assert_eq!(run(&["--stock", "-1"], postgres).await, refused);
    assert_eq!(run(&["--listen", "here"], postgres).await, refused);
    assert_eq!(run(&["--nonsense"], postgres).await, refused);
    assert_eq!(run(&[], "mysql://localhost/shop").await, refused);
    let written = std::fs::read_dir(shop.0.path())
        .expect("it is ours")
        .count();
    assert_eq!(written, 0, "no database was made");
}

#[tokio::test]
async fn orders_are_sold_refused_as_unreadable_unknown_or_sold_out() {
    let shop = Shop::new();
    let mut command = shop.service();
    command.args(["--stock", "1"]);
    let service = Service::start(command).await;
    assert_eq!(service.get("/ready").await.status, 200);
    assert_eq!(service.get("/v1/products/1").await.status, 404);
    let unknown = r#"{"product_id": 1, "user_id": 7}"#;
    assert_eq!(service.order(unknown).await.status, 404);
    assert_eq!(service.order("{").await.status, 400);
    assert_eq!(service.order(r#"{"product_id": 9921}"#).await.status, 422);
    service.assert_has(1, 0).await;

    let sold = service.order(ORDER).await;
    let receipt = r#"{"product_id":9921,"user_id":7,"stock":0}"#;
    assert_eq!((sold.status, sold.body.as_str()), (200, receipt));
    assert_eq!(service.order(ORDER).await.status, 409);
    service.assert_has(0, 1).await;
    service.stop().await;

    // Another stock is only for a new database.
    let service = Service::start(shop.service()).await;
    service.assert_has(0, 1).await;
    service.stop().await;
    shop.assert_has(0, 1).await;
}

#[tokio::test]
async fn a_lock_that_is_held_elsewhere_is_429_with_the_time_to_come_back() {
    let (shop, fleet) = (Shop::new(), Fleet::start(5));
    let lease = fleet.manager().lock(KEY).ttl(TTL).wait(DEADLINE).acquire();
    let lease = lease.await.expect("free");
    let mut command = shop.service();
    command.env("LOCK_NODES", fleet.lock_nodes());
    let service = Service::start(command).await;
    service.wait_for_ready(200).await;

    let busy = service.order(ORDER).await;
    assert_eq!(busy.status, 429, "{busy:?}");
    let seconds = busy.header("Retry-After").map(str::parse);
    let seconds: u64 = seconds.expect("a header").expect("whole seconds");
    assert!((1..=TTL.as_secs()).contains(&seconds), "{seconds}");
    service.assert_has(50, 0).await;

    lease.release().await.expect("released");
    assert_eq!(service.order(ORDER).await.status, 200);
    service.assert_has(49, 1).await;
    service.stop().await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn without_a_majority_of_nodes_orders_are_503_and_sell_nothing() {
    let (shop, fleet) = (Shop::new(), Fleet::start(5));
    let mut command = shop.service();
    command.env("LOCK_NODES", fleet.lock_nodes());
    let service = Service::start(command).await;
    service.wait_for_ready(200).await;
    let majority = &fleet.servers()[..3];
    // Stopped and not killed: nodes that come back empty would be kept out for a minute.
    majority.iter().for_each(RedisServer::pause);
    service.wait_for_ready(503).await;

    let refused = service.order(ORDER).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("Retry-After"), None);
    service.assert_has(50, 0).await;
    // Whoever restarts it or looks at it now finds it well, and what ails it.
    assert_eq!(service.get("/live").await.status, 200);
    let page = service.get("/metrics").await;
    assert_eq!(page.status, 200);
    for line in [
        r#"lock_acquisitions_total{name="payments::shop::checkout",outcome="no_quorum"} 1"#,
        r#"payments_requests_total{status="503"} 1"#,
    ] {
        assert!(page.body.lines().any(|is| is == line), "{}", page.body);
    }

    majority.iter().for_each(RedisServer::resume);
    service.wait_for_ready(200).await;
    assert_eq!(service.order(ORDER).await.status, 200);
    service.assert_has(49, 1).await;
    service.stop().await;
    shop.assert_has(49, 1).await;
    fleet.assert_no_keys("*").await;
}

/// The order that is open waits for a lock which is only released once the service has been told to end.
#[tokio::test]
async fn a_service_that_is_told_to_end_finishes_its_open_orders() {
    let fleet = Fleet::start(5);
    for hangs_up in [false, true] {
        let shop = Shop::new();
        let mut command = shop.service();
        command.env("LOCK_NODES", fleet.lock_nodes());
        let mut service = Service::start(command).await;
        service.wait_for_ready(200).await;
        let lease = fleet.manager().lock(KEY).ttl(TTL).wait(DEADLINE).acquire();
        let lease = lease.await.expect("free");
        eventually(DEADLINE, "all nodes have the lock", || {
            fleet.nodes_with(KEY) == 5
        })
        .await;
        fleet.servers()[0].reset_command_stats();

        let order = send(&service.address, "POST /v1/checkout", ORDER).await;
        eventually(DEADLINE, "the service asks for the lock", || {
            let stats = fleet.servers()[0].command_stats();
            stats.contains_key(acquire_command())
        })
        .await;
        let order = Some(order).filter(|_| !hangs_up);
        service.process.terminate();
        service.wait_for_ready(503).await;
        // It is looked at until its end, and sells nothing more.
        assert_eq!(service.get("/live").await.status, 200);
        let page = service.get("/metrics").await;
        let waits = r#"lock_waiters{name="payments::shop::checkout"} 1"#;
        assert!(page.body.contains(waits), "{}", page.body);
        assert_eq!(service.order(ORDER).await.status, 503);
        lease.release().await.expect("released");
        if let Some(order) = order {
            let sold = answer(order).await;
            assert_eq!(sold.status, 200, "{sold:?}");
        }
        service.assert_ends().await;
        shop.assert_has(49, 1).await;
        fleet.assert_no_keys("*").await;
    }
}

/// A request waits for a row that somebody else has and does not give back. It cannot be answered, and the service ends without.
#[tokio::test]
async fn a_database_that_does_not_answer_keeps_no_service_from_ending() {
    let postgres = Postgres::start();
    let mut command = service();
    command.env("DATABASE_URL", postgres.url());
    let mut service = Service::start(command).await;
    let mut other = Peer::start(postgres.client());
    other.say("BEGIN; LOCK TABLE products;");
    other.expect("BEGIN").await;
    other.expect("LOCK TABLE").await;

    let _asked = send(&service.address, "GET /v1/products/9921", "").await;
    eventually(DEADLINE, "the database owes an answer", || {
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        postgres.query(waiting) == "1"
    })
    .await;
    service.process.terminate();
    let (status, _) = service.process.finish_within(2 * AT_MOST).await;
    assert_eq!(status.code(), Some(0));
}

/// Each of these keeps the machine busy for some seconds.
mod heavy {
    use super::*;

    const STOCK: usize = 50;
    const CLIENTS: usize = 200;

    /// For all clients together.
    const PATIENCE: Duration = Duration::from_secs(100);

    /// A client who comes back until there is a piece for him or there are none left.
    async fn buy(address: String, user: usize) -> u16 {
        let order = format!(r#"{{"product_id": 9921, "user_id": {user}}}"#);
        loop {
            let response = ask(&address, "POST /v1/checkout", &order).await;
            match response.status {
                // Sooner than `Retry-After` says, which is for those who do not press.
                429 | 503 => sleep(Duration::from_millis(50)).await,
                200 | 409 => return response.status,
                _ => panic!("user {user}: {response:?}"),
            }
        }
    }

    /// All clients at once, every other one at the other service: how many were told that they have bought.
    async fn rush(services: &[Service; 2]) -> usize {
        let mut clients = tokio::task::JoinSet::new();
        for user in 0..CLIENTS {
            clients.spawn(buy(services[user % 2].address.clone(), user));
        }
        let statuses = timeout(PATIENCE, clients.join_all()).await;
        let statuses = statuses.expect("every client has an answer in time");
        assert_eq!(statuses.len(), CLIENTS);
        statuses.iter().filter(|status| **status == 200).count()
    }

    async fn sell_exactly_the_stock(services: [Service; 2], fleet: &Fleet) {
        for service in &services {
            service.wait_for_ready(200).await;
        }
        assert_eq!(rush(&services).await, STOCK);
        for service in services {
            service.assert_has(0, STOCK).await;
            service.stop().await;
        }
        fleet.assert_no_keys("*").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_processes_on_one_file_sell_exactly_the_stock() {
        let (shop, fleet) = (Shop::new(), Fleet::start(5));
        let services = Service::start_two(|| {
            let mut command = shop.service();
            command.env("LOCK_NODES", fleet.lock_nodes());
            command
        })
        .await;
        sell_exactly_the_stock(services, &fleet).await;
        shop.assert_has(0, 50).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_processes_on_one_postgresql_sell_exactly_the_stock() {
        let (postgres, fleet) = (Postgres::start(), Fleet::start(5));
        let services = Service::start_two(|| {
            let mut command = service();
            command
                .env("DATABASE_URL", postgres.url())
                .env("LOCK_NODES", fleet.lock_nodes());
            command
        })
        .await;
        sell_exactly_the_stock(services, &fleet).await;
        let products = "SELECT id, stock FROM products";
        assert_eq!(postgres.query(products), "9921|0");
        let sales = "SELECT product_id, COUNT(*), COUNT(DISTINCT user_id) FROM sales GROUP BY 1";
        assert_eq!(postgres.query(sales), "9921|50|50");
    }

    /// Shows that the two tests above can fail: what is missing here is only the common lock.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_processes_that_lock_only_themselves_sell_too_much() {
        let shop = Shop::new();
        let services = Service::start_two(|| shop.service()).await;
        let sold = rush(&services).await;
        assert!(sold > STOCK, "only {sold} were sold");
        for service in services {
            service.stop().await;
        }
        let (_, sales) = figures(&shop.file()).await;
        assert_eq!(usize::try_from(sales), Ok(sold));
    }
}
