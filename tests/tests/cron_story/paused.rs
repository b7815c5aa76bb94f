//! A process that stands still in the middle of its job goes on only if the lock is still its own.

use crate::{JOB, TTL, assert_orderly};
use lock_tests::cron::{Replicas, STEPS, now};
use lock_tests::{DEADLINE, eventually};
use std::time::Duration;

#[tokio::test]
async fn one_that_was_paused_for_longer_than_its_lock_does_nothing_more_of_its_job() {
    let mut replicas = Replicas::start(&[JOB, TTL].concat()).await;
    let paused = replicas.pause_in_the_middle().await;
    let free = replicas.free().expect("it has the lock");
    // Another is in the middle of the same job when this one comes back.
    let next = replicas.in_the_middle().await;
    let lost = free.lost(paused.tick, &next);
    replicas.process(&paused.replica).resume();
    let further = replicas.next_run(next.tick).await;
    // It takes part again.
    replicas.told_of(&paused.replica, further.tick).await;
    replicas.done(further.tick).await;

    let told = replicas.end().await;
    assert!(lost.len() >= 3, "only {lost:?} by {paused:?}, {free:?}");
    let ran = told.assert_each_tick_ran_once(&lost);
    assert!(ran >= 3, "{told:#?}");
    assert_eq!(told.journal.of(&paused), paused, "{told:#?}");
    told.ended.iter().for_each(assert_orderly);
    let came_back = told.by(&paused.replica);
    assert_eq!(came_back.code, Some(1));
    assert_eq!(came_back.logged("stopped on the way"), [paused.tick]);
    // What it slept through it does not make up for.
    let too_late = came_back.logged("too late to take part");
    let slept: Vec<_> = (paused.tick + 1..next.tick).collect();
    assert!(too_late.starts_with(&slept), "{came_back:#?}");
}

#[tokio::test]
async fn one_that_was_paused_for_less_goes_on() {
    let mut replicas = Replicas::start(&JOB).await;
    let paused = replicas.pause_in_the_middle().await;
    let next = Duration::from_secs(paused.tick + 1);
    eventually(DEADLINE, "the next tick has passed", || {
        now() > next + Duration::from_millis(100)
    })
    .await;
    replicas.process(&paused.replica).resume();
    let told = replicas.told_of(&paused.replica, paused.tick).await;
    assert_eq!(told, "ran");
    let kept_until = now();
    let further = replicas.next_run(paused.tick).await;
    replicas.done(further.tick).await;

    let told = replicas.end().await;
    let kept = paused.tick + 1..=kept_until.as_secs().min(further.tick - 1);
    let kept: Vec<_> = kept.collect();
    assert!(!kept.is_empty(), "{paused:?}, then {further:?}");
    told.assert_each_tick_ran_once(&kept);
    assert_eq!(told.journal.of(&paused).steps, STEPS);
    told.ended.iter().for_each(assert_orderly);
}

#[tokio::test]
async fn one_that_is_paused_between_ticks_is_not_missed() {
    let mut replicas = Replicas::start(&["--job", "20ms"]).await;
    let before = replicas.next_run(replicas.journal().last_tick()).await;
    // It has given the lock back, or left it to the servers until the tick is over for everybody.
    let told = replicas.told_of(&before.replica, before.tick).await;
    assert_eq!(told, "ran");
    replicas.process(&before.replica).pause();
    let mut last = before.clone();
    for _ in 0..2 {
        last = replicas.next_run(last.tick).await;
        assert_ne!(last.replica, before.replica, "it stands still");
    }
    replicas.process(&before.replica).resume();
    let further = replicas.next_run(last.tick).await;
    replicas.told_of(&before.replica, further.tick).await;
    replicas.done(further.tick).await;

    let told = replicas.end().await;
    let ran = told.assert_each_tick_ran_once(&[]);
    assert!(ran >= 4, "{told:#?}");
    told.ended.iter().for_each(assert_orderly);
    let too_late = told.by(&before.replica).logged("too late to take part");
    assert!(too_late.contains(&(before.tick + 1)), "{told:#?}");
}
