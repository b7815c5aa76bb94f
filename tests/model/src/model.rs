//! What may happen next, and what must never.

use stateright::{Model, Property};

use crate::client::Step;
use crate::message::Kind;
use crate::node;
use crate::protocol::{Flaw, Protocol};
use crate::state::{Answer, Client, Forgotten, List, Node, Phase, State};

/// No two clients hold the lock at a time.
pub const ONE_HOLDER: &str = "one holder at a time";
/// Once another client has held the lock, the one before never holds it again by the same attempt.
pub const NO_RETURN: &str = "a lease that ended never comes back";
/// Every later holder's fencing token is larger.
pub const FENCES_GROW: &str = "fencing tokens grow";
/// What an attempt that is over has left on a node, a release that is on its way takes away.
pub const NOTHING_LEFT: &str = "nothing is left behind";

/// The protocol with `C` clients and `N` nodes.
#[derive(Clone, Debug)]
pub(crate) struct Clients<const C: usize, const N: usize> {
    protocol: Protocol,
    lease: u8,
    lists: [List; C],
    /// Clients differ in nothing.
    alike: bool,
}

impl<const C: usize, const N: usize> Clients<C, N> {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Self {
            lease: protocol.lease(),
            lists: std::array::from_fn(|client| protocol.list::<N>(client)),
            alike: [protocol.clocks, protocol.lists]
                .iter()
                .all(|each| each.windows(2).all(|two| two[0] == two[1])),
            protocol,
        }
    }

    fn step<'a>(&'a self, state: &'a mut State<C, N>, client: usize) -> Step<'a, C, N> {
        Step {
            protocol: &self.protocol,
            lease: self.lease,
            state,
            client,
        }
    }

    fn holders<'a>(&self, state: &'a State<C, N>) -> impl Iterator<Item = &'a Client> {
        let lease = self.lease;
        (state.clients.iter()).filter(move |client| client.holds(lease))
    }

    fn holds(&self, state: &State<C, N>, which: impl Fn(&Client) -> bool) -> bool {
        self.holders(state).any(which)
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Tick,
    Asks(usize),
    /// A node executes the next request of a client.
    Executes {
        node: usize,
        client: usize,
    },
    /// A request for the lock is lost.
    Loses {
        node: usize,
        client: usize,
    },
    Hears {
        client: usize,
        node: usize,
    },
    WaitsNoLonger(usize),
    Renews(usize),
    HandsOver(usize),
    GivesUpOrReleases(usize),
    ReleasesAgain {
        client: usize,
        node: usize,
    },
    Crashes {
        node: usize,
        requests_lost: bool,
    },
}

impl<const C: usize, const N: usize> Model for Clients<C, N> {
    type State = State<C, N>;
    type Action = Event;

    fn init_states(&self) -> Vec<State<C, N>> {
        vec![State::new(&self.protocol)]
    }

    fn actions(&self, state: &State<C, N>, events: &mut Vec<Event>) {
        for (client, me) in state.clients.iter().enumerate() {
            match me.phase {
                Phase::Idle if me.attempt < self.protocol.attempts => {
                    events.push(Event::Asks(client));
                }
                Phase::Idle => {}
                Phase::Asking => {
                    events.push(Event::GivesUpOrReleases(client));
                    if self.protocol.has(Flaw::QuorumOfReachable) {
                        events.push(Event::WaitsNoLonger(client));
                    }
                }
                Phase::Raising => {
                    events.push(Event::GivesUpOrReleases(client));
                    events.push(Event::WaitsNoLonger(client));
                }
                Phase::Held => {
                    events.push(Event::GivesUpOrReleases(client));
                    if me.renewals < self.protocol.renewals && me.holds(self.lease) {
                        events.push(Event::Renews(client));
                    }
                }
            }
            if me.can_hand_over(&self.protocol, self.lease) {
                events.push(Event::HandsOver(client));
            }
            for node in (0..N).filter(|&node| self.lists[client].has(node)) {
                let link = &state.nodes[node].links[client];
                if matches!(link.answer, Answer::Yes(_) | Answer::YesBeforeCrash(_)) {
                    events.push(Event::Hears { client, node });
                }
                if let Some(next) = link.queue.iter().next() {
                    events.push(Event::Executes { node, client });
                    if state.losses_left > 0 && next.kind == Kind::Acquire {
                        events.push(Event::Loses { node, client });
                    }
                }
                if state.redeliveries_left > 0 && me.attempt > 0 {
                    events.push(Event::ReleasesAgain { client, node });
                }
            }
        }
        if state.crashes_left > 0 {
            for node in 0..N {
                for requests_lost in [true, false] {
                    events.push(Event::Crashes {
                        node,
                        requests_lost,
                    });
                }
            }
        }
        if self.protocol.ends != Some(state.time) {
            events.push(Event::Tick);
        }
    }

    fn next_state(&self, last: &State<C, N>, event: Event) -> Option<State<C, N>> {
        let mut next = *last;
        let state = &mut next;
        match event {
            Event::Tick => {
                state.time += u8::from(self.protocol.ends.is_some());
                for node in &mut state.nodes {
                    node::tick(node);
                }
                for client in 0..C {
                    self.step(state, client).tick();
                }
            }
            Event::Asks(client) => self.step(state, client).ask(),
            Event::Executes { node, client } => {
                let at = &mut state.nodes[node];
                let message = at.links[client].queue.pop()?;
                let answer = node::execute(&self.protocol, at, client, message);
                self.step(state, client).answered(node, message, answer);
            }
            Event::Loses { node, client } => {
                state.losses_left -= 1;
                state.nodes[node].links[client].queue.pop();
            }
            Event::Hears { client, node } => self.step(state, client).hear(node),
            Event::WaitsNoLonger(client) => {
                let mut step = self.step(state, client);
                if step.state.clients[client].phase == Phase::Raising {
                    step.settle_raise(true);
                } else {
                    step.take_majority_of_reachable();
                }
            }
            Event::Renews(client) => self.step(state, client).renew(),
            Event::HandsOver(client) => self.step(state, client).hand_over(),
            Event::GivesUpOrReleases(client) => self.step(state, client).give_up(),
            Event::ReleasesAgain { client, node } => {
                state.redeliveries_left -= 1;
                self.step(state, client).release_again(node);
            }
            Event::Crashes {
                node,
                requests_lost,
            } => {
                state.crashes_left -= 1;
                if self.protocol.crashes_are_made_up_for {
                    state.forgotten = Forgotten::SinceCrash;
                }
                node::crash(&self.protocol, &mut state.nodes[node], requests_lost);
            }
        }
        for node in &mut next.nodes {
            node::execute_idle(&self.protocol, node);
        }
        let next = next.canonical(&self.lists, self.alike);
        (next != *last).then_some(next)
    }

    fn within_boundary(&self, state: &State<C, N>) -> bool {
        state.forgotten != Forgotten::Granted
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(NOTHING_LEFT, |model: &Self, state: &State<C, N>| {
                (state.nodes.iter())
                    .all(|node| node.is_accounted_for(&model.protocol, &state.clients))
            }),
            Property::sometimes("somebody holds", |model: &Self, state: &State<C, N>| {
                model.holds(state, |_| true)
            }),
        ];
        if self.protocol.deadlines {
            properties.extend([
                Property::always(ONE_HOLDER, |model: &Self, state| {
                    model.holders(state).count() <= 1
                }),
                Property::always(NO_RETURN, |model: &Self, state: &State<C, N>| {
                    !model.holds(state, |client| client.overtaken)
                }),
            ]);
        }
        if self.protocol.fenced() {
            properties.push(Property::always(FENCES_GROW, |_, state: &State<C, N>| {
                !state.fence_fell
            }));
        }
        if self.protocol.raises > 0 {
            properties.push(Property::sometimes(
                "a fencing token is raised",
                |model: &Self, state: &State<C, N>| {
                    model.holds(state, |client| client.round > client.renewals)
                },
            ));
        }
        if self.protocol.renewals > 0 {
            properties.push(Property::sometimes(
                "a lease is renewed",
                |model: &Self, state: &State<C, N>| {
                    model.holds(state, |client| {
                        client.renewals > 0 && client.renewing.is_none() && client.handovers == 0
                    })
                },
            ));
        }
        if self.protocol.handovers > 0 {
            properties.push(Property::sometimes(
                "a claim is handed over as often as it may be",
                |model: &Self, state: &State<C, N>| {
                    model.holds(state, |client| client.handovers == model.protocol.handovers)
                },
            ));
        }
        if self.protocol.handovers > 0 && self.protocol.raises > 0 {
            properties.push(Property::sometimes(
                "a raised block is handed over",
                |model: &Self, state: &State<C, N>| {
                    model.holds(state, |client| {
                        client.handovers > 0 && client.round > client.renewals
                    })
                },
            ));
        }
        if self.protocol.crashes > 0 {
            properties.push(Property::sometimes(
                "a crash takes a vote from a holder",
                |model: &Self, state: &State<C, N>| {
                    // A majority had the lock, and would have it for as long as the lease.
                    let nodes_of =
                        |client| state.nodes.iter().filter(move |node| node.is_of(client));
                    let robbed =
                        |client: usize| nodes_of(client).count() < model.lists[client].majority();
                    (0..C).any(|client| state.clients[client].holds(model.lease) && robbed(client))
                },
            ));
        }
        if self.protocol.crashes > 0 && self.protocol.renewals > 0 {
            properties.push(Property::sometimes(
                "a renewal takes the lock again",
                |model: &Self, state: &State<C, N>| {
                    let again = |node: &Node<C>| node.young > 0 && node.key.is_some();
                    model.holds(state, |_| true) && state.nodes.iter().any(again)
                },
            ));
        }
        properties
    }
}
