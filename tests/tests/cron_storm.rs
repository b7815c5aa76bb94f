//! Contenders with a manager each try once at the same instant: one wins, in every round. Never two; and never none, which
//! is what a plain quorum gives when the votes are split.

use lock_runtime::{LockManager, LockManagerBuilder};
use lock_tests::Fleet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const NODES: usize = 5;

const ROUNDS: usize = 1000;

/// Until votes were split.
const MOST_ROUNDS: usize = 10 * ROUNDS;

async fn storm(contenders: usize) {
    let fleet = Fleet::start(NODES);
    let managers: Vec<_> = (0..contenders)
        .map(|contender| {
            // Each writes to another node first, or they would hardly ever split the votes.
            let mut urls = fleet.urls();
            urls.rotate_left(contender % NODES);
            // A round that is slow because the machine is busy is not an outage.
            let patient = LockManager::builder().node_timeout(Duration::from_secs(5));
            let builder = urls.into_iter().fold(patient, LockManagerBuilder::node);
            builder.build().expect("a manager")
        })
        .collect();
    for manager in &managers {
        lock_tests::ready(manager).await;
    }
    // On a machine that is busy, three seldom ask at the same instant.
    let splits = || -> u64 {
        let stats = managers.iter().map(LockManager::stats);
        stats.map(|stats| stats.split_votes).sum()
    };
    let enough = |round: &usize| *round < ROUNDS || splits() == 0;
    for round in (0..MOST_ROUNDS).take_while(enough) {
        let start = Arc::new(Barrier::new(contenders));
        let mut tries = JoinSet::new();
        for manager in &managers {
            let manager = manager.clone();
            let start = Arc::clone(&start);
            tries.spawn(async move {
                let request = manager
                    .lock(format!("tick:{round}"))
                    .ttl(Duration::from_secs(60));
                start.wait().await;
                request.acquire().await
            });
        }
        let mut winners = Vec::new();
        for outcome in tries.join_all().await {
            match outcome {
                Ok(lease) => winners.push(lease),
                Err(error) => assert!(error.is_busy(), "round {round}: {error}"),
            }
        }
        assert_eq!(winners.len(), 1, "winners in round {round}");
    }
    eprintln!("{} votes were split", splits());
    fleet.assert_no_key_without_ttl();
    fleet.assert_no_keys("*").await;
    assert!(
        splits() > 0,
        "the votes were never split, so this has shown nothing"
    );
}

mod heavy {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn three_contenders() {
        super::storm(3).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_contenders() {
        super::storm(10).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn fifty_contenders() {
        super::storm(50).await;
    }
}
