//! One server: started, asked, killed, paused, restarted, and gone with its test.

use crate::client::Client;
use crate::{child, failure};
use lock_tests::processes::Peer;
use lock_tests::{DEADLINE, Disk, Proxy, RedisServer, acl, eventually, eventually_blocking};
use std::io::ErrorKind;
use std::net::TcpStream;
use tempfile::TempDir;

#[test]
fn a_server_is_up_empty_and_tells_what_it_holds() {
    let server = RedisServer::start();
    assert_eq!(server.keys("*"), Vec::<String>::new());
    server.command::<()>(&["SET", "b", "2"]);
    server.command::<()>(&["SET", "a", "1", "PX", "60000"]);
    assert_eq!(server.keys("*"), ["a", "b"]);
    assert_eq!(server.get("a").as_deref(), Some("1"));
    assert!(server.exists("b") && !server.exists("c"));
    assert!((1..=60_000).contains(&server.pttl("a")));
    assert_eq!((server.pttl("b"), server.pttl("c")), (-1, -2));
    assert_eq!(server.command_stats()["set"], 2);
    server.reset_command_stats();
    assert_eq!(server.command_stats().get("set"), None);
    assert_eq!(server.config("appendonly"), "no");
    server.set_config("maxmemory", "2097152");
    assert_eq!(server.config("maxmemory"), "2097152");
    assert_eq!(server.clients(), 0);
    let _client = Client::connect(server.port()).expect("the server listens");
    eventually_blocking(DEADLINE, "the server counts its client", || {
        server.clients() == 1
    });
    server.flush();
    assert_eq!(server.keys("*"), Vec::<String>::new());
    assert!(server.try_command::<()>(&["NONSENSE"]).is_err());
}

#[test]
fn options_reach_the_server() {
    let server = RedisServer::options()
        .password("s3cret")
        .append_only("always")
        .start();
    assert_eq!(server.config("appendfsync"), "always");
    let mut stranger = Client::connect(server.port()).expect("the server listens");
    assert!(
        stranger
            .ask(&["GET", "a"])
            .expect("an answer")
            .starts_with("-NOAUTH")
    );
    assert_eq!(server.url(), format!("redis://:s3cret@{}", server.name()));
    assert_eq!(
        Proxy::start(&server).url().split('@').next(),
        Some("redis://:s3cret")
    );
}

#[tokio::test]
async fn a_user_of_a_server_outlives_its_data() {
    let server = RedisServer::options().user("me", "s3cret").start();
    for _ in 0..2 {
        let mut me = Client::connect(server.port()).expect("the server listens");
        let wrong = me.ask(&["AUTH", "me", "wrong"]).expect("an answer");
        assert!(wrong.starts_with("-WRONGPASS"), "{wrong}");
        assert_eq!(me.ask(&["AUTH", "me", "s3cret"]).expect("an answer"), "+OK");
        assert_eq!(me.ask(&["SET", "a", "1"]).expect("an answer"), "+OK");
        server.restart(Disk::Lose).await;
    }
}

#[test]
fn what_the_user_of_the_readme_was_refused_fails_the_test() {
    let server = RedisServer::start();
    let login = ["AUTH", acl::USER, acl::password(acl::USER)];
    let mut library = Client::connect(server.port()).expect("the server listens");
    assert_eq!(library.ask(&login).expect("an answer"), "+OK");
    assert_eq!(library.ask(&["SET", "a", "1"]).expect("an answer"), "+OK");
    let refused = library.ask(&["FLUSHALL"]).expect("an answer");
    assert!(refused.starts_with("-NOPERM"), "{refused}");
    let message = failure(move || drop(server));
    assert!(message.contains("command flushall"), "{message}");
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let options = RedisServer::options().argument("--maxmemory-policy", "nonsense");
    let message = failure(|| options.start());
    assert!(message.contains("ended before it answered"), "{message}");
}

#[tokio::test]
async fn a_killed_server_refuses_and_comes_back_on_its_port() {
    let server = RedisServer::start();
    let port = server.port();
    server.command::<()>(&["SET", "kept", "1"]);
    server.save();
    server.command::<()>(&["SET", "unsaved", "1"]);
    let mut client = Client::connect(port).expect("the server listens");
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");

    server.kill();
    assert!(client.answer().is_err());
    let refused = Client::connect(port).err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
    assert!(!server.is_running() && server.pid().is_none());

    server.restart(Disk::Keep).await;
    assert_eq!(
        (server.port(), server.keys("*")),
        (port, vec!["kept".to_owned()])
    );
    server.restart(Disk::Lose).await;
    assert_eq!(server.keys("*"), Vec::<String>::new());
    server.stop();
    assert!(Client::connect(port).is_err());
}

#[test]
fn a_paused_server_keeps_connections_and_answers_when_resumed() {
    let server = RedisServer::start();
    let mut client = Client::connect(server.port()).expect("the server listens");
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    server.pause();
    client.send(&["SET", "a", "1"]);
    assert!(client.is_silent() && !server.is_running());
    server.resume();
    assert_eq!(client.answer().expect("a late answer"), "+OK");
    server.pause();
    server.kill();
    assert!(client.answer().is_err());
}

#[test]
fn a_missing_binary_fails_the_test_and_says_how_to_install() {
    let output = child(&["server"])
        .env("LOCK_REDIS_BIN", "/nowhere/redis-server")
        .output()
        .expect("the child runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for part in [
        "/nowhere/redis-server",
        "scripts/test",
        "apt-get install redis-server",
        "LOCK_REDIS_BIN",
    ] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[tokio::test]
async fn a_server_does_not_outlive_a_test_process_that_is_killed() {
    // Nobody cleans up after a killed process, so its files lie in a directory of this one.
    let files = TempDir::new().expect("a temporary directory");
    for part in ["server", "paused-server"] {
        let mut command = child(&[part]);
        command.env("TMPDIR", files.path());
        let mut process = Peer::start(command);
        let name = process.line().await;
        assert!(TcpStream::connect(&name).is_ok());
        process.kill();
        eventually(DEADLINE, "the server is gone", || {
            TcpStream::connect(&name).is_err()
        })
        .await;
    }
}
