//! The harness does what the other tests rely on: its faults happen, and its assertions fail when they should.

mod client;
mod cron;
mod fleet;
mod peers;
mod postgres;
mod proxy;
mod record;
mod server;
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::Duration;

/// Longer than a loopback round trip ever takes, for answers that must not come.
const SILENCE: Duration = Duration::from_millis(150);

fn child(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness_child"));
    command.args(arguments);
    command
}

/// What the assertion says when it fails.
fn failure<T>(assertion: impl FnOnce() -> T) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(assertion)) else {
        panic!("it should have failed");
    };
    *payload.downcast::<String>().expect("a message")
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}
