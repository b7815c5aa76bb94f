//! A Prometheus of a test's own, its `promtool`, and a `redis_exporter`.

use crate::http::{Response, try_ask};
use crate::leash::LeashedChild;
use crate::port::ReservedPort;
use crate::wait::{DEADLINE, eventually_async};
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{File, read_to_string};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A server that this process started, stopped when this is dropped and also when this process dies.
#[derive(Debug)]
pub struct Prometheus {
    server: Server,
}

/// A `redis_exporter`, which is asked with the URL of any server.
#[derive(Debug)]
pub struct RedisExporter {
    server: Server,
}

/// A series of a query's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What tells it from others, by name.
    pub labels: Value,
    /// Its values, oldest first; of an instant query there is one.
    pub values: Vec<f64>,
}

impl Series {
    /// Whether any of its values is a number.
    pub fn says_something(&self) -> bool {
        self.values.iter().any(|value| !value.is_nan())
    }
}

impl Prometheus {
    /// Starts with a configuration, whose files are looked for in the directory, and waits until it serves.
    pub async fn start(directory: TempDir, configuration: &str) -> Self {
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, configuration).expect("the directory is ours");
        let data = directory.path().join("data");
        let server = Server::start("prometheus", directory, |command, address| {
            command
                .arg(argument("--config.file", &file))
                .arg(argument("--storage.tsdb.path", &data))
                .arg(argument("--web.listen-address", address));
        });
        server.serves("/-/ready").await;
        Self { server }
    }

    /// What an expression is now.
    ///
    /// # Errors
    /// What Prometheus says against it.
    pub async fn query(&self, expression: &str) -> Result<Vec<Series>, String> {
        self.series("query", &[("query", expression)]).await
    }

    /// What an expression was in the last `seconds`, one value for each second.
    ///
    /// # Errors
    /// What Prometheus says against it.
    pub async fn query_range(&self, expression: &str, seconds: u64) -> Result<Vec<Series>, String> {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let now = now.expect("after 1970").as_secs();
        let (start, end) = ((now - seconds).to_string(), now.to_string());
        let range = [
            ("query", expression),
            ("start", &start),
            ("end", &end),
            ("step", "1"),
        ];
        self.series("query_range", &range).await
    }

    /// What its HTTP API answers, the part below `data`.
    ///
    /// # Errors
    /// What Prometheus says against it, or that it did not answer.
    pub async fn api(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let mut path = format!("/api/v1/{path}?");
        for (name, value) in query {
            write!(path, "{name}={}&", escaped(value)).expect("a string takes it");
        }
        let answer = self.server.get(&path).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_str(&answer.body)
            .map_err(|error| format!("{error}: {}", answer.body))?;
        if answer["status"] == "success" {
            Ok(answer["data"].take())
        } else {
            Err(answer["error"].as_str().unwrap_or_default().to_owned())
        }
    }

    async fn series(&self, path: &str, query: &[(&str, &str)]) -> Result<Vec<Series>, String> {
        let data = self.api(path, query).await?;
        // A number without labels is a value by itself.
        if data["resultType"] == "scalar" {
            let values = vec![value_of(&data["result"])];
            let labels = Value::Null;
            return Ok(vec![Series { labels, values }]);
        }
        let series = data["result"].as_array().ok_or("no list of series")?;
        let series = series.iter().map(|series| {
            let one = series.get("value").into_iter();
            let many = series.get("values").and_then(Value::as_array);
            let values = one.chain(many.into_iter().flatten());
            Series {
                labels: series["metric"].clone(),
                values: values.map(value_of).collect(),
            }
        });
        Ok(series.collect())
    }
}

impl RedisExporter {
    /// Starts it and waits until it serves.
    pub async fn start() -> Self {
        let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        let server = Server::start(
            "prometheus-redis-exporter",
            directory,
            |command, address| {
                command
                    .args(["-redis.addr", "", "-include-system-metrics"])
                    .arg(argument("-web.listen-address", address));
            },
        );
        server.serves("/health").await;
        Self { server }
    }

    /// Where it is asked, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.server.port.address().to_string()
    }
}

/// A command that runs `promtool`.
pub fn promtool() -> Command {
    Command::new(program("promtool"))
}

#[derive(Debug)]
struct Server {
    port: ReservedPort,
    // In this order, as it writes to its directory until it has ended.
    _process: LeashedChild,
    directory: TempDir,
}

impl Server {
    fn start(name: &str, directory: TempDir, set: impl FnOnce(&mut Command, &str)) -> Self {
        let port = ReservedPort::new();
        let log = File::create(log_file(directory.path())).expect("the directory is ours");
        let program = program(name);
        let mut command = Command::new(&program);
        set(&mut command, &port.address().to_string());
        command
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file of our own"))
            .stderr(log);
        let process = LeashedChild::spawn(&mut command)
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        Self {
            port,
            _process: process,
            directory,
        }
    }

    async fn serves(&self, path: &str) {
        eventually_async(2 * DEADLINE, "a new server serves", || async {
            match self.get(path).await {
                Ok(answer) if answer.status == 200 => Ok(()),
                answer => {
                    let log = read_to_string(log_file(self.directory.path()));
                    Err(format!("{answer:?}; its log: {}", log.unwrap_or_default()))
                }
            }
        })
        .await;
    }

    async fn get(&self, path: &str) -> io::Result<Response> {
        let address = self.port.address().to_string();
        try_ask(&address, &format!("GET {path}"), "").await
    }
}

/// `[time, "value"]`.
fn value_of(pair: &Value) -> f64 {
    let value = pair[1].as_str().map(str::parse);
    value.and_then(Result::ok).unwrap_or(f64::NAN)
}

/// For the query of a URL.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn argument(name: &str, value: impl AsRef<OsStr>) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("server.log")
}

/// In `$LOCK_PROMETHEUS_BIN`, else where `scripts/test` unpacks it.
fn program(name: &str) -> PathBuf {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/prometheus/usr/bin");
    let programs =
        std::env::var_os("LOCK_PROMETHEUS_BIN").map_or_else(|| made.into(), PathBuf::from);
    let program = programs.join(name);
    assert!(
        program.exists(),
        "this test needs {name}, and there is no {}. Run `scripts/test`, which unpacks it, or set LOCK_PROMETHEUS_BIN to the \
         directory of prometheus, promtool and prometheus-redis-exporter.",
        program.display()
    );
    program
}
