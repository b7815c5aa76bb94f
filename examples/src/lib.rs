//! What the examples share: the command line, the log, which nodes keep the locks, and being told to stop.

use std::env::{self, VarError};
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::time::Duration;

use lexopt::Parser;
use lock_runtime::LockManager;
use tokio::signal;

/// A manager of the nodes in `LOCK_NODES`; where that is not set, of embedded nodes, whose locks are for this process only.
///
/// `LOCK_PREFIX` is put before every key, as for a user of the nodes who may use no others; all replicas need the same.
/// `LOCK_HOLDER` is the name under which an operator finds this process where it holds a lock. `LOCK_NODE_TIMEOUT_MS` is how long
/// a node may take to answer, where 50 milliseconds are too few.
///
/// # Errors
///
/// When one of these is set and cannot be used. It is never ignored: replicas that silently lock nothing but themselves are worse
/// than one that does not start.
pub fn locks() -> Result<LockManager, Box<dyn Error>> {
    if !has_lock_nodes() {
        return Ok(LockManager::in_memory());
    }
    let mut locks = LockManager::builder()
        .nodes(&variable("LOCK_NODES")?.unwrap_or_default())
        .prefix(prefix()?);
    if let Some(holder) = variable("LOCK_HOLDER")? {
        locks = locks.holder_label(holder);
    }
    if let Some(millis) = variable("LOCK_NODE_TIMEOUT_MS")? {
        let millis = millis
            .parse()
            .map_err(|error| format!("LOCK_NODE_TIMEOUT_MS: {error}: {millis:?}"))?;
        locks = locks.node_timeout(Duration::from_millis(millis));
    }
    Ok(locks.build()?)
}

/// `LOCK_PREFIX`, or nothing.
///
/// # Errors
///
/// When it cannot be read.
pub fn prefix() -> Result<String, String> {
    Ok(variable("LOCK_PREFIX")?.unwrap_or_default())
}

/// What cannot be read is not the same as nothing: without its prefix, a replica would lock other keys than the others.
fn variable(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("{name} is not UTF-8")),
    }
}

/// Whether `LOCK_NODES` is set.
#[must_use]
pub fn has_lock_nodes() -> bool {
    env::var_os("LOCK_NODES").is_some()
}

/// Reads the command line. `parse` answers `None` where `--help` was asked for.
///
/// # Errors
///
/// The code to exit with, after the help was printed: 0 for `--help`, 2 for what cannot be understood.
pub fn options<T>(
    help: &str,
    parse: impl FnOnce(Parser) -> Result<Option<T>, lexopt::Error>,
) -> Result<T, u8> {
    match parse(Parser::from_env()) {
        Ok(Some(options)) => Ok(options),
        Ok(None) => {
            // Whoever asked and no longer listens misses nothing.
            let _ = io::stdout().write_all(help.as_bytes());
            Err(0)
        }
        Err(error) => {
            let _ = write!(io::stderr(), "{error}\n\n{help}");
            Err(2)
        }
    }
}

/// For a program that takes no options: prints the help and exits if there are any.
pub fn no_options(help: &str) {
    let parsed = options(help, |mut parser| match parser.next()? {
        None => Ok(Some(())),
        Some(lexopt::Arg::Long("help")) => Ok(None),
        Some(other) => Err(other.unexpected()),
    });
    if let Err(code) = parsed {
        process::exit(code.into());
    }
}

/// Sends the log to standard error: standard output belongs to the program.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}

/// Waits for Ctrl-C or `SIGTERM`, which is what an orchestrator sends before it kills. Listens from now on, not only once it
/// is awaited.
///
/// # Errors
///
/// The signal cannot be listened for.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = signal::unix::signal(signal::unix::SignalKind::terminate())?;
    Ok(async move {
        #[cfg(unix)]
        let terminated = terminate.recv();
        #[cfg(not(unix))]
        let terminated = std::future::pending::<()>();
        tokio::select! {
            _ = terminated => {}
            _ = signal::ctrl_c() => {}
        }
        tracing::info!("stopping");
    })
}
