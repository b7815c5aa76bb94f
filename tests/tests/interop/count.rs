//! Contenders of two languages count in one file: each reads it, lets others run, and writes it back with one more. An update
//! is lost unless one does it at a time.

use crate::neighbour::{KEY, Library};
use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, eventually};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Much longer than anybody stands still inside, and short enough to wait for what somebody leaves.
const TTL: Duration = Duration::from_secs(20);

/// How many of each language there are.
const EACH: usize = 2;

/// How often they have the lock, all together, before it is enough.
const ROUNDS: u64 = 1_000;

/// One counter for each contender, separated by spaces. A file of the same name and `.enough` ends it.
#[derive(Clone, Debug)]
struct Counters(PathBuf);

impl Counters {
    fn read(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.0).expect("the file is ours");
        let counter = |word: &str| word.parse().expect("whole, as one writes at a time");
        text.split(' ').map(counter).collect()
    }

    fn write(&self, counters: &[u64]) {
        let words: Vec<_> = counters.iter().map(u64::to_string).collect();
        std::fs::write(&self.0, words.join(" ")).expect("the file is ours");
    }

    fn enough(&self) -> PathBuf {
        PathBuf::from(format!("{}.enough", self.0.display()))
    }
}

/// What a contender of ours has added when it is enough.
async fn count(locks: LockManager, file: Counters, place: usize, least: u64) -> u64 {
    let mut added = 0;
    while !file.enough().exists() {
        let request = locks.lock(KEY).ttl(TTL).wait_forever();
        let counting = request.run(|_| async {
            let mut counters = file.read();
            tokio::time::sleep(Duration::from_millis(1)).await;
            counters[place] += 1;
            file.write(&counters);
            if counters.iter().sum::<u64>() >= ROUNDS && counters.iter().all(|&one| one >= least) {
                std::fs::write(file.enough(), "").expect("the directory is ours");
            }
        });
        counting.await.expect("its turn comes");
        added += 1;
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..4_000))).await;
    }
    added
}

/// Two of ours and two of theirs want the same lock, until they have had it a thousand times and each its share of that.
pub(crate) async fn a_thousand_rounds(library: Library, least: u64) {
    let fleet = Fleet::start(library.nodes());
    let directory = TempDir::new().expect("a temporary directory");
    let file = Counters(directory.path().join("counters"));
    file.write(&[0; 2 * EACH]);

    let mut theirs = Vec::new();
    for _ in 0..EACH {
        theirs.push(library.start(&fleet).await);
    }
    let mut ours = Vec::new();
    for _ in 0..EACH {
        ours.push(fleet.patient_manager().await);
    }
    let started = Instant::now();
    for (place, neighbour) in theirs.iter_mut().enumerate() {
        neighbour.begin_to_count(TTL, &file.0, EACH + place);
    }
    let ours: Vec<_> = ours
        .into_iter()
        .enumerate()
        .map(|(place, locks)| tokio::spawn(count(locks, file.clone(), place, least)))
        .collect();
    let mut added = Vec::new();
    for counting in ours {
        added.push(counting.await.expect("no panic"));
    }
    for neighbour in &mut theirs {
        added.push(neighbour.counted().await);
    }
    let took = started.elapsed();
    eprintln!("{library:?}: ours, then theirs {added:?} in {took:.1?}");
    assert_eq!(file.read(), added, "no update is lost");
    for neighbour in theirs {
        neighbour.end().await;
    }
    if library.leaves_something() {
        // It is theirs: a UUID. Of ours nothing is left, here neither.
        eventually(DEADLINE, "no token of ours is left", || {
            let mut left = fleet.values(KEY).into_iter().flatten();
            left.all(|token| token.contains('-'))
        })
        .await;
    } else {
        fleet.assert_no_keys("*").await;
    }
}
