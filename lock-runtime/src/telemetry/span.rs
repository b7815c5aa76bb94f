//! The span of a guarded call: from its beginning until its lock is released, with what became of it.
//!
//! Where nobody is interested in it there is none, and it costs the look whether anybody is.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Empty, display};
use tracing::span::{Entered, Span};

use super::Outcome;
use crate::clock;
use crate::error::LockError;
use crate::key::LockKey;

/// The lease was over before the body was.
const LOST: &str = "lost";

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSpan(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    span: Span,
    began: Instant,
    /// Since when the lock is held.
    acquired: OnceLock<Instant>,
    is_over: AtomicBool,
}

impl CallSpan {
    /// Keys stand in it only where everything is written that is written of locks.
    pub(crate) fn open(name: &'static str, keys: &[LockKey]) -> Self {
        let span = tracing::info_span!(
            target: "lock_runtime",
            "distributed_lock",
            name,
            key = Empty,
            wait_ms = Empty,
            hold_ms = Empty,
            attempts = Empty,
            outcome = Empty,
        );
        if span.is_disabled() {
            return Self(None);
        }
        if tracing::enabled!(target: "lock_runtime", tracing::Level::DEBUG) {
            span.record("key", display(Joined(keys)));
        }
        Self(Some(Arc::new(Open {
            span,
            began: clock::now(),
            acquired: OnceLock::new(),
            is_over: AtomicBool::new(false),
        })))
    }

    /// What is polled until this is dropped is inside.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        self.0.as_ref().map(|open| open.span.enter())
    }

    /// It has waited, and this is what came of it, after so many attempts on the nodes.
    pub(crate) fn waited<T>(&self, lease: &Result<T, LockError>, attempts: u32) {
        let Some(open) = &self.0 else { return };
        let now = clock::now();
        let waited = now.saturating_duration_since(open.began);
        open.span.record("wait_ms", millis(waited));
        open.span.record("attempts", attempts);
        match lease {
            Ok(_) => {
                let _ = open.acquired.set(now);
            }
            Err(LockError::Lost { .. }) => open.end(LOST),
            Err(_) => open.end(Outcome::of(lease).word()),
        }
    }

    /// The body has run to its end.
    pub(crate) fn done(&self) {
        self.end("done");
    }

    /// The body was stopped, as its lease was lost.
    pub(crate) fn lost(&self) {
        self.end(LOST);
    }

    fn end(&self, outcome: &'static str) {
        if let Some(open) = &self.0 {
            open.end(outcome);
        }
    }
}

impl Open {
    fn end(&self, outcome: &'static str) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(acquired) = self.acquired.get() {
            let held = clock::now().saturating_duration_since(*acquired);
            self.span.record("hold_ms", millis(held));
        }
        self.span.record("outcome", outcome);
    }
}

/// Its caller went away, or a panic came from the body.
impl Drop for Open {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() {
            "panicked"
        } else {
            Outcome::Cancelled.word()
        });
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// Keys as one value.
struct Joined<'a>(&'a [LockKey]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{key}")?;
        }
        Ok(())
    }
}
