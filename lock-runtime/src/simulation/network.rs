//! What is on its way between clients and servers.
//!
//! A client runs ahead of the others until it next hears something, as until then nothing that the others do concerns it.
//! So what is sent is given its times at once: when it is executed, and when the answer is heard.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::oneshot;

use super::chance::Chance;
use super::recorder::Recorder;
use super::scenario::{CALM, END, Scenario};
use super::server::{Answer, Question};
use crate::node::{Listening, NodeError};

/// What all parts of a world share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    network: Mutex<Network>,
}

impl Shared {
    pub(super) fn new(scenario: Scenario) -> Self {
        let network = Mutex::new(Network::new(&scenario));
        Self { scenario, network }
    }

    pub(super) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) type Answered = Result<Answer, NodeError>;

/// Something that happens at a moment.
#[derive(Debug)]
pub(super) enum Event {
    /// A server executes what it was sent, if it is still in that life.
    Execute {
        client: usize,
        node: usize,
        life: usize,
        question: Question,
        /// When the answer is heard; `None`: never.
        heard: Option<(u64, oneshot::Sender<Answered>)>,
    },
    /// A client hears an answer.
    Deliver {
        client: usize,
        node: usize,
        attempt: u64,
        answer: Answered,
        to: oneshot::Sender<Answered>,
    },
    /// A client is told of a release, if this is still its connection.
    Tell {
        client: usize,
        node: usize,
        connection: u64,
        key: Arc<str>,
    },
    /// A paused client runs again.
    Resume { client: usize },
}

/// A client's connection to a node.
#[derive(Debug, Default)]
struct Line {
    /// The life of the server that it leads to.
    life: Option<usize>,
    /// The life in which the server was found to have a vote.
    admitted: Option<usize>,
    /// When it breaks.
    breaks: Option<u64>,
    /// When the try to connect that is being made is over.
    connected: Option<u64>,
    /// When the last request is executed, and the last answer heard.
    last_executed: u64,
    last_heard: u64,
    /// When requests are executed and their answers heard, of those that may not have been yet.
    on_the_way: Vec<(u64, u64)>,
    /// Which of the connections that there were this is.
    number: u64,
}

/// What is known of a client from outside.
#[derive(Debug, Default)]
pub(super) struct Outside {
    /// When it hears something.
    due: Vec<u64>,
    /// When it is paused next, and until when.
    pub(super) pause: Option<(u64, u64)>,
    planned: usize,
    /// How far it was run, and whether it stands still there.
    pub(super) now: u64,
    pub(super) paused: bool,
    /// Until when it runs, as far as it knows.
    pub(super) armed: u64,
    pub(super) waker: Option<Waker>,
}

impl Outside {
    /// Until when it runs if it is told nothing that it did not ask for.
    fn knows_until(&self) -> u64 {
        let paused = self.pause.map(|(from, _)| from);
        self.due.iter().copied().chain(paused).min().unwrap_or(END)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Network {
    pub(super) chance: Chance,
    events: BTreeMap<(u64, u64), Event>,
    made: u64,
    lines: Vec<Vec<Line>>,
    pub(super) outside: Vec<Outside>,
    pub(super) recorder: Recorder,
    /// What each client listens to on each node.
    listening: Vec<Vec<Arc<Listening>>>,
    /// Whoever waits for these waits for ever.
    unanswered: Vec<oneshot::Sender<Answered>>,
}

/// What becomes of a request, and when.
struct Course {
    life: usize,
    executed: Option<u64>,
    /// When the client hears of it.
    heard: Option<u64>,
    /// It hears the answer, not only that the connection broke.
    answers: bool,
}

enum Fate {
    Answered,
    /// Executed, and the answer is lost without a word.
    AnswerLost,
    /// The connection breaks after the execution, before the answer.
    BrokenAfter,
    /// The connection breaks before, and the server never reads it.
    BrokenBefore,
    /// The connection breaks, and the server reads later what it had received, without anybody to answer to.
    ReadLate,
}

impl Network {
    fn new(scenario: &Scenario) -> Self {
        let line = |_| Line::default();
        let mut network = Self {
            chance: Chance::new(scenario.seed, 2),
            events: BTreeMap::new(),
            made: 0,
            lines: (0..scenario.clients)
                .map(|_| (0..scenario.nodes).map(line).collect())
                .collect(),
            outside: (0..scenario.clients).map(|_| Outside::default()).collect(),
            recorder: Recorder::default(),
            listening: (0..scenario.clients)
                .map(|_| (0..scenario.nodes).map(|_| Arc::default()).collect())
                .collect(),
            unanswered: Vec::new(),
        };
        for client in 0..scenario.clients {
            network.plan_pause(scenario, client, 0);
        }
        network
    }

    pub(super) fn push(&mut self, at: u64, event: Event) {
        self.made += 1;
        self.events.insert((at, self.made), event);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }

    /// Until when a client may run before it is told something.
    pub(super) fn runs_until(&self, client: usize) -> u64 {
        let known = self.outside[client].knows_until();
        self.may_be_told(client)
            .map_or(known, |told| told.min(known))
    }

    /// From when on a client may be told of something that it does not know of yet. `None`: it does not listen.
    ///
    /// A message takes a millisecond from the release, and a release one from who sends it. Who can do nothing before the next
    /// event sends none.
    fn may_be_told(&self, client: usize) -> Option<u64> {
        if self.listening[client].iter().all(|node| node.is_empty()) {
            return None;
        }
        let executed = self.events.keys().next().map(|(at, _)| at + 1);
        let others = self.outside.iter().enumerate();
        let sent = others
            .filter(|(other, it)| *other != client && !it.paused && it.now < it.knows_until())
            .map(|(_, other)| other.now + 2);
        executed.into_iter().chain(sent).min()
    }

    pub(super) fn listening(&self, client: usize, node: usize) -> Arc<Listening> {
        Arc::clone(&self.listening[client][node])
    }

    /// The number of the connection, if it has not broken as far as the client can tell.
    pub(super) fn connection(&self, client: usize, node: usize) -> u64 {
        self.lines[client][node].number
    }

    /// Tells a client of a release, between the answers to what was executed before and after it.
    pub(super) fn tell(
        &mut self,
        now: u64,
        client: usize,
        node: usize,
        connection: u64,
        key: &Arc<str>,
    ) {
        let delay = self.delay(now);
        let line = &mut self.lines[client][node];
        if line.number != connection {
            return;
        }
        let (before, after): (Vec<_>, Vec<_>) =
            line.on_the_way.iter().partition(|(at, _)| *at <= now);
        let before = before.into_iter().map(|(_, heard)| heard).max();
        let after = after.into_iter().map(|(_, heard)| heard).min();
        let at = (now + delay).max(before.unwrap_or(0));
        let at = at.min(after.unwrap_or(at)).max(now + 1);
        line.last_heard = line.last_heard.max(at);
        self.outside[client].due.push(at);
        self.recorder.note(now, client, node, "is told", 0, at);
        let tell = Event::Tell {
            client,
            node,
            connection,
            key: Arc::clone(key),
        };
        self.push(at, tell);
    }

    /// Whether what was sent over this connection arrives now.
    pub(super) fn carries(
        &self,
        scenario: &Scenario,
        client: usize,
        node: usize,
        connection: u64,
        now: u64,
    ) -> bool {
        let line = &self.lines[client][node];
        line.number == connection
            && line.life == scenario.life(node, now)
            && line.breaks.is_none_or(|breaks| breaks > now)
            && !scenario.is_silent(client, node, now)
    }

    pub(super) fn heard(&mut self, client: usize, at: u64) {
        let due = &mut self.outside[client].due;
        if let Some(place) = due.iter().position(|due| *due == at) {
            due.swap_remove(place);
        }
    }

    /// The next pause of a client that runs again.
    pub(super) fn plan_pause(&mut self, scenario: &Scenario, client: usize, now: u64) {
        let outside = &mut self.outside[client];
        let planned = &scenario.pauses[client][outside.planned..];
        let passed = planned.iter().take_while(|(_, to)| *to <= now).count();
        outside.pause = planned.get(passed).copied();
        outside.planned += passed + usize::from(outside.pause.is_some());
    }

    /// The life of the server that a request can be sent to. `None`: it cannot be reached.
    ///
    /// # Errors
    ///
    /// When that is to be asked again.
    pub(super) fn connect(
        &mut self,
        scenario: &Scenario,
        client: usize,
        node: usize,
        now: u64,
    ) -> Result<Option<usize>, u64> {
        let line = &mut self.lines[client][node];
        if line.breaks.is_some_and(|breaks| breaks <= now) {
            line.life = None;
        }
        let alive = scenario.life(node, now);
        if line.life.is_some() && line.life == alive {
            return Ok(alive);
        }
        line.life = None;
        match line.connected {
            Some(at) if at <= now => {
                let reached = alive.filter(|_| !scenario.is_silent(client, node, now));
                *line = Line {
                    life: reached,
                    admitted: line.admitted,
                    last_executed: now,
                    number: line.number + u64::from(reached.is_some()),
                    ..Line::default()
                };
                Ok(reached)
            }
            Some(at) => Err(at),
            None => {
                let at = now + self.chance.between(1, 15);
                line.connected = Some(at);
                Err(at)
            }
        }
    }

    /// For how much longer the server has no vote in this life, as far as the client knows.
    pub(super) fn abstains(
        &self,
        scenario: &Scenario,
        client: usize,
        node: usize,
        life: usize,
        now: u64,
    ) -> Option<u64> {
        let votes_from = scenario.lives[node][life].votes_from;
        let admitted = self.lines[client][node].admitted == Some(life);
        (!admitted && votes_from > now).then(|| votes_from - now)
    }

    pub(super) fn admit(&mut self, client: usize, node: usize, life: usize) {
        self.lines[client][node].admitted = Some(life);
    }

    /// Sends a request over the connection, of which there is one.
    pub(super) fn send(
        &mut self,
        scenario: &Scenario,
        client: usize,
        node: usize,
        now: u64,
        question: Question,
    ) -> oneshot::Receiver<Answered> {
        let (to, answer) = oneshot::channel();
        let course = self.course(scenario, client, node, now);
        let attempt = self.recorder.sent(client, now, &question);
        let arrives = course.executed.unwrap_or(0);
        let name = question.name();
        self.recorder
            .note(now, client, node, name, attempt, arrives);

        let mut to = Some(to);
        self.outside[client].due.extend(course.heard);
        if let Some(at) = course.executed {
            let execute = Event::Execute {
                client,
                node,
                life: course.life,
                question,
                heard: course
                    .heard
                    .filter(|_| course.answers)
                    .and_then(|at| Some((at, to.take()?))),
            };
            self.push(at, execute);
        }
        match (to, course.heard) {
            (Some(to), Some(at)) => {
                let answer = Err(NodeError::from("connection closed"));
                let deliver = Event::Deliver {
                    client,
                    node,
                    attempt,
                    answer,
                    to,
                };
                self.push(at, deliver);
            }
            (Some(to), None) => self.unanswered.push(to),
            (None, _) => {}
        }
        self.interrupt(scenario, client, now);
        answer
    }

    fn course(&mut self, scenario: &Scenario, client: usize, node: usize, now: u64) -> Course {
        let fate = self.fate(scenario, now);
        let delay = self.delay(now);
        let back = self.delay(now) - 1;
        let until_broken = self.chance.between(1, 20);
        let late = self.chance.between(1, 300);

        let line = &mut self.lines[client][node];
        let server_life = line.life.unwrap_or(0);
        let arrives = line.last_executed.max(now + delay);
        let (executed, heard) = match fate {
            Fate::Answered => {
                line.last_heard = line.last_heard.max(arrives + back);
                line.on_the_way.retain(|(_, heard)| *heard >= now);
                line.on_the_way.push((arrives, line.last_heard));
                (Some(arrives), Some(line.last_heard))
            }
            Fate::AnswerLost => (Some(arrives), None),
            Fate::BrokenAfter => {
                line.breaks = Some(arrives + until_broken);
                (Some(arrives), line.breaks)
            }
            Fate::BrokenBefore => {
                line.breaks = Some(now);
                (None, Some(now + until_broken))
            }
            Fate::ReadLate => {
                line.breaks = Some(now);
                (Some(arrives + late), Some(now + until_broken))
            }
        };
        if !matches!(fate, Fate::BrokenBefore | Fate::ReadLate) {
            line.last_executed = arrives;
        }
        let reached = !scenario.is_silent(client, node, now);
        let dies = scenario.lives[node][server_life].to;
        let executed = executed.filter(|at| reached && *at < dies);
        let heard = match (executed, heard) {
            (None, Some(heard)) => Some(heard.min(dies).max(now + 1)),
            (_, heard) => heard,
        };
        Course {
            life: server_life,
            executed,
            heard: heard.filter(|at| reached && !scenario.is_silent(client, node, *at)),
            answers: matches!(fate, Fate::Answered) && executed.is_some(),
        }
    }

    /// What was sent may have to be heard sooner than what the client runs until; and it may be paused here and now.
    fn interrupt(&mut self, scenario: &Scenario, client: usize, now: u64) {
        let sudden = scenario.sudden_pauses;
        if sudden > 0 && now < CALM && self.chance.one_in(sudden) {
            let to = (now + self.chance.between(1, 1_000)).min(CALM);
            self.outside[client].pause = Some((now, to));
        }
        let until = self.runs_until(client);
        let outside = &self.outside[client];
        if until < outside.armed
            && let Some(waker) = &outside.waker
        {
            waker.wake_by_ref();
        }
    }

    fn fate(&mut self, scenario: &Scenario, now: u64) -> Fate {
        if scenario.faults == 0 || now >= CALM || !self.chance.one_in(scenario.faults) {
            return Fate::Answered;
        }
        match self.chance.index(4) {
            0 => Fate::AnswerLost,
            1 => Fate::BrokenAfter,
            2 => Fate::BrokenBefore,
            _ => Fate::ReadLate,
        }
    }

    /// At least one millisecond, so that nobody can have been run past what a client sends.
    fn delay(&mut self, now: u64) -> u64 {
        let most = match self.chance.index(100) {
            _ if now >= CALM => 5,
            0..80 => 5,
            80..97 => 40,
            _ => 400,
        };
        self.chance.between(1, most)
    }
}
