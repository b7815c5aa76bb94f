//! One lock for services in several languages: what is on the wire is what Python's `redis` package writes.

use lock_tests::processes::{Peer, python};
use lock_tests::{DEADLINE, Fleet};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

const HOLDER: &str = r#"
import sys, redis
lock = redis.Redis(port=int(sys.argv[1])).lock("shared", timeout=30)
for line in sys.stdin:
    word = line.strip()
    if word == "acquire":
        print("acquired" if lock.acquire(blocking=False) else "busy", flush=True)
    elif word == "release":
        lock.release()
        print("released", flush=True)
"#;

#[tokio::test]
async fn a_lock_held_by_redis_py_is_busy_for_us_and_the_reverse() {
    let fleet = Fleet::start(1);
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let mut command = python();
    let port = fleet.servers()[0].port().to_string();
    command.args(["-c", HOLDER, &port]);
    let mut theirs = Peer::start(command);

    for _ in 0..3 {
        theirs.say("acquire");
        theirs.expect("acquired").await;
        let error = locks
            .lock("shared")
            .ttl(TTL)
            .acquire()
            .await
            .expect_err("theirs");
        assert!(error.is_busy(), "{error}");
        assert!(error.retry_after().expect("busy") <= TTL);
        theirs.say("release");
        theirs.expect("released").await;

        let lease = locks
            .lock("shared")
            .ttl(TTL)
            .wait(DEADLINE)
            .acquire()
            .await
            .expect("free");
        theirs.say("acquire");
        theirs.expect("busy").await;
        lease.release().await.expect("released");
    }
    theirs.close_input();
    let (status, _) = theirs.finish().await;
    assert!(status.success(), "{status}");
    fleet.assert_no_keys("*").await;
}
