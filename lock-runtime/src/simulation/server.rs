//! The server behind a simulated node: an embedded node that crashes, forgets, and has a clock of its own.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::scenario::{Mutant, Scenario};
use crate::node::memory::MemoryNode;
use crate::node::{
    Acquired, Ask, Extension, Fence, Holder, Ledger, Limit, Node, NodeError, Raise, Released,
    Return, Seizure, Token,
};

/// What a client asks.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Acquire(Arc<Ask>),
    Extend(Arc<Extension>),
    Raise(Arc<Raise>),
    Release(Arc<Return>),
    Look(Arc<str>),
    /// To tell this connection, by its number, of releases of these locks.
    Subscribe(Vec<Arc<str>>, u64),
    /// To tell it no more of them.
    Unsubscribe(Vec<Arc<str>>, u64),
    Ping,
    /// To take it from whoever has it.
    Seize(Arc<Seizure>),
    /// In which life it was last known to have a vote.
    Standing,
    /// To remember that it has a vote in this life.
    Admit,
}

impl Question {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Extend(_) => "extend",
            Self::Raise(_) => "raise",
            Self::Release(_) => "release",
            Self::Look(_) => "look",
            Self::Subscribe(..) => "subscribe",
            Self::Unsubscribe(..) => "unsubscribe",
            Self::Seize(_) => "seize",
            Self::Ping => "ping",
            Self::Standing => "standing",
            Self::Admit => "admit",
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Self::Acquire(ask) => Some(ask.token.clone()),
            Self::Extend(extension) => Some(extension.token.clone()),
            Self::Raise(raise) => Some(raise.token.clone()),
            Self::Release(give_back) => Some(give_back.token.clone()),
            Self::Look(_)
            | Self::Subscribe(..)
            | Self::Unsubscribe(..)
            | Self::Seize(_)
            | Self::Ping
            | Self::Standing
            | Self::Admit => None,
        }
    }
}

/// What the server answers.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Acquired(Acquired),
    Raised(u64),
    Released(Released),
    Holder(Option<Holder>),
    Remembers(Option<usize>),
    Done,
}

impl Answer {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Acquired(Acquired::Granted(_)) => "granted",
            Self::Acquired(Acquired::Held(_)) => "held",
            Self::Raised(_) => "raised",
            Self::Released(Released::Done { .. }) => "released",
            Self::Released(Released::NotOurs) => "not ours",
            Self::Holder(Some(_)) => "somebody has it",
            Self::Holder(None) => "nobody has it",
            Self::Remembers(_) => "remembers",
            Self::Done => "done",
        }
    }
}

/// The time that all servers of a world share. Each counts TTLs with it at a speed of its own.
#[derive(Debug)]
pub(super) struct ServerTime {
    runtime: Runtime,
    now: u64,
}

impl ServerTime {
    pub(super) fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        Self { runtime, now: 0 }
    }

    /// Does something at a moment, which is not before the last one.
    pub(super) fn at<T>(&mut self, at: u64, act: impl FnOnce() -> T) -> T {
        let _inside = self.runtime.enter();
        let passed = Duration::from_millis(at.saturating_sub(self.now));
        if !passed.is_zero() {
            // The clock moves with the first poll; what follows gives way to tasks, and there are none.
            let _ = tokio::time::advance(passed).now_or_never();
            self.now = at;
        }
        act()
    }
}

/// A client and the number of its connection.
pub(super) type Subscriber = (usize, u64);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Server {
    number: usize,
    memory: Arc<MemoryNode>,
    life: usize,
    /// The life in which it was last known to have a vote.
    remembers: Option<usize>,
    /// Who was granted what last, for the mutant that releases for anybody.
    owners: Vec<(Arc<str>, Token)>,
    /// Who is told of which releases, over which connection.
    subscribers: BTreeSet<(Arc<str>, usize, u64)>,
    /// What was released by what was executed last.
    released: Option<Arc<str>>,
}

impl Server {
    pub(super) fn new(scenario: &Scenario, number: usize) -> Self {
        let is_old = scenario.lives[number][0].votes_from == 0;
        Self {
            number,
            memory: Arc::new(MemoryNode::new()),
            life: 0,
            remembers: is_old.then_some(0),
            owners: Vec::new(),
            subscribers: BTreeSet::new(),
            released: None,
        }
    }

    /// Crashes and comes back as often as it has to, to be in this life. True: it forgot.
    pub(super) fn live(&mut self, scenario: &Scenario, life: usize) -> bool {
        let mut forgot = false;
        while self.life < life {
            let ended = scenario.lives[self.number][self.life];
            if ended.votes_from < ended.to {
                self.remembers = Some(self.life);
            }
            self.life += 1;
            self.subscribers.clear();
            if !scenario.lives[self.number][self.life].remembers {
                self.memory = Arc::new(MemoryNode::new());
                self.remembers = None;
                self.owners.clear();
                forgot = true;
            }
        }
        forgot
    }

    /// Answers at once, in the server's time.
    pub(super) fn execute(
        &mut self,
        scenario: &Scenario,
        client: usize,
        at: u64,
        question: &Question,
    ) -> Result<Answer, NodeError> {
        if scenario.lives[self.number][self.life].votes_from <= at {
            self.remembers = Some(self.life);
        }
        let rate = scenario.rates[client][self.number];
        let lasts = |ttl: Duration| {
            if scenario.is(Mutant::NothingExpires) {
                return Duration::from_secs(3600);
            }
            // A server rounds to its milliseconds, which is what part of the drift is for.
            (ttl * u32::try_from(rate).unwrap_or(1_000) / 1_000)
                .saturating_sub(Duration::from_millis(1))
        };
        let stores = |fence: &Option<Fence>| {
            let fence = fence.clone();
            fence.filter(|_| !scenario.is(Mutant::FencesAreForgotten))
        };
        let memory = Arc::clone(&self.memory);
        match question {
            Question::Acquire(ask) => {
                let ask = Ask {
                    key: Arc::clone(&ask.key),
                    token: ask.token.clone(),
                    ttl: lasts(ask.ttl),
                    fence: stores(&ask.fence),
                    limit: now(),
                    // What was sent is executed, whatever was decided meanwhile.
                    ledger: Arc::new(Ledger::default()),
                    command: OnceLock::new(),
                };
                let (key, token) = (Arc::clone(&ask.key), ask.token.clone());
                let acquired = answered(memory.acquire(Arc::new(ask), 0))?;
                self.note(&key, token, &acquired);
                Ok(Answer::Acquired(acquired))
            }
            Question::Extend(extension) => {
                let extension = Extension {
                    key: Arc::clone(&extension.key),
                    token: extension.token.clone(),
                    ttl: lasts(extension.ttl),
                    fence: stores(&extension.fence),
                    until: Instant::now() + Duration::from_secs(1),
                    limit: now(),
                    ledger: Arc::new(Ledger::default()),
                    command: OnceLock::new(),
                };
                let (key, token) = (Arc::clone(&extension.key), extension.token.clone());
                let acquired = answered(memory.extend(Arc::new(extension), 0))?;
                self.note(&key, token, &acquired);
                Ok(Answer::Acquired(acquired))
            }
            Question::Raise(_) if scenario.is(Mutant::FencesAreForgotten) => Ok(Answer::Raised(0)),
            Question::Raise(raise) => answered(memory.raise(Arc::clone(raise))).map(Answer::Raised),
            Question::Release(_) if scenario.is(Mutant::ReleasesAreLost) => {
                Ok(Answer::Released(Released::Done { told: 0 }))
            }
            Question::Release(give_back) => {
                let give_back = Return {
                    key: Arc::clone(&give_back.key),
                    token: self.releases_for(scenario, give_back),
                    keep: give_back.keep.map(lasts).filter(|keep| !keep.is_zero()),
                    aloud: give_back.aloud,
                    again: give_back.again,
                    limit: now(),
                    command: OnceLock::new(),
                };
                self.release(client, give_back).map(Answer::Released)
            }
            Question::Look(key) => {
                answered(memory.look(Arc::clone(key), now())).map(Answer::Holder)
            }
            Question::Subscribe(keys, connection) => {
                let before = |known: &(_, usize, u64)| known.1 == client && known.2 < *connection;
                self.subscribers.retain(|known| !before(known));
                let keys = keys.iter().map(Arc::clone);
                self.subscribers
                    .extend(keys.map(|key| (key, client, *connection)));
                Ok(Answer::Done)
            }
            Question::Unsubscribe(keys, connection) => {
                for key in keys {
                    self.subscribers
                        .remove(&(Arc::clone(key), client, *connection));
                }
                Ok(Answer::Done)
            }
            Question::Seize(seizure) => {
                let seizure = Seizure {
                    key: Arc::clone(&seizure.key),
                    keep: lasts(seizure.keep),
                    refused: seizure.refused.clone(),
                    limit: now(),
                    command: OnceLock::new(),
                };
                self.seize(scenario, seizure).map(Answer::Holder)
            }
            Question::Ping => Ok(Answer::Done),
            Question::Standing => Ok(Answer::Remembers(self.remembers)),
            Question::Admit => {
                self.remembers = Some(self.life);
                Ok(Answer::Done)
            }
        }
    }

    fn release(&mut self, client: usize, give_back: Return) -> Result<Released, NodeError> {
        let (key, aloud) = (Arc::clone(&give_back.key), give_back.aloud.is_some());
        let mut released = answered(Arc::clone(&self.memory).release(Arc::new(give_back)))?;
        if let Released::Done { told } = &mut released
            && aloud
        {
            let others = self.subscribers_of(&key);
            let others = others.filter(|(subscriber, _)| *subscriber != client);
            *told = others.count() as u64;
            self.released = Some(key);
        }
        Ok(released)
    }

    fn seize(&self, scenario: &Scenario, seizure: Seizure) -> Result<Option<Holder>, NodeError> {
        let memory = || Arc::clone(&self.memory);
        let there = answered(memory().look(Arc::clone(&seizure.key), now()))?;
        if scenario.is(Mutant::TakingDoesNothing) {
            return Ok(there);
        }
        let owner = self.owners.iter().find(|(key, _)| *key == seizure.key);
        if let (true, Some((key, token))) = (scenario.is(Mutant::TakenIsDeleted), owner) {
            let give_back = Return {
                key: Arc::clone(key),
                token: token.clone(),
                keep: None,
                aloud: None,
                again: false,
                limit: now(),
                command: OnceLock::new(),
            };
            return answered(memory().release(Arc::new(give_back))).map(|_| there);
        }
        answered(memory().seize(Arc::new(seizure)))
    }

    /// What was released by what was executed last, and who is to be told of it.
    pub(super) fn take_released(&mut self) -> Option<(Arc<str>, Vec<Subscriber>)> {
        let key = self.released.take()?;
        let subscribers = self.subscribers_of(&key).collect();
        Some((key, subscribers))
    }

    fn subscribers_of(&self, key: &Arc<str>) -> impl Iterator<Item = Subscriber> {
        self.subscribers
            .range((Arc::clone(key), 0, 0)..=(Arc::clone(key), usize::MAX, u64::MAX))
            .map(|(_, client, connection)| (*client, *connection))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        let holder = answered(Arc::clone(&self.memory).look(key.into(), now()));
        holder.is_ok_and(|holder| holder.is_some())
    }

    fn note(&mut self, key: &Arc<str>, token: Token, acquired: &Acquired) {
        if let Acquired::Granted(_) = acquired {
            self.owners.retain(|(known, _)| known != key);
            self.owners.push((Arc::clone(key), token));
        }
    }

    fn releases_for(&self, scenario: &Scenario, give_back: &Return) -> Token {
        let owner = self.owners.iter().find(|(key, _)| *key == give_back.key);
        match owner {
            Some((_, owner)) if scenario.is(Mutant::AnybodyReleases) => owner.clone(),
            _ => give_back.token.clone(),
        }
    }
}

fn now() -> Limit {
    Limit::within(Duration::ZERO)
}

/// An embedded node never has to wait.
fn answered<T>(reply: crate::node::Reply<T>) -> Result<T, NodeError> {
    reply
        .now_or_never()
        .expect("an embedded node answers at once")
}
