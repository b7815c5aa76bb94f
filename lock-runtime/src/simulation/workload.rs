//! What clients do: ask for locks in every way that there is, hold them, and let go of them in every way.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{sleep, sleep_until, timeout};

use super::chance::Chance;
use super::clock::Clock;
use super::network::Shared;
use super::node::SimulatedNode;
use super::recorder::HolderId;
use super::scenario::{BENIGN, BENIGN_ROUNDS, CALM, MAX_TTL, NODE_TIMEOUT, PATIENCE};
use crate::executor::Executor;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::node::{Limit, Node};
use crate::redlock::{Fences, Redlock};
use crate::request::LockRequest;
use crate::wait::Core;

/// The time at the start of every world, in seconds since 1970.
const EPOCH: u64 = 1_700_000_000;

/// The workers of a client.
pub(super) fn of(
    client: usize,
    clock: Clock,
    shared: &Arc<Shared>,
) -> impl Iterator<Item = impl Future<Output = ()> + Send + 'static> {
    let nodes: Vec<_> = (0..shared.scenario.nodes)
        .map(|node| -> Arc<dyn Node> { Arc::new(SimulatedNode::new(client, node, clock, shared)) })
        .collect();
    let manager = manager(client, clock, shared, nodes.clone());
    workers(client, shared).map(move |worker| {
        let stream = 16 + (client * 16 + worker) as u64;
        let worker = Worker {
            client,
            manager: manager.clone(),
            nodes: nodes.clone(),
            clock,
            chance: Chance::new(shared.scenario.seed, stream),
            shared: Arc::clone(shared),
        };
        worker.work()
    })
}

/// One, two or three a client: next to each other they stand in line.
pub(super) fn workers(client: usize, shared: &Shared) -> std::ops::Range<usize> {
    let more = [2, 0, 1, 0][usize::try_from((shared.scenario.seed >> client) % 4).unwrap_or(0)];
    0..1 + more
}

fn manager(
    client: usize,
    clock: Clock,
    shared: &Arc<Shared>,
    nodes: Vec<Arc<dyn Node>>,
) -> LockManager {
    let skews = shared.scenario.skews[client].clone();
    let mut fences = Fences::default();
    fences.clock = Arc::new(move || wall_clock(clock.now(), &skews));
    let redlock = Redlock::new(
        nodes,
        Duration::from_millis(NODE_TIMEOUT),
        "",
        fences,
        Executor::of_caller(),
    );
    LockManager {
        core: Arc::new(Core::new(redlock, Duration::from_millis(MAX_TTL))),
    }
}

fn wall_clock(now: u64, skews: &[(u64, i64)]) -> SystemTime {
    let skew = skews.iter().rev().find(|(from, _)| *from <= now);
    let skew = skew.map_or(0, |(_, skew)| *skew);
    let millis = (EPOCH * 1_000 + now).saturating_add_signed(skew);
    UNIX_EPOCH + Duration::from_millis(millis)
}

struct Worker {
    client: usize,
    manager: LockManager,
    nodes: Vec<Arc<dyn Node>>,
    clock: Clock,
    chance: Chance,
    shared: Arc<Shared>,
}

/// A lock that is asked for.
struct Wanted {
    keys: Vec<usize>,
    ttl: u64,
    request: LockRequest,
}

impl Worker {
    async fn work(mut self) {
        self.pause(30).await;
        while self.clock.now() < CALM && !self.is_cut() {
            self.round().await;
            self.pause(60).await;
        }
        if !self.is_cut() {
            sleep_until(self.clock.at(BENIGN)).await;
            for _ in 0..BENIGN_ROUNDS {
                self.benign_round().await;
            }
        }
        let handed_over = self.manager.stats().handed_over;
        let recorder = &mut self.shared.network().recorder;
        recorder.finished += 1;
        recorder.handed_over(self.client, handed_over);
    }

    fn is_cut(&self) -> bool {
        let now = self.clock.now();
        self.shared.scenario.is_cut(self.client, now)
    }

    async fn pause(&mut self, most: u64) {
        sleep(self.up_to(most)).await;
    }

    fn up_to(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.chance.between(0, most))
    }

    /// Nothing goes wrong any more: whoever waits gets it.
    async fn benign_round(&mut self) {
        let ttl = MAX_TTL;
        let request = self
            .manager
            .lock("key-0")
            .ttl(Duration::from_millis(ttl))
            .wait(Duration::from_millis(PATIENCE))
            .fenced(true);
        let held = self.up_to(20);
        let wanted = Wanted {
            keys: vec![0],
            ttl,
            request,
        };
        let outcome = self.run(wanted, vec![held], None).await;
        let recorder = &mut self.shared.network().recorder;
        if let Err(error) = outcome {
            let fault = format!("client {} did not get on: {error}", self.client);
            recorder.fault(fault);
        } else {
            recorder.counts.benign += 1;
        }
    }

    async fn round(&mut self) {
        if self.chance.one_in(6) {
            return self.listen().await;
        }
        if self.chance.one_in(10) {
            return self.force().await;
        }
        let wanted = self.wanted();
        let (steps, most) = match self.shared.scenario.stubborn {
            true => (8, 300),
            false if self.chance.one_in(3) => (1 + self.chance.index(5), 300),
            false => (1 + self.chance.index(5), 40),
        };
        let steps: Vec<_> = (0..steps).map(|_| self.up_to(most)).collect();
        match self.chance.index(6) {
            0..3 => {
                let extends = self
                    .chance
                    .one_in(5)
                    .then(|| self.chance.index(steps.len()));
                // That the lock is busy, or lost, is what rounds are for.
                let _ = self.run(wanted, steps, extends).await;
            }
            3 => {
                let patience = self.up_to(300);
                // Dropped in the middle of whatever it does then.
                let _ = timeout(patience, self.run(wanted, steps, None)).await;
            }
            _ => self.hold(wanted, &steps).await,
        }
    }

    /// Only listens, to one node.
    async fn listen(&mut self) {
        let node = self.chance.index(self.nodes.len());
        let node = Arc::clone(&self.nodes[node]);
        let key = format!("key-{}", self.chance.index(self.shared.scenario.keys));
        let patience = Duration::from_millis(NODE_TIMEOUT);
        let listening = node.listen(key.into(), Limit::within(patience));
        let Ok(Ok(mut listener)) = timeout(patience, listening).await else {
            return;
        };
        let most = self.up_to(200);
        if timeout(most, listener.heard()).await.is_ok() {
            self.shared.network().recorder.counts.heard += 1;
        }
    }

    /// Takes a lock from whoever has it.
    async fn force(&mut self) {
        let key = self.chance.index(self.shared.scenario.keys);
        let began = self.clock.now();
        let taken = self.manager.force_release(format!("key-{key}")).await;
        if taken.is_ok_and(|taken| taken.is_complete()) {
            let now = self.clock.now();
            let recorder = &mut self.shared.network().recorder;
            recorder.taken(self.client, key, began, now);
        }
    }

    fn wanted(&mut self) -> Wanted {
        let all = self.shared.scenario.keys;
        let mut keys = vec![self.chance.index(all)];
        if self.chance.one_in(5) {
            keys = (0..all).collect();
        }
        let ttl = match self.chance.index(3) {
            0 => MAX_TTL,
            _ => self.chance.between(60, MAX_TTL),
        };
        let stubborn = self.shared.scenario.stubborn;
        let ttl = if stubborn { MAX_TTL } else { ttl };
        let names = keys.iter().map(|key| format!("key-{key}"));
        let mut request = self
            .manager
            .lock_all(names)
            .ttl(Duration::from_millis(ttl))
            .fenced(!self.chance.one_in(4))
            .extend(!self.chance.one_in(3) && !stubborn);
        if stubborn || !self.chance.one_in(3) {
            request = request.wait(self.up_to(600));
        }
        if self.chance.one_in(6) {
            request = request.hold_at_least(self.up_to(ttl));
        }
        if self.chance.one_in(8) {
            request = request.max_hold(Duration::from_millis(ttl) + self.up_to(300));
        }
        Wanted { keys, ttl, request }
    }

    /// A guarded body.
    async fn run(
        &self,
        wanted: Wanted,
        steps: Vec<Duration>,
        extends: Option<usize>,
    ) -> Result<(), crate::LockError> {
        let Wanted { keys, ttl, request } = wanted;
        let body = |lease: Arc<Lease>| {
            let watch = self.watch(&keys, ttl, &lease, &Arc::downgrade(&lease));
            Body {
                watch,
                lease: Arc::clone(&lease),
                work: Box::pin(async move {
                    for (index, step) in steps.into_iter().enumerate() {
                        sleep(step).await;
                        if extends == Some(index) {
                            // The next poll says what came of it.
                            let _ = lease.extend().await;
                        }
                    }
                }),
            }
        };
        request.run(body).await
    }

    /// A lease held by hand, and let go of in one way or the other.
    async fn hold(&mut self, wanted: Wanted, steps: &[Duration]) {
        let Wanted { keys, ttl, request } = wanted;
        let Ok(lease) = request.acquire().await else {
            return;
        };
        let lease = Arc::new(lease);
        let watch = self.watch(&keys, ttl, &lease, &Arc::downgrade(&lease));
        for step in steps {
            sleep(*step).await;
            watch.look(&lease);
            if lease.is_lost() {
                break;
            }
        }
        drop(watch);
        let lease = Arc::into_inner(lease).filter(|_| !self.chance.one_in(3));
        if let Some(lease) = lease {
            // What a release may say has tests of its own.
            let _ = lease.release().await;
        }
    }

    fn watch(&self, keys: &[usize], ttl: u64, lease: &Lease, seen: &Weak<Lease>) -> Watch {
        let now = self.clock.now();
        let told = (lease.remaining(), lease.fence());
        let recorder = &mut self.shared.network().recorder;
        Watch {
            ids: recorder.acquired(self.client, keys, ttl, now, told, seen),
            clock: self.clock,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Tells the recorder of a holder, to its end.
struct Watch {
    ids: Vec<HolderId>,
    clock: Clock,
    shared: Arc<Shared>,
}

impl Watch {
    fn look(&self, lease: &Lease) -> Duration {
        let left = lease.remaining();
        let now = self.clock.now();
        let recorder = &mut self.shared.network().recorder;
        recorder.looked(&self.ids, now, left);
        left
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.shared.network().recorder.ended(&self.ids, now);
    }
}

/// A body that is not to be polled any more once its lease is over.
struct Body {
    watch: Watch,
    lease: Arc<Lease>,
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Future for Body {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.watch.look(&self.lease).is_zero() {
            let now = self.watch.clock.now();
            let fault = format!("a body is polled at {now}, after its lease is over");
            self.watch.shared.network().recorder.fault(fault);
        }
        self.work.as_mut().poll(context)
    }
}
