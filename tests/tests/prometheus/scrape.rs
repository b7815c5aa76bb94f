//! A real Prometheus scrapes the service while everything goes wrong that there are alerts for, and then answers every question of
//! dashboard and rules.

use super::dashboard::{dashboard, questions, substituted};
use super::{deploy, files, list, read, text, yaml};
use lock_tests::http::{Response, answer, ask, send, try_ask};
use lock_tests::processes::{Peer, example, python};
use lock_tests::prometheus::{Prometheus, RedisExporter, Series, promtool};
use lock_tests::{DEADLINE, Disk, Fleet, RedisServer, eventually, eventually_async};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// The lock that the service takes to sell its product.
const KEY: &str = "product:9921";

const ORDER: &str = r#"{"product_id": 9921, "user_id": 7}"#;

/// There is no such product.
const NO_ORDER: &str = r#"{"product_id": 1, "user_id": 7}"#;

/// Longer than the whole test takes.
const ALL: u64 = 120;

/// For what is scraped, evaluated and asked: some rounds of each.
const SEEN: Duration = DEADLINE.saturating_mul(2);

/// A process of the service.
struct Service {
    _process: Peer,
    address: String,
}

impl Service {
    async fn start(shop: &Path, nodes: &str) -> Self {
        let mut command = example("payments");
        command
            .env("LOCK_NODES", nodes)
            .args(["--listen", "127.0.0.1:0", "--stock", "1000"])
            .arg("--database")
            .arg(file(shop));
        let mut process = Peer::start(command);
        let line = process.line().await;
        let address = line.strip_prefix("listening on ").expect(&line).to_owned();
        Self {
            _process: process,
            address,
        }
    }

    async fn order(&self) -> Response {
        ask(&self.address, "POST /v1/checkout", ORDER).await
    }

    /// An order that is under way.
    async fn ordered(&self) -> TcpStream {
        send(&self.address, "POST /v1/checkout", ORDER).await
    }

    async fn page(&self) -> Response {
        ask(&self.address, "GET /metrics", "").await
    }

    async fn is_ready(&self) -> Result<(), String> {
        match try_ask(&self.address, "GET /ready", "").await {
            Ok(answer) if answer.status == 200 => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    }
}

fn file(shop: &Path) -> PathBuf {
    shop.join("payments.db")
}

/// Another program that keeps everybody else from writing to the shop's database, when it is told to.
struct Writer(Peer);

impl Writer {
    fn start(shop: &Path) -> Self {
        const WRITE: &str = "
import sqlite3, sys
shop = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
for line in sys.stdin:
    shop.execute(line)
    print(line.strip(), flush=True)
";
        let mut command = python(&["redis"]);
        command.args(["-c", WRITE]).arg(file(shop));
        Self(Peer::start(command))
    }

    async fn keep_others_out(&mut self) {
        self.does("BEGIN IMMEDIATE").await;
    }

    async fn let_others_in(&mut self) {
        self.does("ROLLBACK").await;
    }

    async fn does(&mut self, statement: &str) {
        self.0.say(statement);
        self.0.expect(statement).await;
    }
}

/// Two processes of the service on five nodes, and who watches over them.
struct Stage {
    fleet: Fleet,
    services: [Service; 2],
    writer: Writer,
    prometheus: Prometheus,
    _exporter: RedisExporter,
    _shop: TempDir,
}

impl Stage {
    async fn set() -> Self {
        let options = || RedisServer::options().argument("--maxmemory", "64mb");
        let fleet = Fleet::of((0..5).map(|_| options()));
        let shop = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        let nodes = fleet.lock_nodes();
        let (one, two, exporter) = tokio::join!(
            Service::start(shop.path(), &nodes),
            Service::start(shop.path(), &nodes),
            RedisExporter::start(),
        );
        let services = [one, two];
        let prometheus = watch(&services, &fleet, &exporter).await;
        let stage = Self {
            writer: Writer::start(shop.path()),
            fleet,
            services,
            prometheus,
            _exporter: exporter,
            _shop: shop,
        };
        stage.is_seen("count(up == 1) == 7").await;
        stage.is_ready().await;
        stage
    }

    async fn is_ready(&self) {
        for service in &self.services {
            eventually_async(DEADLINE, "the service is ready", || service.is_ready()).await;
        }
    }

    /// Waits until an expression has a value.
    async fn is_seen(&self, expression: &str) {
        eventually_async(SEEN, expression, || async {
            match self.prometheus.query(expression).await {
                Ok(series) if !series.is_empty() => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        })
        .await;
    }

    /// Waits until the order in hand has its lock on all nodes.
    async fn is_locked(&self) {
        eventually(DEADLINE, "all nodes have the lock", || {
            self.fleet.nodes_with(KEY) == 5
        })
        .await;
    }

    /// Prometheus has nothing to say against the page, neither its form nor its names.
    async fn is_readable(&self) {
        let page = self.services[0].page().await;
        let format = page.header("Content-Type");
        assert_eq!(format, Some("text/plain; version=0.0.4; charset=utf-8"));
        let mut check = promtool();
        let mut check = check
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool can be run");
        let input = check.stdin.take().expect("it was started with a pipe");
        write!(&input, "{}", page.body).expect("promtool reads");
        drop(input);
        let output = check.wait_with_output().expect("promtool ends");
        let against = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{against}\n{}", page.body);
    }

    /// Both processes sell, and one hands a lock over to those who wait in it.
    async fn sells(&self) {
        for service in &self.services {
            for _ in 0..5 {
                assert_eq!(service.order().await.status, 200);
            }
        }
        let [first, _] = &self.services;
        let none = "lock_handovers_total{name=\"payments::shop::checkout\"} 0\n";
        // A lock goes on while it is new, so the bodies have to be short.
        let order = || ask(&first.address, "POST /v1/checkout", NO_ORDER);
        eventually_async(DEADLINE, "a lock is handed over", || async {
            let orders = tokio::join!(order(), order(), order(), order());
            let orders = <[Response; 4]>::from(orders);
            assert!(orders.iter().all(|order| order.status == 404), "{orders:?}");
            !first.page().await.body.contains(none)
        })
        .await;
        self.is_seen("sum(lock_handovers_total) > 0").await;
        self.is_seen(r#"sum(payments_requests_total{status="200"}) == 10"#)
            .await;
    }

    /// A body takes long: it is renewed, and whoever waits elsewhere waits in vain.
    async fn waits_in_vain(&mut self) {
        let [first, second] = &self.services;
        self.writer.keep_others_out().await;
        let order = first.ordered().await;
        self.is_locked().await;
        assert_eq!(second.order().await.status, 429);
        self.writer.let_others_in().await;
        assert_eq!(answer(order).await.status, 200);
        self.is_seen(r#"sum(lock_renewals_total{outcome="renewed"}) > 0"#)
            .await;
    }

    /// Somebody takes the lock away while a body runs.
    async fn loses(&mut self) {
        let [first, _] = &self.services;
        self.writer.keep_others_out().await;
        let order = first.ordered().await;
        self.is_locked().await;
        for node in self.fleet.servers() {
            node.command::<()>(&["SET", KEY, "somebody else", "PX", "60000"]);
        }
        assert_eq!(answer(order).await.status, 503);
        self.writer.let_others_in().await;
        for node in self.fleet.servers() {
            node.command::<()>(&["DEL", KEY]);
        }
    }

    /// A majority stops while a body runs: its release is not confirmed, and nobody else can lock.
    async fn has_no_quorum(&mut self) {
        let [first, second] = &self.services;
        self.writer.keep_others_out().await;
        let order = first.ordered().await;
        self.is_locked().await;
        let majority = &self.fleet.servers()[..3];
        majority.iter().for_each(RedisServer::pause);
        self.writer.let_others_in().await;
        assert_eq!(second.order().await.status, 503);
        assert_eq!(answer(order).await.status, 200);
        self.is_seen("sum(lock_releases_failed_total) > 0").await;
        self.is_seen(r#"ALERTS{alertname="LockQuorumLost", alertstate="pending"}"#)
            .await;
        majority.iter().for_each(RedisServer::resume);
        self.is_ready().await;
    }

    /// A node is killed and comes back empty.
    async fn loses_a_node(&self) {
        let node = &self.fleet.servers()[4];
        let name = node.name();
        node.kill();
        self.is_seen(&format!(
            r#"ALERTS{{alertname="LockNodeDown", node="{name}", alertstate="pending"}}"#
        ))
        .await;
        node.restart(Disk::Lose).await;
        self.is_seen(&format!(
            r#"node:lock_node_up:max{{node="{name}"}} == 1 and on (node) node:lock_node_votes:max == 0"#
        ))
        .await;
    }

    /// What somebody who looks at it sees of an expression, or what is wrong with it.
    async fn looks(&self, expression: &str, instant: bool) -> Result<(), String> {
        let series = if instant {
            self.prometheus.query(expression).await?
        } else {
            self.prometheus.query_range(expression, ALL).await?
        };
        if series.iter().any(Series::says_something) {
            Ok(())
        } else {
            Err(format!("no data: {series:?}"))
        }
    }

    async fn answers_the_dashboard(&self) {
        let dashboard = dashboard();
        let questions = questions(&dashboard);
        assert!(questions.len() >= 25, "{}", questions.len());
        for question in questions {
            let what = format!("{}: {}", question.title, question.expression);
            eventually_async(SEEN, &what, || {
                self.looks(&question.expression, question.instant)
            })
            .await;
        }
        for annotation in list(&dashboard["annotations"]["list"]) {
            let expression = text(&annotation["expr"]);
            eventually_async(SEEN, expression, || self.looks(expression, false)).await;
        }
        for variable in list(&dashboard["templating"]["list"]) {
            if variable["type"] == "query" {
                self.offers(text(&variable["query"]["query"])).await;
            }
        }
    }

    /// The values of a variable, from which somebody who looks at the dashboard chooses.
    async fn offers(&self, query: &str) {
        let arguments = query.strip_prefix("label_values(");
        let arguments = arguments.and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) = arguments
            .and_then(|arguments| arguments.rsplit_once(", "))
            .unwrap_or_else(|| panic!("not of the form that is known here: {query}"));
        let path = format!("label/{label}/values");
        let selector = substituted(selector);
        let values = self.prometheus.api(&path, &[("match[]", &selector)]).await;
        let values = values.unwrap_or_else(|error| panic!("{query}: {error}"));
        // Outside of Kubernetes there is none, and then nothing is selected by it.
        assert_eq!(list(&values).is_empty(), label == "namespace", "{query}");
    }

    /// Prometheus evaluates each rule without an error, and what is recorded is there.
    async fn follows_the_rules(&self) {
        let groups = self.prometheus.api("rules", &[]).await.expect("rules");
        let mut evaluated = 0;
        for group in list(&groups["groups"]) {
            for rule in list(&group["rules"]) {
                assert_eq!(rule["health"], "ok", "{rule}");
                evaluated += 1;
            }
        }
        let mut written = 0;
        for file in files("prometheus/rules") {
            for group in list(&yaml(&file)["groups"]) {
                for rule in list(&group["rules"]) {
                    written += 1;
                    let expression = text(&rule["expr"]);
                    if let Some(name) = rule["record"].as_str() {
                        eventually_async(SEEN, name, || self.looks(name, false)).await;
                    } else {
                        let answer = self.prometheus.query(expression).await;
                        assert!(answer.is_ok(), "{answer:?}: {expression}");
                    }
                }
            }
        }
        assert_eq!(evaluated, written);
    }
}

/// A Prometheus with the example's configuration and rules: other addresses, and two looks a second.
async fn watch(services: &[Service; 2], fleet: &Fleet, exporter: &RedisExporter) -> Prometheus {
    let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    let rules = directory.path().join("rules");
    std::fs::create_dir(&rules).expect("the directory is ours");
    for rule in files("prometheus/rules") {
        let name = rule.file_name().expect("a file");
        std::fs::copy(&rule, rules.join(name)).expect("the directory is ours");
    }
    let [one, two] = services;
    let mut changes = vec![
        (
            "scrape_interval: 15s".to_owned(),
            "scrape_interval: 500ms".to_owned(),
        ),
        (
            "scrape_timeout: 5s".to_owned(),
            "scrape_timeout: 500ms".to_owned(),
        ),
        (
            "evaluation_interval: 15s".to_owned(),
            "evaluation_interval: 500ms".to_owned(),
        ),
        ("127.0.0.1:8081".to_owned(), one.address.clone()),
        ("127.0.0.1:8082".to_owned(), two.address.clone()),
        ("127.0.0.1:9121".to_owned(), exporter.address()),
        // Nobody is notified.
        (
            "targets: [\"127.0.0.1:9093\"]".to_owned(),
            "targets: []".to_owned(),
        ),
    ];
    for (number, node) in (7001..).zip(fleet.servers()) {
        changes.push((format!("127.0.0.1:{number}"), node.name()));
    }
    let mut configuration = read(&deploy("prometheus/prometheus.yml"));
    for (from, to) in changes {
        assert_eq!(configuration.matches(&from).count(), 1, "{from}");
        configuration = configuration.replace(&from, &to);
    }
    Prometheus::start(directory, &configuration).await
}

/// Keeps the machine busy with nine processes.
mod heavy {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_question_has_an_answer_once_everything_has_gone_wrong() {
        let mut stage = Stage::set().await;
        stage.sells().await;
        stage.is_readable().await;
        stage.waits_in_vain().await;
        stage.loses().await;
        stage
            .is_seen(r#"ALERTS{alertname="LockLost", reason="taken", alertstate="firing"}"#)
            .await;
        stage.has_no_quorum().await;
        stage.loses_a_node().await;
        stage.answers_the_dashboard().await;
        stage.follows_the_rules().await;
    }
}
