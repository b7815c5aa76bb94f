//! Lines without nodes: who is called when, and what is left.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::{Called, Holder, Joined, Place, Queue, Turn, Until, Verdict, Wants};
use crate::executor::Executor;
use crate::key::LockKey;

const WANTS: Wants = Wants {
    ttl: Duration::from_secs(8),
    fenced: false,
    alone: true,
};

const GRACE: Duration = Duration::from_secs(600);

/// A queue, one of its keys, and where its deadlines are looked after.
struct Site {
    queue: Arc<Queue>,
    key: LockKey,
    executor: Executor,
}

impl Site {
    fn new() -> Self {
        Self {
            queue: Arc::new(Queue::new(GRACE)),
            key: "k".into(),
            executor: Executor::of_caller(),
        }
    }

    fn join(&self, until: Until) -> Joined {
        self.queue.join(&self.key, WANTS, until, &self.executor)
    }

    fn turn(&self) -> Turn {
        match self.join(Until::Forever) {
            Joined::Turn(turn) => turn,
            other => panic!("{other:?}"),
        }
    }

    fn behind(&self, until: Until) -> Place {
        match self.join(until) {
            Joined::Behind(place) => place,
            other => panic!("{other:?}"),
        }
    }

    fn in_ms(&self, millis: u64) -> Until {
        Until::Deadline(self.executor.now() + Duration::from_millis(millis))
    }

    fn is_empty(&self) -> bool {
        let lines = self.queue.lines();
        lines.by_key.is_empty() && lines.deadlines.is_empty()
    }
}

/// What somebody was called for, if he was.
fn called(place: &mut Place) -> Option<Called> {
    place.now_or_never()
}

fn turn_of(place: &mut Place) -> Turn {
    match called(place) {
        Some(Called::Turn(turn)) => turn,
        other => panic!("{other:?}"),
    }
}

fn is_busy(called: Option<&Called>, within: Duration) -> bool {
    matches!(called, Some(Called::Refused(Verdict::Busy { retry_after, .. })) if *retry_after == Some(within))
}

fn busy(seconds: u64) -> Verdict {
    Verdict::held_here(&"k".into(), Some(Duration::from_secs(seconds)))
}

#[test]
fn first_come_first_served_and_nothing_is_left() {
    let site = Site::new();
    let mut turn = site.turn();
    let mut places: Vec<_> = (0..100).map(|_| site.behind(Until::Forever)).collect();
    for index in 0..places.len() {
        assert!(
            places[index..]
                .iter_mut()
                .all(|place| called(place).is_none())
        );
        drop(turn);
        turn = turn_of(&mut places[index]);
    }
    drop(turn);
    assert!(site.is_empty());
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let site = Site::new();
    let _turn = site.turn();
    let other = site
        .queue
        .join(&"other".into(), WANTS, Until::Forever, &site.executor);
    assert!(matches!(other, Joined::Turn(_)), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_is_out_of_the_line_at_once() {
    let site = Site::new();
    let turn = site.turn();
    let mut places: Vec<_> = (0..1_000)
        .map(|_| Some(site.behind(site.in_ms(5_000))))
        .collect();
    for (index, place) in places.iter_mut().enumerate() {
        if index != 500 {
            *place = None;
        }
    }
    assert_eq!(turn.followers(), 1);
    drop(turn);
    let mut last = places[500].take().expect("he stayed");
    drop(turn_of(&mut last));
    assert!(site.queue.lines().by_key.is_empty());
}

#[test]
fn a_turn_that_nobody_takes_up_goes_on() {
    let site = Site::new();
    let turn = site.turn();
    let called_and_gone = site.behind(Until::Forever);
    let mut next = site.behind(Until::Forever);
    drop(turn);
    assert!(called(&mut next).is_none());
    drop(called_and_gone);
    drop(turn_of(&mut next));
    assert!(site.is_empty());
}

/// Called at the moment in which he leaves, on another thread.
#[test]
fn a_turn_that_comes_too_late_goes_on_too() {
    for _ in 0..2_000 {
        let site = Site::new();
        let turn = site.turn();
        let leaving: Vec<_> = (0..20).map(|_| site.behind(Until::Forever)).collect();
        let mut last = site.behind(Until::Forever);
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                drop(turn);
            });
            start.wait();
            drop(leaving);
        });
        drop(turn_of(&mut last));
        assert!(site.is_empty());
    }
}

#[test]
fn a_verdict_is_for_those_who_came_before_the_nodes_were_asked() {
    let site = Site::new();
    let turn = site.turn();
    let mut early = site.behind(Until::FirstVerdict);
    let mut patient = site.behind(Until::Forever);
    let before = turn.begin();
    let mut late = site.behind(Until::FirstVerdict);
    turn.found(before, &busy(7));
    assert!(is_busy(called(&mut early).as_ref(), Duration::from_secs(7)));
    assert!(
        called(&mut late).is_none(),
        "the lock may have been released before he came"
    );
    assert!(called(&mut patient).is_none());
    assert!(turn.pressed().is_none(), "somebody waits to be told");

    turn.found(turn.begin(), &busy(6));
    assert!(is_busy(called(&mut late).as_ref(), Duration::from_secs(6)));
    assert!(turn.pressed().is_some());
    drop(turn);
    drop(turn_of(&mut patient));
    assert!(site.is_empty());
}

#[test]
fn whoever_has_the_turn_is_woken_by_somebody_who_has_no_time() {
    let site = Site::new();
    let turn = site.turn();
    let pressed = turn.pressed().expect("nobody is there");
    let mut woken = Box::pin(pressed.notified());
    assert!((&mut woken).now_or_never().is_none());
    let _late = site.behind(Until::FirstVerdict);
    assert!(woken.now_or_never().is_some());
    assert!(turn.is_pressed());
}

#[derive(Debug)]
struct Held(Option<Duration>);

impl Holder for Held {
    fn left(&self) -> Option<Duration> {
        self.0
    }
}

#[test]
fn a_holder_in_this_process_is_reason_enough() {
    let site = Site::new();
    let turn = site.turn();
    let mut hurried = site.behind(Until::FirstVerdict);
    let mut patient = site.behind(Until::Forever);
    let left = Duration::from_secs(5);
    let holder = Arc::new(Held(Some(left)));
    let weak: Weak<Held> = Arc::downgrade(&holder);
    turn.held_by(weak, left);
    assert!(is_busy(called(&mut hurried).as_ref(), left));
    assert!(called(&mut patient).is_none());
    let refused = site.join(Until::FirstVerdict);
    assert!(
        matches!(refused, Joined::Refused(Verdict::Busy { .. })),
        "{refused:?}"
    );
    let past = site.join(Until::Deadline(site.executor.now()));
    assert!(
        matches!(past, Joined::Refused(Verdict::Busy { .. })),
        "{past:?}"
    );
}

/// There was an outage, and then somebody had the lock.
#[tokio::test(start_paused = true)]
async fn a_verdict_of_before_the_last_holder_is_none() {
    let site = Site::new();
    let turn = site.turn();
    let mut place = site.behind(site.in_ms(10));
    turn.found(turn.begin(), &Verdict::nothing_works(&"k".into()));
    let over = Arc::new(Held(None));
    let weak: Weak<Held> = Arc::downgrade(&over);
    turn.held_by(weak, Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(called(&mut place).is_none(), "it is found out anew");
    turn.found(turn.begin(), &busy(2));
    assert!(is_busy(called(&mut place).as_ref(), Duration::from_secs(2)));
}

/// What a holder had is no reason any more: somebody else may have it, or nobody.
#[test]
fn a_holder_whose_lease_is_over_is_no_reason() {
    let site = Site::new();
    let turn = site.turn();
    let over = Arc::new(Held(None));
    let weak: Weak<Held> = Arc::downgrade(&over);
    turn.held_by(weak, Duration::ZERO);
    let mut hurried = site.behind(Until::FirstVerdict);
    assert!(called(&mut hurried).is_none());
    drop(over);
    let mut another = site.behind(Until::FirstVerdict);
    drop(turn);
    let turn = turn_of(&mut hurried);
    turn.found(turn.begin(), &busy(1));
    assert!(is_busy(
        called(&mut another).as_ref(),
        Duration::from_secs(1)
    ));
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_to_the_millisecond() {
    let site = Site::new();
    let turn = site.turn();
    let left = Duration::from_secs(60);
    let holder = Arc::new(Held(Some(left)));
    let weak: Weak<Held> = Arc::downgrade(&holder);
    turn.held_by(weak, left);
    // A later one does not keep the task from the sooner one.
    for millis in [700, 20, 3_500, 250, 1, 20] {
        let started = Instant::now();
        let began = site.executor.now();
        let place = site.behind(site.in_ms(millis));
        assert!(is_busy(Some(&place.await), left));
        let took = site.executor.now() - began;
        let wanted = Duration::from_millis(millis);
        assert!(
            took >= wanted && took <= wanted + Duration::from_millis(1),
            "{took:?}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the clock is paused"
        );
    }
    drop(turn);
    // The task has found out by then that nothing is left to do.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(site.is_empty());
    assert_eq!(site.executor.tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_time_left_is_told_what_was_found_since_he_came() {
    let site = Site::new();
    let turn = site.turn();
    let mut first = site.behind(site.in_ms(10));
    turn.found(turn.begin(), &busy(9));
    let mut second = site.behind(site.in_ms(10));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(is_busy(called(&mut first).as_ref(), Duration::from_secs(9)));
    assert!(called(&mut second).is_none(), "nothing was found since");
    turn.found(turn.begin(), &busy(8));
    assert!(is_busy(
        called(&mut second).as_ref(),
        Duration::from_secs(8)
    ));
}

/// Whoever has the turn may be a future that nobody polls any more.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_to_be_told() {
    let site = Site::new();
    let _turn = site.turn();
    let began = site.executor.now();
    let places = [
        site.behind(Until::FirstVerdict),
        site.behind(site.in_ms(5_000)),
    ];
    for (place, seconds) in places.into_iter().zip([0, 5]) {
        let told = place.await;
        assert!(
            matches!(
                told,
                Called::Refused(Verdict::Busy {
                    retry_after: None,
                    ..
                })
            ),
            "{told:?}"
        );
        let took = site.executor.now() - began;
        let wanted = GRACE + Duration::from_secs(seconds);
        assert!(
            took >= wanted && took < wanted + Duration::from_secs(1),
            "{took:?}"
        );
    }
}

/// The task that looks after deadlines runs where the first one came from. If that ends, nobody waits for ever.
#[test]
fn a_runtime_that_ends_takes_the_deadlines_with_it() {
    let site = Site::new();
    let _turn = site.turn();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().expect("a runtime");
    let mut place = {
        let _inside = runtime.enter();
        site.behind(site.in_ms(3_600_000))
    };
    runtime.block_on(tokio::task::yield_now());
    assert!(called(&mut place).is_none());
    drop(runtime);
    let told = called(&mut place);
    assert!(
        matches!(told, Some(Called::Refused(Verdict::NoQuorum { .. }))),
        "{told:?}"
    );
    assert!(site.queue.lines().deadlines.is_empty());
}

#[tokio::test]
async fn nobody_is_let_in_after_the_end() {
    let site = Site::new();
    let turn = site.turn();
    let mut places = [
        site.behind(Until::Forever),
        site.behind(site.in_ms(60_000)),
        site.behind(Until::FirstVerdict),
    ];
    site.queue.close();
    for place in &mut places {
        let told = called(place);
        assert!(
            matches!(told, Some(Called::Refused(Verdict::ShuttingDown))),
            "{told:?}"
        );
    }
    let refused = site.join(Until::Forever);
    assert!(
        matches!(refused, Joined::Refused(Verdict::ShuttingDown)),
        "{refused:?}"
    );
    drop(turn);
    assert!(site.is_empty());
}
