//! A short run of `scripts/cron`: how long after a crash a job runs again. Many of them are made by hand.

use lock_tests::processes::Peer;
use std::process::Command;

#[tokio::test]
async fn the_time_to_the_next_run_is_measured() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cron"));
    command.args(["--kills", "1", "--ttl", "1500"]);
    let (status, lines) = Peer::start(command).finish().await;
    let all = lines.join("\n");
    assert!(status.success(), "{status}\n{all}");
    let result = lines.last().expect("a run has a result");
    let numbers: Vec<(&str, u64)> = result
        .split(' ')
        .filter_map(|word| word.split_once('='))
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect();
    let [
        ("kills", 1),
        ("again_min_ms", least),
        ("again_median_ms", median),
        ("again_max_ms", most),
        ("lost_max", lost),
        ("early", 0),
        ("late", 0),
        ("double_runs", 0),
    ] = numbers[..]
    else {
        panic!("not a result: {result}\n{all}");
    };
    assert_eq!((least, most), (median, median), "{all}");
    // What is left of the TTL, and up to a period; on a busy machine some more.
    assert!(least > 500 && lost >= 2, "{all}");
}
