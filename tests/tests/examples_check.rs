//! The example `check` as operators run it: its exit code says what a script needs to know.

use lock_tests::processes::{Peer, example};
use lock_tests::{Fleet, RedisServer};

async fn check(lock_nodes: Option<&str>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = example("check");
    command.env_remove("LOCK_NODES").args(arguments);
    if let Some(nodes) = lock_nodes {
        command.env("LOCK_NODES", nodes);
    }
    let (status, lines) = Peer::start(command).finish().await;
    (status.code(), lines.join("\n"))
}

#[tokio::test]
async fn the_exit_code_says_whether_there_is_a_problem() {
    let options = || {
        RedisServer::options()
            .also_permitted("+config|get")
            .append_only("everysec")
    };
    let fleet = Fleet::of([options(), options(), options()]);
    let (code, said) = check(Some(&fleet.lock_nodes()), &[]).await;
    assert_eq!(code, Some(0), "{said}");
    for server in fleet.servers() {
        assert!(said.contains(&server.name()), "{said}");
    }
    assert!(
        said.contains("note: ") && said.contains("change: "),
        "{said}"
    );

    fleet.servers()[0].set_config("maxmemory", "100mb");
    fleet.servers()[0].set_config("maxmemory-policy", "volatile-ttl");
    let (code, said) = check(Some(&fleet.lock_nodes()), &["--prefix", "shop:"]).await;
    assert_eq!(code, Some(1), "{said}");
    let first = said.lines().find(|line| line.starts_with("problem: "));
    let first = first.unwrap_or_else(|| panic!("{said}"));
    assert!(
        first.contains(&fleet.servers()[0].name()) && first.contains("volatile-ttl"),
        "{first}"
    );

    for server in fleet.servers() {
        server.kill();
    }
    let (code, said) = check(Some(&fleet.lock_nodes()), &[]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("0 of 3 nodes vote"), "{said}");
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_no_problem_found() {
    for (nodes, arguments) in [
        (None, &[][..]),
        (Some(""), &[]),
        (Some("http://127.0.0.1:1"), &[]),
        (Some("memory()"), &["--max-ttl", "0"]),
        (Some("memory()"), &["--max-ttl", "a while"]),
        (Some("memory()"), &["--unknown"]),
    ] {
        let (code, said) = check(nodes, arguments).await;
        assert_eq!((code, &*said), (Some(2), ""), "{nodes:?} {arguments:?}");
    }
    let (code, said) = check(None, &["--help"]).await;
    assert_eq!(code, Some(0));
    assert!(said.contains("LOCK_NODES"), "{said}");
}
