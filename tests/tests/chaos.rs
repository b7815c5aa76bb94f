//! A short run of `scripts/chaos`: what is promised holds under faults. Minutes of it are run by hand.

use lock_tests::processes::Peer;
use std::process::Command;

mod heavy {
    use super::*;

    #[tokio::test]
    async fn a_short_run() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
        command.args(["--seconds", "15"]);
        let (status, lines) = Peer::start(command).finish().await;
        let all = lines.join("\n");
        let last = lines.last().expect("a run has a result");
        assert!(status.success(), "{status}\n{all}");
        let numbers: Vec<_> = last
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .collect();
        let [
            ("acquisitions", acquisitions),
            ("faults", faults),
            none @ ..,
        ] = &numbers[..]
        else {
            panic!("not a result: {last}\n{all}");
        };
        assert_eq!(
            none,
            [
                ("overlaps", "0"),
                ("fence_regressions", "0"),
                ("keys_left", "0")
            ]
        );
        let handed_over = lines.iter().find_map(|line| {
            let (before, _) = line.split_once(" were handed over")?;
            before.rsplit(' ').next()?.parse::<usize>().ok()
        });
        assert!(handed_over.is_some_and(|count| count > 0), "{all}");
        for (some, least) in [(acquisitions, 20), (faults, 20)] {
            assert!(
                some.parse::<usize>().unwrap() >= least,
                "too few to show anything\n{all}"
            );
        }
    }
}
