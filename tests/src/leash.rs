//! A child process that does not outlive the test process, not even one that was killed.

use crate::wait::{DEADLINE, eventually_blocking};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Reads the child's id, then waits for a second line. The end of the pipe before that line means that the test
/// process is gone. The signals that a terminal or a test runner sends to the whole group must not end the watch.
const WATCH: &str =
    r#"trap '' HUP INT TERM; read -r child && { read -r done || kill -KILL "$child"; }"#;

/// A child process together with the watcher that kills it when this process is gone.
#[derive(Debug)]
pub(crate) struct LeashedChild {
    child: Child,
    watcher: Child,
}

impl LeashedChild {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let watcher = Command::new("sh")
            .args(["-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut leashed = match command.spawn() {
            Ok(child) => Self { child, watcher },
            Err(error) => {
                dismiss(watcher);
                return Err(error);
            }
        };
        let id = leashed.id();
        leashed.tell_watcher(&format!("{id}\n"))?;
        Ok(leashed)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Signals the child. Whoever has ended already gets nothing, so the signal cannot reach a stranger.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let ended = self.exited();
        assert!(
            ended.is_none(),
            "process {} cannot be signalled: {ended:?}",
            self.id()
        );
        kill_process(Pid::from_child(&self.child), signal)
            .expect("a child that was not reaped takes signals");
    }

    /// Stops the child and returns once all its threads stand still.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        let id = WaitId::Pid(Pid::from_child(&self.child));
        eventually_blocking(DEADLINE, "a child that got SIGSTOP stands still", || {
            waitid(id.clone(), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
                .ok()
                .flatten()
        });
    }

    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of our own child")
    }

    /// Kills the child, also one that is stopped, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("our own child takes SIGKILL");
        self.child.wait().expect("the state of our own child")
    }

    fn tell_watcher(&mut self, line: &str) -> io::Result<()> {
        let pipe = self
            .watcher
            .stdin
            .as_mut()
            .expect("the watcher was started with a pipe");
        pipe.write_all(line.as_bytes())
    }
}

impl Drop for LeashedChild {
    fn drop(&mut self) {
        // A panic here would hide the one that is unwinding, and the watcher is still there for what fails.
        if self.child.kill().is_ok() && self.tell_watcher("done\n").is_ok() {
            self.child.wait().ok();
        }
        self.watcher.stdin = None;
        self.watcher.wait().ok();
    }
}

/// A watcher that never learnt an id ends at the end of its pipe.
fn dismiss(mut watcher: Child) {
    watcher.stdin = None;
    watcher.wait().ok();
}
