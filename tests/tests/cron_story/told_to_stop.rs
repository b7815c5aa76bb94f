//! A process that is told to stop ends its job if it is given the time, and keeps nobody from the next tick.

use crate::{JOB, assert_orderly};
use lock_tests::cron::{Replicas, STEPS};

#[tokio::test]
async fn the_job_in_hand_is_done_and_the_next_tick_is_run_by_another() {
    let mut replicas = Replicas::start(&JOB).await;
    let (stopped, ended) = replicas.stop_in_the_middle().await;
    assert_orderly(ended);
    assert_eq!(ended.ticks("ran").last(), Some(&stopped.tick), "{ended:#?}");
    let next = replicas.next_run(stopped.tick).await;
    assert_ne!(next.replica, stopped.replica);
    let further = replicas.next_run(next.tick).await;
    replicas.done(further.tick).await;

    let told = replicas.end().await;
    let ran = told.assert_each_tick_ran_once(&[]);
    assert!(ran >= 3, "{told:#?}");
    told.ended.iter().for_each(assert_orderly);
}

#[tokio::test]
async fn a_job_that_is_given_no_time_is_cut_off_and_the_next_tick_is_run_by_another() {
    let mut replicas = Replicas::start(&[JOB, ["--grace", "0s"]].concat()).await;
    let (stopped, ended) = replicas.stop_in_the_middle().await;
    assert_orderly(ended);
    assert_eq!(ended.logged("stopped on the way"), [stopped.tick]);
    let next = replicas.next_run(stopped.tick).await;
    // These would be cut off too.
    assert_eq!(replicas.told_of(&next.replica, next.tick).await, "ran");

    let told = replicas.end().await;
    told.assert_each_tick_ran_once(&[stopped.tick]);
    assert!(told.journal.of(&stopped).steps < STEPS, "{told:#?}");
    told.ended.iter().for_each(assert_orderly);
}
