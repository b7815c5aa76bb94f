//! The wall clock of another process, set forward and back while it runs, as an operator or a time server does. Its
//! monotonic clock goes on.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// Where packages put it: Debian's below the machine's name, its own `make install` below `/usr/local`.
const PLACES: [&str; 3] = ["/usr/lib", "/usr/local/lib", "/usr/lib64"];
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A wall clock that is right until it is [`set`](Self::set), for the processes that it rules. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct WallClock(Arc<TempDir>);

impl WallClock {
    /// A clock that is right.
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
        let clock = Self(Arc::new(directory));
        clock.set(0);
        clock
    }

    /// Sets it to so many seconds ahead of the true time, or behind.
    pub fn set(&self, ahead: i64) {
        // Renamed into its place, as it is read all the time.
        let new = self.0.path().join("new");
        std::fs::write(&new, format!("{ahead:+}\n")).expect("the directory is ours");
        std::fs::rename(new, self.file()).expect("the directory is ours");
    }

    /// Has it be the clock of a process that is to be started.
    pub fn rule(&self, command: &mut Command) {
        // An allocator that looks at the clock, as that of Redis does, is asked for memory while the library gets ready, and
        // waits for it. With libc before it nobody asks it.
        let mut first = library().into_os_string();
        first.push(" libc.so.6");
        command
            .env("LD_PRELOAD", first)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_DISABLE_SHM", "1");
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("ahead")
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

fn library() -> PathBuf {
    let directly = PLACES.map(PathBuf::from).into_iter();
    let by_machine = PLACES.iter().flat_map(|place| {
        let entries = std::fs::read_dir(place).into_iter().flatten();
        entries.flatten().map(|entry| entry.path())
    });
    let found = directly
        .chain(by_machine)
        .map(|place| place.join(LIBRARY))
        .find(|library| library.exists());
    found.unwrap_or_else(|| {
        panic!(
            "this test sets the clock of another process with libfaketime, and there is no {LIBRARY} below {PLACES:?}. \
             Run `scripts/test`, which installs it, or `apt-get install faketime`."
        )
    })
}
