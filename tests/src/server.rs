//! One real `redis-server` on a loopback port of its own.

mod tls;
mod user;

use crate::leash::LeashedChild;
use crate::port::ReservedPort;
use crate::wait::{DEADLINE, eventually, eventually_blocking};
use crate::wall_clock::WallClock;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tls::Tls;

/// What bind says when somebody outside the harness took the port.
const PORT_TAKEN: &str = "Address already in use";
const START_ATTEMPTS: usize = 5;

/// Servers before 7.0 cannot be told another port for their cluster's bus.
const BUS_IS_HIGHER: u16 = 10_000;

/// A `redis-server` that this process started, killed when this is dropped and also when this process dies.
///
/// The binary is `$LOCK_REDIS_BIN`, else `redis-server` on the `PATH`; `$LOCK_REDIS_TLS_BIN` where that was built without TLS and
/// a test is about it. Nothing is saved unless the options say so. The
/// library logs in as the README's user, who is on every server and may do no more than the README says; the harness asks as
/// the default user. When it ends, the server says whether it refused that user something, and the test fails if it did.
pub struct RedisServer {
    options: Options,
    port: ReservedPort,
    /// For TLS, or where clients come by TLS alone, for the harness.
    other_port: Option<ReservedPort>,
    /// Where the servers of a cluster talk to one another.
    _bus_port: Option<ReservedPort>,
    directory: TempDir,
    /// Another version of the server may take over its files.
    binary: Mutex<OsString>,
    process: Mutex<Process>,
    pub(crate) questions: Mutex<Option<redis::Connection>>,
}

/// How a server is started; see [`RedisServer::options`].
#[derive(Clone, Debug, Default)]
pub struct Options {
    password: Option<String>,
    everything: bool,
    more_rules: Vec<String>,
    arguments: Vec<String>,
    tls: Option<Tls>,
    sentinel: Option<String>,
    in_cluster: bool,
    clock: Option<WallClock>,
    binary: Option<OsString>,
}

/// What a restarted server finds of the data it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// What the last [`RedisServer::save`] or the append-only file has.
    Keep,
    /// Nothing.
    Lose,
}

#[derive(Debug)]
enum Process {
    Down,
    Running(LeashedChild),
    Paused(LeashedChild),
}

impl Options {
    /// Clients must give this password; [`RedisServer::url`] has it. They may do everything.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.argument("--requirepass", password)
    }

    /// The harness gives this password, which the server's own configuration wants.
    #[must_use]
    pub(crate) fn asked_with(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The server does not know this command.
    #[must_use]
    pub fn without(mut self, command: &str) -> Self {
        let rename = ["--rename-command", command, ""];
        self.arguments.extend(rename.map(str::to_owned));
        self
    }

    /// Copies what that server has, which needs the same password if it has one.
    #[must_use]
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        let (host, port) = (
            primary.address().ip().to_string(),
            primary.port().to_string(),
        );
        self.arguments
            .extend(["--replicaof".to_owned(), host, port]);
        self
    }

    /// A Sentinel with this configuration, which it goes on writing to; see [`sentinel`](crate::sentinel).
    #[must_use]
    pub(crate) fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = Some(configuration);
        self
    }

    /// A member of a Redis Cluster; see [`Cluster`](crate::Cluster).
    #[must_use]
    pub fn in_cluster(mut self) -> Self {
        self.in_cluster = true;
        self.argument("--cluster-enabled", "yes")
    }

    /// An append-only file that is synced on every write, or once a second as most deployments do.
    #[must_use]
    pub fn append_only(self, fsync: &str) -> Self {
        self.argument("--appendonly", "yes")
            .argument("--appendfsync", fsync)
    }

    /// A wall clock that the test sets.
    #[must_use]
    pub fn clock(mut self, clock: &WallClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Another program than the one that all tests use, for what is about versions; see [`version::installed`](crate::version).
    #[must_use]
    pub fn binary(mut self, binary: &Path) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Any other setting, for example `("--maxmemory", "2mb")`. The last one given wins.
    #[must_use]
    pub fn argument(mut self, name: &str, value: &str) -> Self {
        self.arguments.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> RedisServer {
        RedisServer::start_all([self]).remove(0)
    }

    fn program(&self) -> OsString {
        match &self.binary {
            Some(binary) => binary.clone(),
            None if self.tls.is_some() => binary_with_tls(),
            None => binary(),
        }
    }

    /// A Sentinel has its configuration on disk at every change before it does anything else, and a disk that is busy holds it up
    /// for seconds: where there is one in memory, it has that.
    fn directory(&self) -> TempDir {
        const IN_MEMORY: &str = "/dev/shm";
        const PREFIX: &str = "lock-tests-";
        let in_memory = self.sentinel.is_some() && Path::new(IN_MEMORY).is_dir();
        let directory = if in_memory {
            TempDir::with_prefix_in(PREFIX, IN_MEMORY)
        } else {
            TempDir::with_prefix(PREFIX)
        };
        directory.expect("a temporary directory")
    }
}

impl RedisServer {
    /// Starts a server without persistence and waits until it answers.
    pub fn start() -> Self {
        Self::options().start()
    }

    /// A server with settings of its own: `RedisServer::options().password("s3cret").start()`.
    pub fn options() -> Options {
        Options::default()
    }

    /// Starts several side by side, which takes as long as the slowest of them.
    pub fn start_all(options: impl IntoIterator<Item = Options>) -> Vec<Self> {
        let launched: Vec<Self> = options.into_iter().map(Self::launch).collect();
        launched.into_iter().map(Self::started).collect()
    }

    /// The port, the same over all restarts.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `127.0.0.1:PORT`, as errors name a node.
    pub fn name(&self) -> String {
        self.port.address().to_string()
    }

    /// `redis://USER:PASSWORD@127.0.0.1:PORT`, for the library. Where clients must come by TLS, `rediss://` and the files that they
    /// need.
    pub fn url(&self) -> String {
        self.url_through(&self.name())
    }

    /// The process id, while there is a process.
    pub fn pid(&self) -> Option<u32> {
        match &*self.process() {
            Process::Down => None,
            Process::Running(child) | Process::Paused(child) => Some(child.id()),
        }
    }

    /// Whether the server is up and not paused.
    pub fn is_running(&self) -> bool {
        matches!(*self.process(), Process::Running(_))
    }

    /// Ends the server at once with `SIGKILL`, paused or not; what was not on disk is lost.
    pub fn kill(&self) {
        if let Process::Running(mut child) | Process::Paused(mut child) =
            self.replace(Process::Down)
        {
            child.kill();
        }
    }

    /// Ends the server with `SIGTERM`, as an orderly shutdown does.
    pub fn stop(&self) {
        match self.replace(Process::Down) {
            Process::Running(mut child) => {
                child.signal(Signal::TERM);
                eventually_blocking(DEADLINE, "a server that got SIGTERM ends", || {
                    child.exited()
                });
            }
            other => panic!("{} cannot stop, it is {other:?}", self.name()),
        }
    }

    /// Stops the process with `SIGSTOP`: connections stay open and nothing is answered until [`Self::resume`].
    pub fn pause(&self) {
        match self.replace(Process::Down) {
            Process::Running(mut child) => {
                child.pause();
                self.replace(Process::Paused(child));
            }
            other => panic!("{} cannot pause, it is {other:?}", self.name()),
        }
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        match self.replace(Process::Down) {
            Process::Paused(mut child) => {
                child.signal(Signal::CONT);
                self.replace(Process::Running(child));
            }
            other => panic!("{} cannot resume, it is {other:?}", self.name()),
        }
    }

    /// Starts the server on its port again, after killing it if it is still there, and waits until it answers.
    pub async fn restart(&self, disk: Disk) {
        self.kill();
        if disk == Disk::Lose {
            std::fs::remove_dir_all(self.data_directory()).expect("the data directory is ours");
        }
        self.spawn();
        eventually(DEADLINE, "a restarted server answers", || self.answers()).await;
    }

    /// Ends the server as [`Self::stop`] does, and starts another program on its port and its files.
    pub async fn upgrade(&self, binary: &Path) {
        self.stop();
        *self.binary.lock().unwrap_or_else(PoisonError::into_inner) = binary.into();
        self.restart(Disk::Keep).await;
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    fn launch(options: Options) -> Self {
        let (port, bus_port) = if options.in_cluster {
            let (port, bus_port) = ReservedPort::with_higher(BUS_IS_HIGHER);
            (port, Some(bus_port))
        } else {
            (ReservedPort::new(), None)
        };
        let server = Self {
            port,
            _bus_port: bus_port,
            other_port: options.tls.is_some().then(ReservedPort::new),
            directory: options.directory(),
            binary: Mutex::new(options.program()),
            options,
            process: Mutex::new(Process::Down),
            questions: Mutex::new(None),
        };
        server.write_certificates();
        server.spawn();
        server
    }

    fn started(mut self) -> Self {
        for _ in 0..START_ATTEMPTS {
            let outcome = eventually_blocking(DEADLINE, "a new server answers", || {
                if self.has_exited() {
                    Ok(Err(self.log()))
                } else {
                    self.answers().map(Ok)
                }
            });
            match outcome {
                Ok(()) => return self,
                Err(log) if log.contains(PORT_TAKEN) => self = Self::launch(self.options.clone()),
                Err(log) => panic!("redis-server ended before it answered; its log:\n{log}"),
            }
        }
        panic!("no loopback port could be bound in {START_ATTEMPTS} attempts");
    }

    fn spawn(&self) {
        std::fs::create_dir_all(self.data_directory()).expect("the temporary directory is ours");
        let binary = self.binary.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = Path::new(&*binary);
        let mut command = Command::new(binary);
        if let Some(configuration) = &self.options.sentinel {
            let file = self.data_directory().join("sentinel.conf");
            // What it has written itself is what it goes on from.
            if !file.exists() {
                std::fs::write(&file, configuration).expect("the temporary directory is ours");
            }
            command.arg(file).arg("--sentinel");
        }
        if let Some(clock) = &self.options.clock {
            clock.rule(&mut command);
        }
        command
            .args(["--bind", "127.0.0.1"])
            .args(self.port_arguments())
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.data_directory())
            .arg("--logfile")
            .arg(self.log_file())
            .args(self.options.user_arguments())
            .args(&self.options.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = LeashedChild::spawn(&mut command).unwrap_or_else(|error| {
            panic!(
                "these tests run on real Redis servers and {} cannot be started ({error}). \
                 Run `scripts/test`, which installs it, or `apt-get install redis-server`, \
                 or set LOCK_REDIS_BIN to a redis-server binary.",
                binary.display()
            )
        });
        self.forget_connection();
        self.replace(Process::Running(child));
    }

    /// Answered by our own process: on a port that was taken, a stranger may answer while ours gives up.
    fn answers(&self) -> Result<(), String> {
        let pid = self.pid().ok_or("it is down")?;
        let answering = self.ask_process_id().map_err(|error| error.to_string())?;
        if answering == pid {
            Ok(())
        } else {
            Err(format!("process {answering} answers, not {pid}"))
        }
    }

    fn has_exited(&self) -> bool {
        match &mut *self.process() {
            Process::Down => true,
            Process::Running(child) | Process::Paused(child) => child.exited().is_some(),
        }
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, process: Process) -> Process {
        std::mem::replace(&mut *self.process(), process)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data_directory(&self) -> PathBuf {
        self.file("data")
    }

    fn log_file(&self) -> PathBuf {
        self.file("redis.log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_else(|error| format!("no log: {error}"))
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("name", &self.name())
            .field("process", &*self.process())
            .finish_non_exhaustive()
    }
}

/// Not every server is built with TLS.
fn binary_with_tls() -> OsString {
    std::env::var_os("LOCK_REDIS_TLS_BIN").unwrap_or_else(binary)
}

/// How long one question to a server may take.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(2);

pub(crate) fn binary() -> OsString {
    std::env::var_os("LOCK_REDIS_BIN").unwrap_or_else(|| "redis-server".into())
}
