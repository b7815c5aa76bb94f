//! The span of a guarded call.

use crate::journal::{Journal, Span};
use lock_runtime::{LockError, LockManager, distributed_lock};
use std::time::Duration;
use tracing::Level;

const TTL: Duration = Duration::from_secs(8);

#[distributed_lock(key = "order:{id}", ttl = "8s", wait = "1s", name = "ship", manager = locks)]
async fn ship(locks: &LockManager, id: u64) -> Result<u64, LockError> {
    tracing::info!("packing");
    tokio::time::sleep(Duration::from_millis(250)).await;
    tracing::info!("packed");
    Ok(id)
}

fn number(span: &Span, field: &str) -> f64 {
    span.fields[field].parse().expect("a number")
}

fn only(journal: &Journal, name: &str) -> Span {
    let spans = journal.calls(name);
    let [span] = &spans[..] else {
        panic!("{spans:?}");
    };
    span.clone()
}

/// In a test with one thread, a journal of its own.
fn journal(down_to: Level) -> (Journal, tracing::subscriber::DefaultGuard) {
    let journal = Journal::down_to(down_to);
    let guard = tracing::subscriber::set_default(journal.clone());
    (journal, guard)
}

#[tokio::test(start_paused = true)]
async fn it_says_how_long_was_waited_and_held_and_the_body_writes_inside_of_it() {
    let (journal, _guard) = journal(Level::INFO);
    let locks = LockManager::in_memory();
    let held = locks
        .lock("order:7")
        .ttl(TTL)
        .acquire()
        .await
        .expect("free");
    let both = tokio::join!(ship(&locks, 7), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        held.release().await.expect("released");
    });
    assert_eq!(both.0.expect("free in time"), 7);
    let span = only(&journal, "ship");
    assert_eq!(span.fields["outcome"], "done");
    assert!(
        (500.0..510.0).contains(&number(&span, "wait_ms")),
        "{span:?}"
    );
    assert!(
        (250.0..260.0).contains(&number(&span, "hold_ms")),
        "{span:?}"
    );
    assert!(span.is_closed);
    assert!(!span.fields.contains_key("key"), "at level INFO: {span:?}");
    for said in ["packing", "packed"] {
        let events = journal.events();
        let event = events.iter().find(|event| event.message() == said);
        let [inside] = &event.expect(said).inside[..] else {
            panic!("{event:?} is not inside of one span");
        };
        assert_eq!(journal.spans()[*inside].name, "distributed_lock");
    }
}

#[tokio::test]
async fn keys_stand_in_it_at_debug_level() {
    let (journal, _guard) = journal(Level::DEBUG);
    let locks = LockManager::in_memory();
    let both = locks.lock_all(["b", "a"]).name("both").ttl(TTL);
    both.run(async |_| ()).await.expect("free");
    let span = only(&journal, "both");
    assert_eq!(span.fields["key"], "b, a");
    assert_eq!(span.fields["attempts"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_cancelled_while_it_waits_and_in_its_body() {
    let (journal, _guard) = journal(Level::INFO);
    let locks = LockManager::in_memory();
    let endless = |name| {
        let request = locks.lock("k").name(name).ttl(TTL).wait(TTL * 9);
        request.run(async |_| std::future::pending::<()>().await)
    };
    tokio::select! {
        biased;
        _ = endless("inside") => panic!("endless"),
        _ = endless("waiting") => panic!("endless"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    for name in ["inside", "waiting"] {
        let span = only(&journal, name);
        assert_eq!(span.fields["outcome"], "cancelled", "{span:?}");
        assert_eq!(span.fields.contains_key("wait_ms"), name == "inside");
        assert_eq!(span.fields.contains_key("hold_ms"), name == "inside");
        assert!(span.is_closed);
    }
}

/// Nobody is to be woken by a tick that another replica has.
#[tokio::test]
async fn a_lock_that_is_busy_says_nothing_above_debug_level_but_in_its_span() {
    #[distributed_lock(key = "tick", ttl = "8s", name = "tick", on_busy = skip, manager = locks)]
    async fn tick(locks: &LockManager) {}

    let (journal, _guard) = journal(Level::INFO);
    let locks = LockManager::in_memory();
    let held = locks.lock("tick").ttl(TTL).acquire().await.expect("free");
    tick(&locks).await;
    held.release().await.expect("released");
    assert_eq!(only(&journal, "tick").fields["outcome"], "busy");
    assert!(journal.events().is_empty(), "{:?}", journal.events());
}
