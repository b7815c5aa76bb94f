//! Other processes.

use crate::{child, failure};
use lock_tests::processes::{Peer, example, python};

#[tokio::test]
async fn a_peer_talks_pauses_and_ends() {
    let mut peer = Peer::start(child(&["echo"]));
    peer.say("one");
    peer.expect("one").await;
    peer.pause();
    peer.say("two");
    peer.resume();
    peer.expect("two").await;
    peer.say("three");
    peer.close_input();
    let (status, lines) = peer.finish().await;
    assert_eq!((status.success(), lines), (true, vec!["three".to_owned()]));

    let mut peer = Peer::start(child(&["echo"]));
    peer.terminate();
    assert!(!peer.finish().await.0.success());
}

#[tokio::test]
async fn python_has_its_redis_package() {
    let mut command = python(&["redis"]);
    command.args(["-c", "import redis.lock; print(redis.lock.Lock.__name__)"]);
    let (status, lines) = Peer::start(command).finish().await;
    assert_eq!((status.success(), lines), (true, vec!["Lock".to_owned()]));
}

#[test]
fn an_example_that_was_not_built_is_named() {
    let message = failure(|| example("no-such-example"));
    assert!(
        message.contains("examples/no-such-example") && message.contains("cargo build"),
        "{message}"
    );
}
