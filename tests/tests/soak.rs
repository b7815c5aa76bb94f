//! A short run of `scripts/soak`: what is used leaves nothing behind, and the program would see it. Minutes of it are run by
//! hand.

use futures_util::future::join_all;
use lock_tests::processes::Peer;
use std::process::{Command, ExitStatus};

async fn run(arguments: &[&str]) -> (ExitStatus, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(arguments);
    Peer::start(command).finish().await
}

mod heavy {
    use super::*;

    #[tokio::test]
    async fn a_short_run() {
        let (status, lines) = run(&["--keys", "4000"]).await;
        let all = lines.join("\n");
        let last = lines.last().expect("a run has a result");
        assert!(status.success(), "{status}\n{all}");
        let number = |name: &str| -> usize {
            let mut numbers = last.split(' ').filter_map(|word| word.split_once('='));
            let found = numbers.find(|(found, _)| *found == name);
            let (_, number) = found.unwrap_or_else(|| panic!("no {name} in {last}\n{all}"));
            number.parse().expect("a number")
        };
        assert_eq!((number("keys"), number("leaked_keys")), (4000, 0), "{all}");
        // Most ways to use a key acquire it.
        assert!(number("acquisitions") >= 3000, "{all}");
        // Two managers with a connection to each of five servers.
        assert_eq!(number("connections"), 10, "{all}");
    }

    /// A check that cannot fail would show nothing. Each waits in vain for a while for what is left behind, so they do it
    /// side by side.
    #[tokio::test]
    async fn what_is_left_behind_is_found() {
        let leaks = [
            ("leases", &["leaked_keys"][..]),
            ("memory", &["live_bytes"]),
            ("managers", &["connections", "descriptors", "threads"]),
            ("waiters", &["live_bytes"]),
        ];
        let runs = leaks.map(|(leak, grown)| async move {
            let (status, lines) = run(&["--keys", "1200", "--leak", leak]).await;
            let all = lines.join("\n");
            assert_eq!(status.code(), Some(1), "{leak}: {all}");
            for grown in grown {
                let said = format!("grown: {grown} from ");
                let is_said = lines.iter().any(|line| line.starts_with(&said));
                assert!(is_said, "{leak} and not {grown}: {all}");
            }
        });
        join_all(runs).await;
    }
}
