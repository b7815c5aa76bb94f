//! Looks at one lock, or takes it from whoever has it. For an operator.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Value};
use lexopt::ValueExt;
use lock_runtime::{LockError, LockManager, Verdict};

const HELP: &str = "\
Looks at one lock on the nodes in LOCK_NODES, or takes it from whoever has it.

Usage: lock inspect KEY [OPTIONS]
       lock release KEY [--yes] [OPTIONS]

  --prefix PREFIX    what the service puts before its keys; KEY is without it (default: LOCK_PREFIX, or nothing)
  --max-ttl SECONDS  its longest lease: for so long a node that restarted has no vote (default: 60)
  --yes              release: do it; without it, only say from whom it would be taken
  --help             this text

inspect says who has the lock on each node, and its whole key there: where that is not the service's, the lock is another
one, and says that it is free. release has a holder who lives stopped at his next renewal, and keeps the
lock from everybody until he must have noticed: nobody runs next to him. It says when the lock is free at the latest.

Exits with 0 if enough nodes have answered to say who has it, or for nobody to keep it; with 1 if too few have: try again;
and with 2 if nothing was done, as --yes is missing, or LOCK_NODES or the command line is not understood.
";

/// What is to be done.
struct Wanted {
    release: bool,
    key: String,
    prefix: String,
    max_ttl: Duration,
    yes: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let wanted = match lock_examples::options(HELP, Wanted::parse) {
        Ok(wanted) => wanted,
        Err(code) => return code.into(),
    };
    let nodes = std::env::var("LOCK_NODES").unwrap_or_default();
    let manager = LockManager::builder()
        .prefix(&*wanted.prefix)
        .max_ttl(wanted.max_ttl)
        .nodes(&nodes);
    let locks = match manager.build() {
        Ok(locks) => locks,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            return 2.into();
        }
    };
    match wanted.carry_out(&locks).await {
        Ok(code) => code.into(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            2.into()
        }
    }
}

impl Wanted {
    fn parse(mut parser: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let mut words = Vec::new();
        let mut prefix = lock_examples::prefix()?;
        let (mut max_ttl, mut yes) = (Duration::from_secs(60), false);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("prefix") => prefix = parser.value()?.string()?,
                Long("max-ttl") => max_ttl = Duration::from_secs(parser.value()?.parse()?),
                Long("yes") => yes = true,
                Long("help") => return Ok(None),
                Value(word) => words.push(word),
                other => return Err(other.unexpected()),
            }
        }
        let mut words = words.into_iter();
        let (action, key) = (words.next(), words.next());
        let release = match action.as_ref().and_then(|action| action.to_str()) {
            Some("inspect") if !yes => false,
            Some("inspect") => return Err("--yes is for release".into()),
            Some("release") => true,
            _ => return Err("the first word is inspect or release".into()),
        };
        let key = key.map(OsString::string).transpose()?;
        let key = key.ok_or("the key of the lock is missing")?;
        if let Some(word) = words.next() {
            return Err(Value(word).unexpected());
        }
        Ok(Some(Self {
            release,
            key,
            prefix,
            max_ttl,
            yes,
        }))
    }

    /// Answers the exit code.
    async fn carry_out(&self, locks: &LockManager) -> Result<u8, LockError> {
        // Shown first in any case: what is taken is gone afterwards.
        let inspection = locks.inspect(&*self.key).await?;
        // Whoever does not listen is told by the exit code.
        let _ = write!(io::stdout(), "{inspection}");
        let on_nodes = format!("{}{}", self.prefix, self.key);
        let _ = writeln!(io::stdout(), "\nits key on the nodes is {on_nodes:?}");
        if !self.release {
            return Ok(u8::from(inspection.verdict() == Verdict::Unknown));
        }
        if !self.yes {
            let _ = writeln!(
                io::stderr(),
                "\nnothing was done: --yes takes {} from whoever has it",
                self.key
            );
            return Ok(2);
        }
        let forced = locks.force_release(&*self.key).await?;
        let _ = write!(io::stdout(), "\n{forced}");
        Ok(u8::from(!forced.is_complete()))
    }
}
