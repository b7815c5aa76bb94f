//! Locks in this process: when they end, whose they are, and who is told.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::FutureExt;

use super::*;

fn ask(key: &str, ttl: Duration) -> Arc<Ask> {
    Arc::new(Ask {
        key: key.into(),
        token: Token::fresh(None).expect("random"),
        ttl,
        fence: None,
        limit: Limit::within(ttl),
        ledger: Arc::default(),
        command: OnceLock::new(),
    })
}

fn give_back(ask: &Ask, token: &Token, keep: Option<Duration>) -> Return {
    Return {
        key: Arc::clone(&ask.key),
        token: token.clone(),
        keep,
        aloud: keep.is_none().then_some(Duration::ZERO),
        again: false,
        limit: ask.limit.clone(),
        command: OnceLock::new(),
    }
}

async fn take(node: &Arc<MemoryNode>, ask: &Arc<Ask>) -> Result<Acquired, NodeError> {
    Arc::clone(node).acquire(Arc::clone(ask), 0).await
}

async fn owner(node: &Arc<MemoryNode>, key: &str) -> Option<Holder> {
    Arc::clone(node)
        .look(key.into(), Limit::within(Duration::ZERO))
        .await
        .expect("memory answers")
}

#[tokio::test(start_paused = true)]
async fn a_lock_ends_exactly_at_its_ttl_and_leaves_nothing() {
    let node = Arc::new(MemoryNode::new());
    let mine = ask("k", Duration::from_millis(100));
    assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
    tokio::time::advance(Duration::from_millis(99)).await;
    let theirs = ask("k", Duration::from_millis(100));
    assert_eq!(
        take(&node, &theirs).await,
        Ok(Acquired::found(&mine.token.owner().0, &theirs.token))
    );
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(owner(&node, "other").await, None);
    assert_eq!(
        node.state().locks.by_key.len(),
        0,
        "a look at any key expires all"
    );
    assert_eq!(take(&node, &theirs).await, Ok(Acquired::Granted(0)));
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_releases_and_keeping_shortens_the_life() {
    let node = Arc::new(MemoryNode::new());
    let mine = ask("k", Duration::from_secs(10));
    let stranger = Token::fresh(None).expect("random");
    assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
    assert_eq!(
        node.release_now(&give_back(&mine, &stranger, None)),
        Some(Released::NotOurs)
    );
    let keep = Duration::from_secs(1);
    assert_eq!(
        node.release_now(&give_back(&mine, &mine.token, Some(keep))),
        Some(Released::Done { told: 0 })
    );
    assert_eq!(
        owner(&node, "k").await.and_then(|holder| holder.remaining),
        Some(keep)
    );
    tokio::time::advance(keep).await;
    assert_eq!(owner(&node, "k").await, None);
    assert_eq!(
        node.release_now(&give_back(&mine, &mine.token, None)),
        Some(Released::NotOurs)
    );
}

async fn listen(node: &Arc<MemoryNode>, key: &str) -> Listener {
    Arc::clone(node)
        .listen(key.into(), Limit::within(Duration::ZERO))
        .await
        .expect("memory answers")
}

#[tokio::test(start_paused = true)]
async fn who_listens_is_told_of_each_release_and_of_nothing_else() {
    const TTL: Duration = Duration::from_secs(10);
    let node = Arc::new(MemoryNode::new());
    let mut listeners = [listen(&node, "k").await, listen(&node, "k").await];
    let mut elsewhere = listen(&node, "other").await;
    let release = |ask: &Ask, keep| node.release_now(&give_back(ask, &ask.token, keep));

    let mine = ask("k", TTL);
    assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
    let kept = release(&mine, Some(TTL / 2));
    assert_eq!(kept, Some(Released::Done { told: 0 }), "nothing is free");
    assert_eq!(listeners[0].heard().now_or_never(), None);
    assert_eq!(release(&mine, None), Some(Released::Done { told: 2 }));
    assert_eq!(release(&mine, None), Some(Released::NotOurs));
    for listener in &mut listeners {
        assert_eq!(listener.heard().now_or_never(), Some(Duration::ZERO));
        assert_eq!(listener.heard().now_or_never(), None, "once");
    }
    assert_eq!(elsewhere.heard().now_or_never(), None);

    let [mut stays, leaves] = listeners;
    drop(leaves);
    for _ in 0..3 {
        assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
        assert_eq!(release(&mine, None), Some(Released::Done { told: 1 }));
    }
    assert_eq!(stays.heard().now_or_never(), Some(Duration::ZERO));
    assert_eq!(stays.heard().now_or_never(), None, "several are one");

    drop((stays, elsewhere));
    assert!(node.listening.is_empty());
}

#[tokio::test]
async fn a_request_that_was_decided_without_it_takes_nothing() {
    let node = Arc::new(MemoryNode::new());
    let late = ask("k", Duration::from_secs(10));
    late.ledger.close();
    assert!(take(&node, &late).await.is_err());
    assert_eq!(owner(&node, "k").await, None);
}

/// Renewal and release on different threads: the one comes before the other or not at all.
#[tokio::test]
async fn what_is_released_while_its_renewal_waits_for_the_node_is_not_taken_again() {
    let node = Arc::new(MemoryNode::new());
    let mine = ask("k", Duration::from_secs(10));
    assert_eq!(take(&node, &mine).await, Ok(Acquired::Granted(0)));
    let extension = Arc::new(Extension {
        key: Arc::clone(&mine.key),
        token: mine.token.clone(),
        ttl: mine.ttl,
        fence: None,
        until: Instant::now() + mine.ttl,
        limit: mine.limit.clone(),
        ledger: Arc::default(),
        command: OnceLock::new(),
    });
    let renewing = {
        let mut state = node.state();
        let (renewing, its) = (Arc::clone(&node), Arc::clone(&extension));
        let renewing = std::thread::spawn(move || renewing.extend(its, 0).now_or_never());
        // Nothing tells that it waits. If it comes only later, it is refused in any case.
        std::thread::sleep(Duration::from_millis(20));
        extension.ledger.close();
        state.locks.remove(&mine.key);
        renewing
    };
    let renewed = renewing.join().expect("no panic");
    assert_eq!(
        renewed,
        Some(Err(NodeError::not_asked("the lease has ended")))
    );
    assert_eq!(owner(&node, "k").await, None);
}
