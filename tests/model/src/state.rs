//! Everything that can differ from one moment to the next.
//!
//! Times are relative, so that a state does not depend on how long it took to come there. What belongs to a node, and to
//! the way from a client to it, is kept with the node: nodes differ in nothing else, so their order can be ignored.

use std::hash::{Hash, Hasher};

use crate::message::{Kind, Message, Queue};
use crate::protocol::Protocol;
use crate::quorum::quorum;

/// A state, with `C` clients and `N` nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State<const C: usize, const N: usize> {
    pub(crate) nodes: [Node<C>; N],
    pub(crate) clients: [Client; C],
    /// Ticks since the beginning, where clocks go on.
    pub(crate) time: u8,
    pub(crate) crashes_left: u8,
    pub(crate) losses_left: u8,
    pub(crate) redeliveries_left: u8,
    /// The fencing tokens that holders were given, one bit for each.
    pub(crate) fences: u32,
    /// A holder was given one that it must not be given.
    pub(crate) fence_fell: bool,
    pub(crate) forgotten: Forgotten,
}

/// What a crash took of the fencing tokens, where it is of interest whether a renewal makes up for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Forgotten {
    /// Nothing, or a majority has stored it again.
    #[default]
    Nothing,
    SinceCrash,
    /// A renewal is on its way that was sent after the crash.
    BeingRenewed,
    /// The lock was granted meanwhile.
    Granted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node<const C: usize> {
    pub(crate) key: Option<Key>,
    /// For how many more ticks it abstains.
    pub(crate) young: u8,
    /// The fencing token that is stored.
    pub(crate) fence: u8,
    pub(crate) links: [Link; C],
}

/// The lock on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) owner: Token,
    /// Ticks until it expires.
    pub(crate) left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token {
    pub(crate) client: u8,
    pub(crate) attempt: u8,
}

/// The way from a client to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    pub(crate) queue: Queue,
    /// To what the client is waiting for.
    pub(crate) answer: Answer,
    /// The node is known not to have the lock as the client's.
    pub(crate) struck: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    #[default]
    None,
    /// It is on its way: yes, and this fencing token was stored before.
    Yes(u8),
    /// The same, from a node that had a vote and has crashed meanwhile.
    YesBeforeCrash(u8),
    /// It was heard, and counts.
    Counts(u8),
    /// It was heard, and does not.
    No,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The attempt that is going on, or comes next.
    pub(crate) attempt: u8,
    /// Ticks since what the lease counts from was sent.
    pub(crate) age: u8,
    /// Which request of this attempt is the latest.
    pub(crate) round: u8,
    /// How many of them were renewals.
    pub(crate) renewals: u8,
    /// Ticks since the latest was sent, if it is a renewal that is not settled.
    pub(crate) renewing: Option<u8>,
    /// How often this claim was handed over.
    pub(crate) handovers: u8,
    /// The first of the block that is proposed, or the holder's.
    pub(crate) fence: u8,
    /// The last of the block.
    pub(crate) top: u8,
    /// The largest fencing token that it has seen.
    pub(crate) seen: u8,
    /// A fencing token has to be larger than this.
    pub(crate) floor: u8,
    /// Somebody else became the holder since this one did.
    pub(crate) overtaken: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Asking,
    /// Has a majority, and its fencing token was too small.
    Raising,
    Held,
}

impl<const C: usize, const N: usize> State<C, N> {
    pub(crate) fn new(protocol: &Protocol) -> Self {
        let node = Node {
            key: None,
            young: 0,
            fence: protocol.fence_before,
            links: [Link::default(); C],
        };
        Self {
            nodes: [node; N],
            clients: [Client::default(); C],
            time: 0,
            crashes_left: protocol.crashes,
            losses_left: protocol.losses,
            redeliveries_left: protocol.redeliveries,
            fences: 1 << protocol.fence_before,
            fence_fell: false,
            forgotten: Forgotten::Nothing,
        }
    }

    /// The largest fencing token that a holder was given.
    pub(crate) fn last_fence(&self) -> u8 {
        u8::try_from(u32::BITS - self.fences.leading_zeros())
            .map_or(0, |bits| bits.saturating_sub(1))
    }

    pub(crate) fn links_mut(&mut self, client: usize) -> impl Iterator<Item = &mut Link> {
        self.nodes
            .iter_mut()
            .map(move |node| &mut node.links[client])
    }

    /// The ways to the nodes of a client's list.
    pub(crate) fn listed(&self, list: List, client: usize) -> impl Iterator<Item = &Link> {
        let listed = self.nodes.iter().enumerate();
        let listed = listed.filter(move |&(node, _)| list.has(node));
        listed.map(move |(_, node)| &node.links[client])
    }

    /// The one state that stands for all that differ only in which node is which and, where clients are alike, in which
    /// client is which. Nodes are alike that are next to one another and on the same lists.
    pub(crate) fn canonical(mut self, lists: &[List], clients_alike: bool) -> Self {
        let lists_of = |node: usize| lists.iter().map(move |list| list.has(node));
        let mut first = 0;
        for node in 1..=N {
            if node == N || !lists_of(first).eq(lists_of(node)) {
                self.nodes[first..node].sort_unstable();
                first = node;
            }
        }
        if !clients_alike {
            return self;
        }
        let mut least = self;
        // All orders of two or three clients are reached by swapping neighbours in turn.
        let orders: usize = (1..=C).product();
        for swap in 1..orders {
            self.swap_clients(swap % (C - 1));
            self.nodes.sort_unstable();
            least = least.min(self);
        }
        least
    }

    fn swap_clients(&mut self, first: usize) {
        self.clients.swap(first, first + 1);
        for node in &mut self.nodes {
            node.links.swap(first, first + 1);
            if let Some(Key { owner, .. }) = &mut node.key {
                if usize::from(owner.client) == first {
                    owner.client += 1;
                } else if usize::from(owner.client) == first + 1 {
                    owner.client -= 1;
                }
            }
        }
    }
}

/// Which of the nodes a client was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List(pub(crate) u8);

impl List {
    pub(crate) fn has(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) fn majority(self) -> usize {
        quorum(self.len())
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones().try_into().expect("few nodes")
    }
}

/// All fields, in few words: every state is hashed, most of them several times.
impl<const C: usize> Hash for Node<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let key = self.key.map_or([0; 3], |Key { owner, left }| {
            [owner.client + 1, owner.attempt, left]
        });
        let mut rest = u128::from_le_bytes(padded(key)) << 16
            | u128::from(self.young) << 8
            | u128::from(self.fence);
        for link in &self.links {
            let (answer, stored) = match link.answer {
                Answer::None => (0, 0),
                Answer::No => (1, 0),
                Answer::Yes(stored) => (2, stored),
                Answer::YesBeforeCrash(stored) => (3, stored),
                Answer::Counts(stored) => (4, stored),
            };
            let answer = u128::from(stored) << 4 | u128::from(link.struck) << 3 | answer;
            rest = rest << 12 | answer;
            link.queue.hash(state);
        }
        state.write_u128(rest);
    }
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let fields = [
            self.phase as u8,
            self.attempt,
            self.age,
            self.round,
            self.renewals,
            self.renewing.map_or(0, |age| age + 1),
            self.handovers,
            self.fence,
            self.top,
            self.seen,
            self.floor,
            self.overtaken.into(),
        ];
        state.write_u128(u128::from_le_bytes(padded(fields)));
    }
}

fn padded<const N: usize>(fields: [u8; N]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..N].copy_from_slice(&fields);
    all
}

impl<const C: usize> Node<C> {
    /// Whether the client has the lock here.
    pub(crate) fn is_of(&self, client: usize) -> bool {
        (self.key).is_some_and(|key| usize::from(key.owner.client) == client)
    }

    /// Whether what is left here is still in use, or on its way out.
    pub(crate) fn is_accounted_for(&self, protocol: &Protocol, clients: &[Client; C]) -> bool {
        let Some(Key { owner, .. }) = self.key else {
            return true;
        };
        let (client, link) = (
            &clients[usize::from(owner.client)],
            &self.links[usize::from(owner.client)],
        );
        let in_use = client.phase != Phase::Idle
            && protocol.token(client.attempt) == owner.attempt
            && !link.struck;
        let releases = |message: Message| {
            message.kind == Kind::Release && protocol.token(message.attempt) == owner.attempt
        };
        in_use || link.queue.iter().any(releases)
    }
}
