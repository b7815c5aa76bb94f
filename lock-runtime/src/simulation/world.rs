//! Runs a world from its seed to its end.

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::network::{Event, Shared};
use super::recorder::{Counts, Entry, NO_NODE};
use super::scenario::{CALM, END, Mutant, Scenario};
use super::server::{Answer, Question, Server, ServerTime};
use super::workload;
use crate::backoff;
use crate::node::Acquired;

/// What came of a world.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) faults: Vec<String>,
    pub(super) counts: Counts,
    /// Of everything that happened.
    pub(super) hash: u64,
    pub(super) log: Vec<Entry>,
    pub(super) scenario: String,
}

/// Runs it.
pub(super) fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let _seeded = backoff::seeded(seed);
    World::new(Scenario::of(seed, mutant)).run()
}

struct World {
    shared: Arc<Shared>,
    clients: Vec<Client>,
    servers: Vec<Server>,
    time: ServerTime,
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let shared = Arc::new(Shared::new(scenario));
        let scenario = &shared.scenario;
        Self {
            clients: (0..scenario.clients)
                .map(|number| Client::new(number, &shared))
                .collect(),
            servers: (0..scenario.nodes)
                .map(|number| Server::new(scenario, number))
                .collect(),
            time: ServerTime::new(),
            shared,
        }
    }

    fn run(mut self) -> Outcome {
        loop {
            // Those who listen run only a little ahead of one another.
            while let Some(number) = self.next_with_work() {
                let paused = self.clients[number].run();
                self.pause(number, paused);
            }
            let Some((at, event)) = self.shared.network().pop() else {
                break;
            };
            self.happen(at, event);
        }
        self.end()
    }

    /// The client that is the furthest behind.
    fn next_with_work(&self) -> Option<usize> {
        let with_work = self.clients.iter().enumerate();
        let with_work = with_work.filter(|(_, client)| client.has_work());
        let (number, _) = with_work.min_by_key(|(_, client)| client.now())?;
        Some(number)
    }

    fn happen(&mut self, at: u64, event: Event) {
        match event {
            Event::Execute {
                client,
                node,
                life,
                question,
                heard,
            } => {
                let answer = self.execute(at, client, node, life, &question);
                if let Some((heard, to)) = heard {
                    let attempt = self.shared.network().recorder.number(question.token());
                    let deliver = Event::Deliver {
                        client,
                        node,
                        attempt,
                        answer,
                        to,
                    };
                    self.shared.network().push(heard, deliver);
                }
            }
            Event::Deliver {
                client,
                node,
                attempt,
                answer,
                to,
            } => {
                let what = answer.as_ref().map_or("hears nothing", |_| "hears");
                let mut network = self.shared.network();
                network.heard(client, at);
                if !self.clients[client].is_paused() {
                    network.recorder.heard(client, at);
                }
                network.recorder.note(at, client, node, what, attempt, 0);
                // Whoever asked may have gone.
                let _ = to.send(answer);
            }
            Event::Tell {
                client,
                node,
                connection,
                key,
            } => {
                let mut network = self.shared.network();
                network.heard(client, at);
                let scenario = &self.shared.scenario;
                if network.carries(scenario, client, node, connection, at) {
                    if !self.clients[client].is_paused() {
                        network.recorder.heard(client, at);
                    }
                    network
                        .recorder
                        .note(at, client, node, "hears of a release", 0, 0);
                    let listening = network.listening(client, node);
                    drop(network);
                    listening.tell(&key, Duration::ZERO);
                }
            }
            Event::Resume { client } => {
                let note = "runs again";
                let mut network = self.shared.network();
                network.recorder.note(at, client, NO_NODE, note, 0, 0);
                drop(network);
                let paused = self.clients[client].resume(at);
                self.pause(client, paused);
            }
        }
    }

    fn execute(
        &mut self,
        at: u64,
        client: usize,
        node: usize,
        life: usize,
        question: &Question,
    ) -> super::network::Answered {
        let scenario = &self.shared.scenario;
        let server = &mut self.servers[node];
        let forgot = server.live(scenario, life);
        let answer = self
            .time
            .at(at, || server.execute(scenario, client, at, question));
        let mut network = self.shared.network();
        let recorder = &mut network.recorder;
        if let (Ok(Answer::Acquired(Acquired::Granted(_))), Some(token)) =
            (&answer, question.token())
        {
            recorder.granted(&token, at);
        }
        if forgot && recorder.is_held(at) {
            recorder.counts.forgotten_while_held += 1;
        }
        let young = scenario.lives[node][life].votes_from > at;
        recorder.counts.sent_to_young_nodes += u64::from(young);
        recorder.counts.admitted += u64::from(young && matches!(question, Question::Admit));
        let what = answer.as_ref().map_or("fails", Answer::name);
        let number = recorder.number(question.token());
        recorder.note(at, client, node, what, number, life as u64);
        if let Some((key, subscribers)) = server.take_released() {
            for client in 0..scenario.clients {
                let connection = network.connection(client, node);
                let expects = network.listening(client, node).is_subscribed(&key)
                    && network.carries(scenario, client, node, connection, at);
                if expects && !subscribers.contains(&(client, connection)) {
                    let fault = format!("client {client} is not told at {at} by node {node}");
                    network.recorder.fault(fault);
                }
            }
            for (subscriber, connection) in subscribers {
                network.tell(at, subscriber, node, connection, &key);
            }
        }
        answer
    }

    fn pause(&mut self, client: usize, until: Option<u64>) {
        let Some(until) = until else { return };
        let mut network = self.shared.network();
        let now = self.clients[client].now();
        let recorder = &mut network.recorder;
        recorder.counts.paused_past_the_deadline +=
            u64::from(recorder.oversleeps(client, now, until));
        recorder.note(now, client, NO_NODE, "is paused", 0, until);
        network.push(until, Event::Resume { client });
    }

    fn end(mut self) -> Outcome {
        let scenario = &self.shared.scenario;
        let mut network = self.shared.network();
        let recorder = &mut network.recorder;
        for (node, server) in self.servers.iter_mut().enumerate() {
            let life = scenario.life(node, CALM).unwrap_or(0);
            server.live(scenario, life);
            for key in 0..scenario.keys {
                let key = format!("key-{key}");
                if self.time.at(END, || server.has(&key)) {
                    recorder.fault(format!("{key} is left on node {node}"));
                }
            }
        }
        let workers: usize = (0..scenario.clients)
            .map(|client| workload::workers(client, &self.shared).len())
            .sum();
        if recorder.finished < workers {
            let finished = recorder.finished;
            recorder.fault(format!("{finished} of {workers} workers have finished"));
        }
        recorder.judge(scenario);
        for (number, client) in self.clients.drain(..).enumerate() {
            let tasks = client.tasks();
            if tasks == 0 {
                continue;
            }
            recorder.fault(format!("client {number} leaves {tasks} tasks behind"));
            client.abandon();
        }
        Outcome {
            hash: recorder.hash(),
            faults: std::mem::take(&mut recorder.faults),
            counts: recorder.counts,
            log: std::mem::take(&mut recorder.log),
            scenario: if recorder.faults.is_empty() {
                String::new()
            } else {
                format!("{scenario:?}")
            },
        }
    }
}
