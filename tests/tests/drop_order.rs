//! In which order things end in a function under `#[distributed_lock]`: body and parameters, and then the lock.

use lock_runtime::{LockError, LockManager, distributed_lock};
use lock_tests::{DEADLINE, Fleet, dropped_after, eventually};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
struct Events(Arc<Mutex<Vec<&'static str>>>);

impl Events {
    fn note(&self, event: &'static str) {
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Notes when it is dropped, and whether the lock was still held then.
struct Noted {
    events: Events,
    name: &'static str,
    node: Option<Arc<Fleet>>,
}

impl Noted {
    fn new(events: &Events, name: &'static str) -> Self {
        Self {
            events: events.clone(),
            name,
            node: None,
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.events.note(self.name);
        if let Some(fleet) = &self.node {
            self.events.note(if fleet.nodes_with("k") > 0 {
                "held"
            } else {
                "free"
            });
        }
    }
}

#[distributed_lock(key = "k", ttl = "60s", manager = locks)]
async fn ordered(
    locks: &LockManager,
    events: &Events,
    parameter: Noted,
    _: Noted,
    end: impl AsyncFnOnce() -> Result<(), LockError>,
) -> Result<(), LockError> {
    let _local = Noted::new(events, "local dropped");
    events.note("body");
    end().await?;
    drop(parameter.events.clone());
    Ok(())
}

async fn order_of(
    fleet: &Arc<Fleet>,
    locks: &LockManager,
    polls: usize,
    end: impl AsyncFnOnce() -> Result<(), LockError> + Send + 'static,
) -> Vec<&'static str> {
    let events = Events::default();
    let parameter = |name| Noted {
        events: events.clone(),
        name,
        node: Some(Arc::clone(fleet)),
    };
    let call = ordered(
        locks,
        &events,
        parameter("parameter dropped"),
        parameter("unnamed dropped"),
        end,
    );
    let caught = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(
        dropped_after(polls, call),
    ));
    // A body that waits for ever may be reached before the last poll, and is not polled again.
    let _ = tokio::time::timeout(Duration::from_secs(2), caught).await;
    events.take()
}

/// Body, locals and parameters are gone before the lock is: a transaction among them must not end outside the lock.
#[tokio::test]
async fn the_lock_is_released_last_whatever_way_the_body_ends() {
    let fleet = Arc::new(Fleet::start(1));
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let ended = [
        "body",
        "local dropped",
        "parameter dropped",
        "held",
        "unnamed dropped",
        "held",
    ];
    let returned = order_of(&fleet, &locks, usize::MAX, async || Ok(())).await;
    fleet.assert_no_keys("*").await;
    let failed = order_of(&fleet, &locks, usize::MAX, async || {
        Err(lock_runtime::installed().expect_err("there is none"))
    })
    .await;
    fleet.assert_no_keys("*").await;
    let panicked = order_of(&fleet, &locks, usize::MAX, async || panic!("on purpose")).await;
    fleet.assert_no_keys("*").await;
    for (way, mut events) in [
        ("returned", returned),
        ("failed", failed),
        ("panicked", panicked),
    ] {
        events.sort_by_key(|event| event.starts_with("unnamed"));
        assert_eq!(sorted(&events), sorted(&ended), "{way}: {events:?}");
        assert_eq!(events[..2], ended[..2], "{way}: {events:?}");
    }
    let mut polls = 1;
    let cancelled = loop {
        let events = order_of(&fleet, &locks, polls, async || std::future::pending().await).await;
        fleet.assert_no_keys("*").await;
        if events.contains(&"body") {
            break events;
        }
        polls += 1;
    };
    assert_eq!(sorted(&cancelled), sorted(&ended), "{cancelled:?}");
    assert_eq!(cancelled[..2], ended[..2], "{cancelled:?}");
}

fn sorted<'a>(events: &[&'a str]) -> Vec<&'a str> {
    let mut events = events.to_vec();
    events.sort_unstable();
    events
}

#[tokio::test]
async fn a_busy_lock_drops_the_parameters_and_never_polls_the_body() {
    let locks = LockManager::in_memory();
    let _lease = locks
        .lock("k")
        .ttl(Duration::from_secs(60))
        .acquire()
        .await
        .expect("free");
    let events = Events::default();
    let parameter = |name| Noted::new(&events, name);
    let outcome = ordered(
        &locks,
        &events,
        parameter("named"),
        parameter("unnamed"),
        async || Ok(()),
    )
    .await;
    assert!(outcome.expect_err("held").is_busy());
    assert_eq!(sorted(&events.take()), ["named", "unnamed"]);
}

#[tokio::test]
async fn a_guarded_call_on_servers_leaves_nothing() {
    let fleet = Fleet::start(5);
    let locks = fleet.manager();
    lock_tests::ready(&locks).await;
    let events = Events::default();
    let parameter = |name| Noted::new(&events, name);
    ordered(
        &locks,
        &events,
        parameter("p"),
        parameter("q"),
        async || Ok(()),
    )
    .await
    .expect("free");
    fleet.assert_no_keys("*").await;
    let call = ordered(
        &locks,
        &events,
        parameter("p"),
        parameter("q"),
        async || std::future::pending().await,
    );
    let held = eventually(DEADLINE, "it is held", || fleet.nodes_with("k") >= 3);
    tokio::select! {
        outcome = call => panic!("it never ends: {outcome:?}"),
        () = held => {}
    }
    fleet.assert_no_keys("*").await;
}
