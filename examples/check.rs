//! Looks at the lock nodes and says what to change about them. For an operator, or a step of a deployment.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::Long;
use lexopt::ValueExt;
use lock_runtime::{LockManager, LockManagerBuilder};

const HELP: &str = "\
Looks at the lock nodes in LOCK_NODES, and says what about them makes locks unsafe or will keep people from them.

  --prefix PREFIX    what the service puts before its keys: permissions are tried for it (default: LOCK_PREFIX,
                     or nothing)
  --max-ttl SECONDS  its longest lease: for so long a node that restarted has no vote (default: 60)

Exits with 0 if there is no problem, also where there are warnings, with 1 if there are problems, and with 2 if the nodes
could not be looked at, as LOCK_NODES is not set or not understood.
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let manager = match lock_examples::options(HELP, options) {
        Ok(manager) => manager,
        Err(code) => return code.into(),
    };
    let nodes = std::env::var("LOCK_NODES").unwrap_or_default();
    let locks = match manager.nodes(&nodes).build() {
        Ok(locks) => locks,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            return 2.into();
        }
    };
    let report = locks.check().await;
    // Whoever does not listen is told by the exit code.
    let _ = write!(io::stdout(), "{report}");
    if report.is_safe() { 0.into() } else { 1.into() }
}

fn options(mut parser: lexopt::Parser) -> Result<Option<LockManagerBuilder>, lexopt::Error> {
    let mut manager = LockManager::builder().prefix(lock_examples::prefix()?);
    while let Some(argument) = parser.next()? {
        manager = match argument {
            Long("prefix") => manager.prefix(parser.value()?.string()?),
            Long("max-ttl") => manager.max_ttl(Duration::from_secs(parser.value()?.parse()?)),
            Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        };
    }
    Ok(Some(manager))
}
