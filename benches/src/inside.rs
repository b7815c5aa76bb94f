//! Who is inside of the critical section, told by something else than the lock: whoever enters while somebody is in there
//! has found a lock that does not exclude. It costs the same for every contender.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, flock};

/// What all who contend have in common.
#[derive(Clone, Debug)]
pub enum Record {
    /// Tasks of one process: a counter, some nanoseconds.
    Process(Arc<AtomicUsize>),
    /// Processes of one machine: a file's lock, two system calls. It is gone with its process.
    Machine(PathBuf),
}

impl Record {
    /// For tasks of this process.
    pub fn of_process() -> Self {
        Self::Process(Arc::default())
    }

    /// For whoever opens the same file.
    pub fn of_machine(path: &Path) -> Self {
        Self::Machine(path.to_owned())
    }

    /// The record as one task sees it.
    pub fn watch(&self) -> Watch {
        match self {
            Self::Process(count) => Watch::Process(Arc::clone(count)),
            Self::Machine(path) => Watch::Machine(File::create(path).expect("a file of ours")),
        }
    }
}

/// One task's hand on the [`Record`].
#[derive(Debug)]
pub enum Watch {
    /// See [`Record::Process`].
    Process(Arc<AtomicUsize>),
    /// See [`Record::Machine`].
    Machine(File),
}

impl Watch {
    /// Goes in, and says whether nobody else is there.
    pub fn enter(&self) -> bool {
        match self {
            Self::Process(count) => count.fetch_add(1, Ordering::SeqCst) == 0,
            Self::Machine(file) => flock(file, FlockOperation::NonBlockingLockExclusive).is_ok(),
        }
    }

    /// Goes out.
    pub fn leave(&self) {
        match self {
            Self::Process(count) => {
                count.fetch_sub(1, Ordering::SeqCst);
            }
            // Fails for nobody, and is nothing for a task that was not let in.
            Self::Machine(file) => drop(flock(file, FlockOperation::Unlock)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees_two(record: &Record) {
        let (one, other) = (record.watch(), record.watch());
        assert!(one.enter(), "nobody is there");
        assert!(!other.enter(), "one is there");
        other.leave();
        assert!(!other.enter(), "one is there still");
        other.leave();
        one.leave();
        assert!(other.enter(), "nobody is there any more");
        other.leave();
        assert!(one.enter());
    }

    #[test]
    fn two_at_once_are_seen_in_a_process() {
        sees_two(&Record::of_process());
    }

    #[test]
    fn two_at_once_are_seen_on_a_machine() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        sees_two(&Record::of_machine(&directory.path().join("inside")));
    }
}
