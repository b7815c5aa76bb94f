//! A Postgres server: started, asked, and gone with its test.

use crate::child;
use lock_tests::processes::Peer;
use lock_tests::{DEADLINE, Postgres};
use std::fs::{Permissions, set_permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tempfile::TempDir;

/// Postgres's question whether there is TLS, and its answer that there is none.
const TLS: ([u8; 8], [u8; 1]) = ([0, 0, 0, 8, 4, 210, 22, 47], *b"N");

/// A connection that a process of the server's own waits on for more.
fn connect(socket: &Path) -> UnixStream {
    let mut client = UnixStream::connect(socket).expect("the server listens");
    client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    let (question, expected) = TLS;
    client.write_all(&question).expect("it takes a question");
    let mut answer = [0];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, expected);
    client
}

/// Waits until all who had the connection are gone.
fn assert_ends(mut client: UnixStream) {
    let mut last_words = Vec::new();
    client
        .read_to_end(&mut last_words)
        .expect("the server and its processes are gone");
}

#[test]
fn a_server_answers_is_empty_and_ends_with_its_owner() {
    let server = Postgres::start();
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(server.query(tables), "0");
    server.query("CREATE TABLE t (a BIGINT, b TEXT)");
    server.query("INSERT INTO t VALUES (1, 'x'), (2, 'y')");
    assert_eq!(server.query("SELECT a, b FROM t ORDER BY a"), "1|x\n2|y");

    let client = connect(&server.socket());
    drop(server);
    assert_ends(client);
}

#[test]
fn a_missing_binary_fails_the_test_and_says_how_to_install() {
    let output = child(&["postgres"])
        .env("LOCK_POSTGRES_BIN", "/nowhere")
        .output()
        .expect("the child runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for part in [
        "/nowhere/initdb",
        "scripts/test",
        "apt-get install postgresql",
        "LOCK_POSTGRES_BIN",
    ] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[tokio::test]
async fn a_server_does_not_outlive_a_test_process_that_is_killed() {
    // Nobody cleans up after a killed process, so its files lie in a directory of this one, which the user who runs the
    // server for root can enter.
    let files = TempDir::new().expect("a temporary directory");
    set_permissions(files.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = child(&["postgres"]);
    command.env("TMPDIR", files.path());
    let mut process = Peer::start(command);
    let client = connect(Path::new(&process.line().await));
    process.kill();
    assert_ends(client);
}
