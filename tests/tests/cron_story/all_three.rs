//! The whole story, with what the example does by default but for a job that takes some time: one is killed, one told to stop,
//! one paused, each in the middle of its job.

use crate::{JOB, assert_orderly};
use lock_tests::cron::Replicas;
use std::time::Duration;

#[tokio::test]
async fn one_is_killed_one_told_to_stop_and_one_paused() {
    let mut replicas = Replicas::start(&JOB).await;

    let (killed, free) = replicas.kill_in_the_middle(Duration::ZERO).await;
    replicas.start_another();
    let after_kill = replicas.next_run(killed.tick).await;
    let mut lost = free.lost(killed.tick, &after_kill);

    let (stopped, _) = replicas.stop_in_the_middle().await;
    replicas.start_another();
    let after_stop = replicas.next_run(stopped.tick).await;
    assert_ne!(after_stop.replica, stopped.replica);

    let paused = replicas.pause_in_the_middle().await;
    let free = replicas.free().expect("it has the lock");
    let after_pause = replicas.in_the_middle().await;
    lost.extend(free.lost(paused.tick, &after_pause));
    replicas.process(&paused.replica).resume();
    let further = replicas.next_run(after_pause.tick).await;
    replicas.told_of(&paused.replica, further.tick).await;

    let told = replicas.end().await;
    let ran = told.assert_each_tick_ran_once(&lost);
    assert!(ran >= 5, "{told:#?}");
    let killed = told.by(&killed.replica);
    assert_eq!(killed.code, None);
    let stopped_by_itself = told.ended.iter().filter(|ended| ended.code.is_some());
    assert_eq!(stopped_by_itself.map(assert_orderly).count(), 4);
    assert_eq!(told.journal.of(&paused), paused, "{told:#?}");
    let came_back = told.by(&paused.replica);
    assert_eq!(came_back.logged("stopped on the way"), [paused.tick]);
}
