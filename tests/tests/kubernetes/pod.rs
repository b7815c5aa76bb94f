//! One pod of a rendered workload, run here: its files where its containers look for them, its environment, its commands and
//! probes as the kubelet would run them, as its user and without capabilities.
//!
//! What is different from a cluster: paths of volumes lead into a directory of the test, ports are free ones on loopback, and
//! the programs are those of this machine instead of an image's. So whatever a container writes outside of its volumes is written
//! by a user who owns nothing here.

use crate::render::Rendered;
use crate::rules::values::{containers, list, number, text};
use lock_tests::DEADLINE;
use lock_tests::port::ReservedPort;
use lock_tests::processes::{Peer, example};
use lock_tests::version::installed;
use rustix::process::geteuid;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What the Secrets of a cluster would hold.
pub(crate) type Secrets<'a> = &'a [(&'a str, &'a str)];

pub(crate) struct Pod {
    workload: Value,
    name: String,
    secrets: Vec<(String, String)>,
    directory: TempDir,
    port: ReservedPort,
}

/// How a probe ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    Succeeded(String),
    Failed(String),
    /// Not within its `timeoutSeconds`.
    TimedOut,
}

impl Pod {
    /// The pod of a workload that has this number, with its volumes in place.
    pub(crate) fn new(
        rendered: &Rendered,
        workload: &Value,
        number: usize,
        secrets: Secrets<'_>,
    ) -> Self {
        let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let pod = Self {
            name: format!("{}-{number}", text(&workload["metadata"]["name"])),
            workload: workload.clone(),
            secrets: secrets.iter().map(own).collect(),
            directory,
            port: ReservedPort::new(),
        };
        pod.make_volumes(rendered);
        pod
    }

    /// Where its server listens.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// A file by its path in a container.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        PathBuf::from(self.here(path))
    }

    /// Runs the containers that come before the others; answers with what the one that failed says.
    pub(crate) fn initialize(&self) -> Result<(), String> {
        for container in list(&self.spec()["initContainers"]) {
            let output = self.run(text(&container["name"])).expect_output();
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
        }
        Ok(())
    }

    /// Starts a container, with more arguments than it has.
    pub(crate) fn start(&self, container: &str, more: &[&str]) -> Peer {
        let mut command = self.run(container);
        command.args(more);
        Peer::start(command)
    }

    /// Runs the command of a probe, for as long as it may take.
    pub(crate) fn probe(&self, container: &str, kind: &str) -> Probed {
        let probe = &self.container(container)[kind];
        let command = self.command(container, &probe["exec"]["command"]);
        run_within(
            command,
            Duration::from_secs(number(&probe["timeoutSeconds"])),
        )
    }

    /// Starts what runs before a container is told to end.
    pub(crate) fn pre_stop(&self, container: &str) -> Peer {
        let hook = &self.container(container)["lifecycle"]["preStop"]["exec"]["command"];
        Peer::start(self.command(container, hook))
    }

    /// The value of a variable, once the others are put into it.
    pub(crate) fn variable(&self, container: &str, name: &str) -> String {
        let variables = self.environment(self.container(container));
        let found = variables.into_iter().find(|(it, _)| it == name);
        found
            .unwrap_or_else(|| panic!("{container} has no {name}"))
            .1
    }

    /// How long it has from the first word that it should end until it is killed.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(number(&self.spec()["terminationGracePeriodSeconds"]))
    }

    /// What a container runs: its command, or the program of its image, with its arguments.
    pub(crate) fn run(&self, container: &str) -> Command {
        let content = self.container(container);
        let image = text(&content["image"]).rsplit('/').next();
        let image = image.and_then(|image| image.split(':').next());
        let mut words = list(&content["command"]).to_vec();
        if words.is_empty() {
            words.extend(image.map(Value::from));
        }
        words.extend_from_slice(list(&content["args"]));
        self.command(container, &words.into())
    }

    /// A command in a container, as its user, with its environment and with nothing else.
    fn command(&self, container: &str, words: &Value) -> Command {
        let container = self.container(container);
        let variables = self.environment(container);
        let mut command = Command::new("setpriv");
        command.args(["--no-new-privs", "--inh-caps=-all"]);
        if geteuid().is_root() {
            let id = number(&self.spec()["securityContext"]["runAsUser"]);
            command.args([format!("--reuid={id}"), format!("--regid={id}")]);
            command.args(["--clear-groups", "--bounding-set=-all"]);
        }
        command.arg("--");
        let words = list(words)
            .iter()
            .map(|word| expand(text(word), &variables));
        command.args(words.map(|word| program(&self.here(&word), text(&container["image"]))));
        command.env_clear().current_dir("/");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.envs(variables);
        command
    }

    fn spec(&self) -> &Value {
        &self.workload["spec"]["template"]["spec"]
    }

    fn container(&self, name: &str) -> &Value {
        let mut all = containers(&self.workload);
        let found = all.find(|container| container["name"] == name);
        found.unwrap_or_else(|| panic!("{} has no container {name}", self.name))
    }

    /// In order, as a value may only refer to those before it.
    fn environment(&self, container: &Value) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        for variable in list(&container["env"]) {
            let name = text(&variable["name"]);
            let from = &variable["valueFrom"];
            let value = if let Some(key) = from["secretKeyRef"]["key"].as_str() {
                self.secret(key)
            } else if from["fieldRef"]["fieldPath"] == "metadata.name" {
                self.name.clone()
            } else {
                expand(text(&variable["value"]), &variables)
            };
            variables.push((name.to_owned(), value));
        }
        variables
    }

    fn secret(&self, key: &str) -> String {
        let found = self.secrets.iter().find(|(name, _)| name == key);
        found
            .unwrap_or_else(|| panic!("no Secret has {key}"))
            .1
            .clone()
    }

    fn make_volumes(&self, rendered: &Rendered) {
        let claims = list(&self.workload["spec"]["volumeClaimTemplates"]);
        for claim in claims {
            self.make_volume(text(&claim["metadata"]["name"]));
        }
        for volume in list(&self.spec()["volumes"]) {
            let directory = self.make_volume(text(&volume["name"]));
            let map = volume["configMap"]["name"].as_str();
            let files = map.map(|map| &rendered.get("ConfigMap", map)["data"]);
            for (name, content) in files.and_then(Value::as_object).into_iter().flatten() {
                fs::write(directory.join(name), self.here(text(content))).expect("it is ours");
            }
            if volume["secret"].is_object() {
                self.write_secrets(&directory, &self.secrets);
            }
        }
    }

    /// What the kubelet does when the Secret has changed.
    pub(crate) fn change_secrets(&mut self, secrets: Secrets<'_>) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.secrets = secrets.iter().map(own).collect();
        let directory = self.file("/run/secrets/lock-redis");
        for file in fs::read_dir(&directory).expect("it is ours") {
            fs::remove_file(file.expect("it is ours").path()).expect("it is ours");
        }
        self.write_secrets(&directory, &self.secrets);
    }

    fn write_secrets(&self, directory: &Path, secrets: &[(String, String)]) {
        for (name, value) in secrets {
            let file = directory.join(name);
            fs::write(&file, value).expect("it is ours");
            self.give_away(&file);
        }
    }

    fn make_volume(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join("volumes").join(name);
        fs::create_dir_all(&directory).expect("it is ours");
        self.give_away(&directory);
        directory
    }

    fn give_away(&self, path: &Path) {
        if geteuid().is_root() {
            let id = number(&self.spec()["securityContext"]["runAsUser"]);
            let id = u32::try_from(id).expect("a user id");
            chown(path, Some(id), Some(id)).expect("root gives files away");
        }
    }

    /// A text of a container with the places that they have here.
    fn here(&self, content: &str) -> String {
        let mut mounts: Vec<(&str, &str)> = containers(&self.workload)
            .flat_map(|container| list(&container["volumeMounts"]))
            .map(|mount| (text(&mount["mountPath"]), text(&mount["name"])))
            .collect();
        // `/data` is the end of a path that takes the place of another.
        mounts.sort_unstable_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        mounts.dedup();
        let mut content = content.to_owned();
        for (path, volume) in mounts {
            let there = self.directory.path().join("volumes").join(volume);
            content = content.replace(path, &there.display().to_string());
        }
        let port = self.port.number().to_string();
        content
            .replace("6379", &port)
            .replace("0.0.0.0:8080", &self.address())
    }
}

/// A program by the name that it has in its image. The server is of the image's version, whatever the other tests run with.
fn program(word: &str, image: &str) -> String {
    let path = match word {
        "payments" | "cron" => example(word).get_program().to_owned(),
        "redis_exporter" => exporter(),
        "redis-server" => {
            let (_, version) = image.rsplit_once(':').expect("a version");
            let (version, _patch) = version.rsplit_once('.').expect("a patch");
            installed(version).into()
        }
        _ => word.into(),
    };
    path.into_string().expect("a path in UTF-8")
}

/// That of Debian, which `scripts/test` unpacks.
fn exporter() -> OsString {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../target/prometheus/usr/bin/prometheus-redis-exporter"
    );
    assert!(
        Path::new(path).exists(),
        "there is no {path}: run `scripts/test`, which fetches it"
    );
    path.into()
}

/// `$(NAME)` is the value of a variable that is known, and otherwise stays as it is.
fn expand(value: &str, variables: &[(String, String)]) -> String {
    variables
        .iter()
        .fold(value.to_owned(), |value, (name, is)| {
            value.replace(&format!("$({name})"), is)
        })
}

trait Run {
    fn expect_output(self) -> Output;
}

impl Run for Command {
    fn expect_output(mut self) -> Output {
        let output = self.stdin(Stdio::null()).output();
        output.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

fn run_within(mut command: Command, time: Duration) -> Probed {
    assert!(!time.is_zero() && time < DEADLINE, "{time:?} for a probe");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let started = Instant::now();
    while child.try_wait().expect("our own child").is_none() {
        if started.elapsed() >= time {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
            return Probed::TimedOut;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        Probed::Succeeded(said)
    } else {
        // What Kubernetes shows of it.
        Probed::Failed(said + &String::from_utf8_lossy(&output.stderr))
    }
}
