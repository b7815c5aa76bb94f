//! A process that dies leaves its lock to the TTL.

use crate::{JOB, TTL, assert_orderly};
use lock_tests::cron::{Replicas, STEPS};
use std::time::Duration;

#[tokio::test]
async fn the_first_tick_after_the_lock_of_a_dead_one_has_run_out_is_run_once() {
    let mut replicas = Replicas::start(&[JOB, TTL].concat()).await;
    let (killed, free) = replicas.kill_in_the_middle(Duration::ZERO).await;
    // An orchestrator has another one there at once, which has to wait as the others do.
    replicas.start_another();
    let next = replicas.next_run(killed.tick).await;
    let lost = free.lost(killed.tick, &next);
    let further = replicas.next_run(next.tick).await;
    replicas.done(further.tick).await;

    let told = replicas.end().await;
    assert!(lost.len() >= 2, "only {lost:?} by {killed:?}, {free:?}");
    let ran = told.assert_each_tick_ran_once(&lost);
    assert!(ran >= 3, "{told:#?}");
    assert!(told.journal.of(&killed).steps < STEPS, "{told:#?}");
    assert_eq!(told.by(&killed.replica).code, None);
    let others = told.ended.iter().filter(|ended| ended.code.is_some());
    assert_eq!(others.map(assert_orderly).count(), 3);
}
