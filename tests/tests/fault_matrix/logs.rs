//! What the library logs, and that it is no secret.

use lock_runtime::LockManager;
use lock_tests::{RedisServer, eventually_async};
use std::fmt::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span;

static LINES: Mutex<String> = Mutex::new(String::new());

/// From now on everything is kept that this process logs.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keep).expect("there is no other"));
}

/// What was logged so far.
pub(crate) fn kept() -> String {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What the manager's user logs in with: with what a URL has to write in another way.
pub(crate) const PASSWORD: &str = "pa55:w0rd@of/the-locks";
pub(crate) const PASSWORD_IN_URL: &str = "pa55%3Aw0rd%40of%2Fthe-locks";

/// Fails where the password, or a part of it, can be read.
#[track_caller]
pub(crate) fn assert_no_secret(text: &str) {
    for part in ["pa55", "w0rd", "the-locks"] {
        let shown = text.lines().find(|line| line.contains(part));
        assert_eq!(shown, None, "{part:?} is a part of the password");
    }
}

struct Keep;

impl tracing::Subscriber for Keep {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("lock_runtime")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        line.0.push('\n');
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_str(&line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}

/// It quotes what it does not understand, and that is the password.
#[tokio::test]
async fn a_server_that_knows_no_passwords_does_not_get_one_into_the_logs() {
    keep();
    let server = RedisServer::options().without("AUTH").start();
    let login = format!("redis://locks:{PASSWORD_IN_URL}@{}", server.name());
    let locks = LockManager::builder().node(login).build().expect("a URL");
    eventually_async(lock_tests::DEADLINE, "it is said what is wrong", || async {
        let taken = locks.lock("k").ttl(crate::fault::TTL).acquire().await;
        let error = taken.expect_err("nobody can log in");
        assert_no_secret(&format!("{error} {error:?} {}", kept()));
        if error.to_string().contains("ERR unknown command 'AUTH'") {
            Ok(())
        } else {
            Err(error.to_string())
        }
    })
    .await;
}
