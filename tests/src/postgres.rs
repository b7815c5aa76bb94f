//! A real Postgres server of a test's own, for an example that can keep its data in one.

use crate::leash::LeashedChild;
use crate::wait::{DEADLINE, eventually_blocking};
use rustix::process::{Signal, geteuid};
use std::fs::{File, read_dir, read_to_string};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The server's superuser, whose password nobody asks for.
const USER: &str = "tests";

/// `nobody`. Postgres refuses to be run by root.
const UNPRIVILEGED: u32 = 65534;

/// Only a part of the socket's name, as the server does not listen on TCP.
const PORT: &str = "5432";

/// `initdb` is a second or two of work, of which a machine with busy cores makes many.
const SET_UP_DEADLINE: Duration = DEADLINE.saturating_mul(4);

/// A Postgres server with an empty database that this process started, stopped when this is dropped and also when this
/// process dies.
///
/// The programs are in `$LOCK_POSTGRES_BIN`, else where Debian puts them, else on the `PATH`. The server listens on a
/// socket in its own directory, so that it meets no other.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    directory: TempDir,
    server: LeashedChild,
}

impl Postgres {
    /// Makes a database, starts its server and waits until it answers.
    pub fn start() -> Self {
        let programs = programs();
        let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        if geteuid().is_root() {
            chown(directory.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))
                .expect("root gives files away");
        }
        make_database(&programs, directory.path());
        let mut command = command(&programs.join("postgres"), directory.path());
        command
            .args([
                "-D",
                "data",
                "-p",
                PORT,
                "-c",
                "listen_addresses=",
                "-c",
                "fsync=off",
                "-k",
            ])
            .arg(directory.path());
        let server = spawn(&mut command);
        let mut postgres = Self {
            programs,
            directory,
            server,
        };
        eventually_blocking(DEADLINE, "a new PostgreSQL server answers", || {
            let ended = postgres.server.exited();
            let log = || log(postgres.directory.path());
            assert!(ended.is_none(), "PostgreSQL ended: {ended:?}\n{}", log());
            postgres.try_query("SELECT 1")
        });
        postgres
    }

    /// The value of `DATABASE_URL`.
    pub fn url(&self) -> String {
        let socket = self.directory.path().display();
        format!("postgres://{USER}@localhost:{PORT}/postgres?host={socket}")
    }

    /// The socket on which it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(format!(".s.PGSQL.{PORT}"))
    }

    /// What Postgres's own client answers to a statement: a line per row, with `|` between the columns.
    #[track_caller]
    pub fn query(&self, statement: &str) -> String {
        self.try_query(statement)
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Postgres's own client, for what takes more than one statement on one connection: these are read from its input.
    pub fn client(&self) -> Command {
        let mut client = Command::new(self.programs.join("psql"));
        client
            .args(["--no-psqlrc", "--no-align", "--tuples-only"])
            .args(["--username", USER, "--dbname", "postgres", "--port", PORT])
            .arg("--host")
            .arg(self.directory.path());
        client
    }

    fn try_query(&self, statement: &str) -> Result<String, String> {
        let mut client = self.client();
        let output = client
            .args(["--command", statement])
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| missing(Path::new(client.get_program()), &error));
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout)
                .trim_end()
                .to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Ends the processes and the shared memory of the server as well, which SIGKILL leaves to others. That one
        // follows when this does not help.
        if self.server.exited().is_none() {
            self.server.signal(Signal::QUIT);
        }
        let asked = Instant::now();
        while self.server.exited().is_none() && asked.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn make_database(programs: &Path, directory: &Path) {
    let mut command = command(&programs.join("initdb"), directory);
    command
        .args(["-D", "data", "--username", USER, "--auth", "trust"])
        .args(["--encoding", "UTF8", "--no-locale", "--no-sync"]);
    let mut initdb = spawn(&mut command);
    let status = eventually_blocking(SET_UP_DEADLINE, "initdb ends", || initdb.exited());
    assert!(status.success(), "initdb: {status}\n{}", log(directory));
}

/// A program that works in the directory and writes what it has to say to the log there.
fn command(program: &Path, directory: &Path) -> Command {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log_file(directory));
    let log = log.expect("the directory is ours");
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file of our own"))
        .stderr(log);
    if geteuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command
}

fn spawn(command: &mut Command) -> LeashedChild {
    LeashedChild::spawn(command)
        .unwrap_or_else(|error| missing(Path::new(command.get_program()), &error))
}

fn missing(program: &Path, error: &std::io::Error) -> ! {
    panic!(
        "this test runs on a real PostgreSQL server and {} cannot be started ({error}). \
         Run `scripts/test`, which installs it, or `apt-get install postgresql`, \
         or set LOCK_POSTGRES_BIN to the directory that has initdb, postgres and psql.",
        program.display()
    )
}

/// The directory of the programs; empty where the `PATH` has to know.
fn programs() -> PathBuf {
    if let Some(directory) = std::env::var_os("LOCK_POSTGRES_BIN") {
        return directory.into();
    }
    // Debian has a directory for each version and puts none of them on the PATH.
    let versions = read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(version);
    newest.map_or_else(PathBuf::new, |path| path.join("bin"))
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("postgres.log")
}

fn log(directory: &Path) -> String {
    read_to_string(log_file(directory)).unwrap_or_else(|error| format!("no log: {error}"))
}
