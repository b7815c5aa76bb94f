//! What a manager is doing when the fault comes, and what comes of it.

use crate::break_node::{Broken, FOR_LONG, SOMEBODY};
use crate::cell::{Cell, give_back};
use crate::fault::{MAX_TTL, Outcome, TTL, WAIT};
use lock_runtime::{Lease, LockError, LockManager, NodeVote, ReleaseError};
use lock_tests::{DEADLINE, eventually};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What came of a phase.
pub(crate) struct Trial {
    pub(crate) outcome: Outcome,
    /// From the fault, or where there was something to wait for, from its end.
    pub(crate) took: Duration,
    /// What was said, to users and to programmers.
    pub(crate) text: String,
    pub(crate) votes: Vec<NodeVote>,
}

/// The trial, the manager if it could be built, and what is to be mended.
pub(crate) type Tried<'a> = (Trial, Option<LockManager>, Vec<Broken<'a>>);

impl Trial {
    fn of<T>(result: &Result<T, LockError>, took: Duration) -> Self {
        let Err(error) = result else {
            return Self::worked(took);
        };
        let outcome = match error {
            LockError::NoQuorum { .. } => Outcome::Outage,
            LockError::Busy { .. } => Outcome::Busy,
            LockError::Lost { reason, .. } if reason.starts_with("its lease ran out") => {
                Outcome::RunsOut
            }
            LockError::Lost { reason, .. } if reason.starts_with("somebody else has it") => {
                Outcome::Taken
            }
            other => panic!("this is not expected of any fault: {other}"),
        };
        Self {
            outcome,
            took,
            text: format!("{error}\n{error:?}"),
            votes: error.votes().to_vec(),
        }
    }

    fn of_release(result: &Result<(), ReleaseError>, took: Duration) -> Self {
        let Err(error) = result else {
            return Self::worked(took);
        };
        let (outcome, votes) = match error {
            ReleaseError::Unreachable { votes, .. } => (Outcome::Unconfirmed, votes.clone()),
            ReleaseError::NotOwner { votes, .. } => (Outcome::NotOwner, votes.clone()),
            other => panic!("this is not expected of any fault: {other}"),
        };
        Self {
            outcome,
            took,
            text: format!("{error}\n{error:?}"),
            votes,
        }
    }

    fn worked(took: Duration) -> Self {
        Self {
            outcome: Outcome::Works,
            took,
            text: String::new(),
            votes: Vec::new(),
        }
    }
}

/// The fault is there first.
pub(crate) async fn connecting<'a>(cell: &Cell<'a>) -> Tried<'a> {
    let broken = cell.break_nodes().await;
    let asked = Instant::now();
    let manager = cell.build();
    let taken = manager.lock(cell.key()).ttl(MAX_TTL).acquire().await;
    let trial = Trial::of(&taken, asked.elapsed());
    use_up(cell, taken).await;
    (trial, Some(manager), broken)
}

pub(crate) async fn acquiring<'a>(cell: &Cell<'a>) -> Tried<'a> {
    let Some(manager) = connected(cell).await else {
        return connecting(cell).await;
    };
    let broken = cell.break_nodes().await;
    cell.is_heard_of(&manager).await;
    let asked = Instant::now();
    let taken = manager.lock(cell.key()).ttl(MAX_TTL).acquire().await;
    let trial = Trial::of(&taken, asked.elapsed());
    use_up(cell, taken).await;
    (trial, Some(manager), broken)
}

/// With a minority of faulty nodes a lease can be renewed and released like any other.
async fn use_up(cell: &Cell<'_>, taken: Result<Lease, LockError>) {
    if let (Ok(lease), true) = (taken, cell.is_minority()) {
        let extended = lease.extend().await;
        extended.unwrap_or_else(|error| panic!("{cell}: {error}"));
        let released = lease.release().await;
        released.unwrap_or_else(|error| panic!("{cell}: {error}"));
    }
}

/// A body runs, on a lock that every node has.
pub(crate) async fn holding<'a>(cell: &Cell<'a>) -> Tried<'a> {
    let manager = match able_to_lock(cell).await {
        Ok(manager) => manager,
        Err(instead) => return instead,
    };
    let (held, holds) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let request = manager.lock(cell.key()).ttl(TTL).wait(DEADLINE);
    let mut body = tokio::spawn(request.run(|lease| async move {
        held.send(Arc::clone(&lease)).expect("the test waits");
        let ticking = async {
            loop {
                let lost = lease.is_lost();
                tokio::time::sleep(Duration::from_millis(5)).await;
                // The lease may end in the middle of a statement. There must not be another one.
                assert!(!lost, "it runs on after its lease");
            }
        };
        tokio::select! {
            () = ticking => {}
            _ = ended => {}
        }
    }));
    let lease = holds.await.expect("the lock is free");
    on_every_node(cell).await;
    let broken = cell.break_nodes().await;
    let since = Instant::now();
    // When a lease ends that was renewed by what was sent after the fault, less the drift.
    let renewed = since + (TTL * 99 / 100).saturating_sub(Duration::from_millis(2));
    let outcome = loop {
        if Instant::now() + lease.remaining() >= renewed && !lease.is_lost() {
            break None;
        }
        tokio::select! {
            outcome = &mut body => break Some(outcome),
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    };
    let took = since.elapsed();
    drop(lease);
    let trial = if let Some(lost) = outcome {
        let lost = lost.expect("the body does not run on");
        Trial::of(&lost, took)
    } else {
        end.send(()).expect("the body waits for it");
        let finished = body.await.expect("the body does not run on");
        finished.unwrap_or_else(|error| panic!("{cell}: {error}"));
        Trial::worked(took)
    };
    let losses = u64::from(trial.outcome != Outcome::Works);
    assert_eq!(manager.stats().lost, losses, "{cell}");
    (trial, Some(manager), broken)
}

/// Somebody else has the lock. He gives it back where that would be enough, and keeps it where the nodes cannot tell.
pub(crate) async fn waiting<'a>(cell: &Cell<'a>) -> Tried<'a> {
    let Some(manager) = connected(cell).await else {
        return connecting(cell).await;
    };
    let (fleet, key) = (cell.fleet(), cell.key());
    for server in fleet.servers() {
        let _: String = server.command(&["SET", &key, SOMEBODY, "PX", FOR_LONG]);
    }
    let comes = cell.expected() == Outcome::Works;
    let wait = if comes { DEADLINE } else { WAIT };
    let sent = || {
        fleet
            .proxies()
            .iter()
            .map(lock_tests::Proxy::bytes_to_server)
    };
    let before: Vec<_> = sent().collect();
    let asked = Instant::now();
    let waiter = tokio::spawn(manager.lock(&key).ttl(MAX_TTL).wait(wait).acquire());
    eventually(DEADLINE, "every node was asked", || {
        let asked = sent().zip(&before).filter(|(now, before)| now > before);
        asked.count() >= cell.usable_before()
    })
    .await;
    let broken = cell.break_nodes().await;
    if cell.is_minority() {
        assert!(!waiter.is_finished(), "{cell}: it is held");
    }
    let vacate = if cell.is_minority() {
        cell.healthy()
    } else {
        fleet.servers()
    };
    let since = if comes {
        for server in vacate {
            give_back(server, &key);
        }
        Instant::now()
    } else {
        asked + wait
    };
    let taken = waiter.await.expect("it does not panic");
    let trial = Trial::of(&taken, since.elapsed());
    assert!(
        comes || asked.elapsed() >= wait,
        "{cell}: it gave up too early"
    );
    use_up(cell, taken).await;
    (trial, Some(manager), broken)
}

pub(crate) async fn releasing<'a>(cell: &Cell<'a>) -> Tried<'a> {
    let manager = match able_to_lock(cell).await {
        Ok(manager) => manager,
        Err(instead) => return instead,
    };
    // What is released is what was acquired: no renewal comes between.
    let request = manager.lock(cell.key()).ttl(MAX_TTL).extend(false);
    let lease = request.wait(DEADLINE).acquire().await;
    let lease = lease.unwrap_or_else(|error| panic!("{cell}: {error}"));
    on_every_node(cell).await;
    let broken = cell.break_nodes().await;
    cell.is_heard_of(&manager).await;
    let asked = Instant::now();
    let released = lease.release().await;
    let trial = Trial::of_release(&released, asked.elapsed());
    (trial, Some(manager), broken)
}

/// A manager that has used every node. `None`: it cannot be built.
async fn connected(cell: &Cell<'_>) -> Option<LockManager> {
    let manager = cell.build();
    if cell.can_lock_before() {
        cell.uses_all_nodes(&manager).await;
    }
    Some(manager)
}

/// A manager that has used every node. Or what comes instead, where that is not possible.
async fn able_to_lock<'a>(cell: &Cell<'a>) -> Result<LockManager, Tried<'a>> {
    let Some(manager) = connected(cell).await else {
        return Err(connecting(cell).await);
    };
    if cell.can_lock_before() {
        return Ok(manager);
    }
    let taken = manager.lock(cell.key()).ttl(MAX_TTL).acquire().await;
    let mut trial = Trial::of(&taken, Duration::ZERO);
    if trial.outcome == Outcome::Outage {
        trial.outcome = Outcome::Before;
    }
    Err((trial, Some(manager), Vec::new()))
}

async fn on_every_node(cell: &Cell<'_>) {
    let key = cell.key();
    eventually(DEADLINE, "every node has the lock", || {
        cell.fleet().nodes_with(&key) == cell.usable_before()
    })
    .await;
}
