//! Short runs of `scripts/load`: the service under load, also while nodes and a service fail, sells nothing twice, and the look
//! at the database afterwards would see it. Those of 500 customers are run by hand; docs/load.md has what they said.

use lock_tests::DEADLINE;
use lock_tests::processes::Peer;
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

/// What a run left.
struct Outcome {
    code: Option<i32>,
    /// What it printed.
    all: String,
    numbers: BTreeMap<String, i64>,
    directory: TempDir,
}

impl Outcome {
    #[track_caller]
    fn number(&self, name: &str) -> i64 {
        let number = self.numbers.get(name);
        *number.unwrap_or_else(|| panic!("no {name}:\n{}", self.all))
    }

    #[track_caller]
    fn assert_says(&self, what: &str) {
        assert!(
            self.all.contains(what),
            "{what:?} is not said:\n{}",
            self.all
        );
    }

    fn file(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Nothing was answered that may not be, nothing is twice, and the numbers add up, with at most so many pieces gone.
    #[track_caller]
    fn assert_well(&self, gone: i64) {
        assert_eq!(self.code, Some(0), "{}", self.all);
        assert_eq!(self.number("duplicates"), 0);
        let pieces = 20 * 1_000_000 + 10;
        let missing = pieces - self.number("stock") - self.number("sold");
        assert!((0..=gone).contains(&missing), "{missing}\n{}", self.all);
        assert!(self.number("requests") >= self.number("sold"));
        // Enough to show something, and the product that ends has ended.
        assert!(self.number("sold") > 100, "{}", self.all);
        let ends = self
            .file("orders.txt")
            .lines()
            .filter(|line| line.contains(" 9921 409 "))
            .count();
        assert!(ends > 0, "{}", self.all);
        for (name, words) in [
            ("report.md", "## Violations\n\nNone."),
            ("report.svg", "200 sold</title>"),
            ("k6.txt", "200 or 429"),
        ] {
            assert!(
                self.file(name).contains(words),
                "{name}: {}",
                self.file(name)
            );
        }
    }
}

async fn run(arguments: &[&str]) -> Outcome {
    let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    command.args(arguments).arg("--to").arg(directory.path());
    let (status, lines) = Peer::start(command).finish_within(6 * DEADLINE).await;
    let all = lines.join("\n");
    let last = lines
        .last()
        .unwrap_or_else(|| panic!("{status}: no result"));
    let numbers = last.split(' ').filter_map(|word| {
        let (name, number) = word.split_once('=')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Outcome {
        code: status.code(),
        numbers: numbers.collect(),
        all,
        directory,
    }
}

mod heavy {
    use super::*;

    #[tokio::test]
    async fn what_is_sold_under_load_adds_up() {
        let outcome = run(&["--vus", "40", "--seconds", "4"]).await;
        outcome.assert_well(0);
        outcome.assert_says("\n| 503, no lock service | 0 |");
    }

    #[tokio::test]
    async fn what_is_sold_while_nodes_and_a_service_fail_adds_up_and_it_is_back_to_normal_by_itself()
     {
        let outcome = run(&["--chaos", "--vus", "40", "--seconds", "12"]).await;
        // The process that was killed served this many customers at most.
        outcome.assert_well(40);
        for fault in [
            "node 1 killed",
            "service 2 killed",
            "node 2 paused",
            "node 3 cut off",
            "nodes 3 to 5 cut off",
        ] {
            outcome.assert_says(&format!("\n| {fault} |"));
            let drawn = outcome.file("report.svg");
            assert!(drawn.contains(&format!(">{fault}, ")), "{fault}: {drawn}");
        }
        outcome.assert_says("\nBack to normal ");
    }

    /// A check that cannot fail would show nothing: here the two services do not see each other's locks.
    #[tokio::test]
    async fn what_is_sold_twice_is_found() {
        let outcome = run(&["--without-locks", "--vus", "40", "--seconds", "1"]).await;
        assert_eq!(outcome.code, Some(1), "{}", outcome.all);
        assert!(outcome.number("duplicates") > 0, "{}", outcome.all);
        outcome.assert_says("\n- duplicate: the piece of product ");
        outcome.assert_says(" too often\n");
    }
}
