//! Attempts against nodes that answer when they are told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::attempt::{Attempt, Stragglers};
use super::claim::Claim;
use super::{Fences, Redlock, Want};
use crate::executor::Executor;
use crate::node::facts::Server;
use crate::node::{
    Acquired, Ask, Extension, Holder, Kept, Limit, Listener, Node, NodeError, Owner, Raise,
    Released, Reply, Return, Seizure, Standing,
};

const WANT: Want = Want {
    ttl: Duration::from_secs(30),
    tokens: 0,
};

/// A node whose connection is made, and whose answers are given, by the test.
#[derive(Debug)]
struct Told {
    name: Arc<str>,
    connected: Notify,
    /// Requests that reached it, and where their answers go.
    asked: Mutex<Vec<oneshot::Sender<Acquired>>>,
    released: Mutex<usize>,
}

impl Told {
    fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            connected: Notify::new(),
            asked: Mutex::default(),
            released: Mutex::default(),
        })
    }

    fn connect(&self) {
        self.connected.notify_one();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn released(&self) -> usize {
        *self.released.lock().unwrap()
    }

    /// Answers the oldest request that it has not answered.
    fn answer(&self, answer: Acquired) {
        let asked = self.asked.lock().unwrap().remove(0);
        asked.send(answer).expect("somebody waits for it");
    }
}

impl Node for Told {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            self.connected.notified().await;
            if !ask.commit(position) {
                return Err("decided without it".into());
            }
            let (answer, answered) = oneshot::channel();
            self.asked.lock().unwrap().push(answer);
            answered.await.map_err(|_| NodeError::from("no answer"))
        })
    }

    fn extend(self: Arc<Self>, _: Arc<Extension>, _: usize) -> Reply<Acquired> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn raise(self: Arc<Self>, _: Arc<Raise>) -> Reply<u64> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn release(self: Arc<Self>, _: Arc<Return>) -> Reply<Released> {
        *self.released.lock().unwrap() += 1;
        Box::pin(async { Ok(Released::Done { told: 0 }) })
    }

    fn look(self: Arc<Self>, _: Arc<str>, _: Limit) -> Reply<Option<Holder>> {
        Box::pin(async { Ok(None) })
    }

    fn listen(self: Arc<Self>, _: Arc<str>, _: Limit) -> Reply<Listener> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn ping(self: Arc<Self>, _: Limit) -> Reply<()> {
        Box::pin(async { Ok(()) })
    }

    fn standing(self: Arc<Self>, _: Limit) -> Reply<Standing> {
        Box::pin(async { Ok(Standing::Votes) })
    }

    fn inspect(self: Arc<Self>, _: Arc<str>, _: Limit) -> Reply<Kept> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn seize(self: Arc<Self>, _: Arc<Seizure>) -> Reply<Option<Holder>> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn examine(self: Arc<Self>, _: Limit) -> Reply<Vec<Server>> {
        Box::pin(async { Err("not asked for".into()) })
    }

    fn admit(self: Arc<Self>, _: Arc<str>, _: Limit) -> Reply<()> {
        Box::pin(async { Ok(()) })
    }
}

fn three() -> ([Arc<Told>; 3], Arc<Redlock>) {
    let nodes = ["a", "b", "c"].map(Told::new);
    let dynamic = nodes
        .iter()
        .map(|node| -> Arc<dyn Node> { Arc::clone(node) as _ });
    let redlock = Redlock::new(
        dynamic.collect(),
        WANT.ttl / 2,
        "",
        Fences::default(),
        Executor::of_caller(),
    );
    (nodes, Arc::new(redlock))
}

fn rival() -> Acquired {
    Acquired::Held(Owner((*b"a rival").into()))
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Two of the nodes are connected, and grant; the third is not.
async fn granted_by_two(nodes: &[Arc<Told>; 3], redlock: &Arc<Redlock>) -> (Claim, Stragglers) {
    for node in &nodes[..2] {
        node.connect();
    }
    let acquiring = Arc::clone(redlock);
    let acquiring = tokio::spawn(async move { acquiring.acquire(&"k".into(), WANT).await });
    settle().await;
    for node in &nodes[..2] {
        node.answer(Acquired::Granted(0));
    }
    let (claim, stragglers) = acquiring.await.expect("no panic");
    (claim.expect("two of three"), stragglers)
}

/// A node that is connected only after the release must not be sent the request: nothing would release it.
#[tokio::test(start_paused = true)]
async fn a_request_is_not_sent_behind_its_release() {
    let (nodes, redlock) = three();
    let (claim, stragglers) = granted_by_two(&nodes, &redlock).await;
    let stragglers = tokio::spawn(stragglers.finish());
    let confirmed = claim.release().await.expect("told");
    assert!(confirmed.by_majority());
    nodes[2].connect();
    stragglers.await.expect("no panic");
    assert_eq!(nodes[2].asked(), 0, "it was asked behind the release");
    assert_eq!(nodes.map(|node| node.released()), [1, 1, 0]);
}

/// One that is connected before the release is sent both, in this order.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_late_has_the_lock_too_and_is_released() {
    let (nodes, redlock) = three();
    let (claim, stragglers) = granted_by_two(&nodes, &redlock).await;
    let stragglers = tokio::spawn(stragglers.finish());
    nodes[2].connect();
    settle().await;
    assert_eq!(nodes[2].asked(), 1);
    drop(claim);
    settle().await;
    assert_eq!(nodes.each_ref().map(|node| node.released()), [1, 1, 1]);
    nodes[2].answer(Acquired::Granted(0));
    stragglers.await.expect("no panic");
}

/// The answer to a first request must not be taken for that to a second one: what the second one took would be forgotten.
#[tokio::test(start_paused = true)]
async fn a_node_is_not_asked_again_before_it_has_answered() {
    let (nodes, redlock) = three();
    let mut attempt = Attempt::new(&redlock, &"k".into(), WANT).expect("a token");
    for node in &nodes {
        node.connect();
    }
    attempt.ask(|_| true);
    {
        let mut deciding = std::pin::pin!(attempt.decide());
        let _ = futures_util::poll!(&mut deciding);
        nodes[0].answer(Acquired::Granted(0));
        nodes[1].answer(rival());
        assert!(
            futures_util::poll!(&mut deciding).is_pending(),
            "the third decides"
        );
    }
    for node in &nodes {
        node.connect();
    }
    attempt.ask(|_| true);
    let mut deciding = std::pin::pin!(attempt.decide());
    let _ = futures_util::poll!(&mut deciding);
    assert_eq!(nodes[0].asked(), 0, "it has granted");
    assert_eq!(
        nodes[1].asked(),
        1,
        "it has answered, and may be asked again"
    );
    assert_eq!(nodes[2].asked(), 1, "it owes the first answer");
}
