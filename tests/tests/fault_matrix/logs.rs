//! What the library logs, and that it is no secret.

use lock_runtime::LockManager;
use lock_tests::{RedisServer, eventually_async};

pub(crate) use lock_tests::logs::{keep, kept};

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
        // Redis 6.2 quotes in another way.
        let text = error.to_string().replace('`', "'");
        if text.contains("ERR unknown command 'AUTH'") {
            Ok(())
        } else {
            Err(error.to_string())
        }
    })
    .await;
}
