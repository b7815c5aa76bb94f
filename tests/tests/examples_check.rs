//! The example `check` as operators run it: its exit code says what a script needs to know.

use lock_tests::processes::{example_says, example_with_says, run_example};
use lock_tests::{Fleet, RedisServer, acl};

async fn check(lock_nodes: Option<&str>, arguments: &[&str]) -> (Option<i32>, String) {
    run_example("check", lock_nodes, arguments).await
}

async fn says(nodes: &str, arguments: &[&str], code: i32, expected: impl Fn(&str) -> bool) {
    example_says("check", nodes, arguments, code, expected).await;
}

#[tokio::test]
async fn the_exit_code_says_whether_there_is_a_problem() {
    let options = || {
        let options = RedisServer::options().everything_permitted();
        options.append_only("everysec")
    };
    let fleet = Fleet::of([options(), options(), options()]);
    let (nodes, servers) = (fleet.lock_nodes(), fleet.servers());
    says(&nodes, &[], 0, |said| {
        let all = servers.iter().all(|server| said.contains(&server.name()));
        all && said.contains("note: ") && said.contains("change: ")
    })
    .await;

    servers[0].set_config("maxmemory", "100mb");
    servers[0].set_config("maxmemory-policy", "volatile-ttl");
    says(&nodes, &["--prefix", "shop:"], 1, |said| {
        let mut problems = said.lines().filter(|line| line.starts_with("problem: "));
        problems.any(|line| line.contains(&servers[0].name()) && line.contains("volatile-ttl"))
    })
    .await;

    for server in servers {
        server.kill();
    }
    says(&nodes, &[], 1, |said| said.contains("0 of 3 nodes vote")).await;
}

/// With the user of the README, who may use these keys and no others.
#[tokio::test]
async fn permissions_are_tried_for_the_prefix_of_the_service() {
    let options = RedisServer::options().everything_permitted();
    let server = options.append_only("everysec").start();
    server.command::<()>(&acl::line(acl::USER));
    let node = format!("redis://shop:password@{}", server.name());
    let (alone, of_the_service) = (
        [("LOCK_NODES", &*node)],
        [("LOCK_NODES", &*node), ("LOCK_PREFIX", "shop:")],
    );
    for (variables, arguments, is_permitted) in [
        (&alone[..], &[][..], false),
        (&alone, &["--prefix", "shop:"], true),
        (&of_the_service, &[], true),
        (&of_the_service, &["--prefix", "other:"], false),
    ] {
        let code = i32::from(!is_permitted);
        example_with_says("check", variables, arguments, code, |said| {
            let lacks = said.contains("the user may not do all that locks need");
            let mut rows = said.lines().filter(|line| line.starts_with(&server.name()));
            let row = rows.next().unwrap_or_default();
            lacks != is_permitted && row.contains("  no permission  ") != is_permitted
        })
        .await;
    }
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
