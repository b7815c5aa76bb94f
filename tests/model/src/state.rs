//! Everything that can differ from one moment to the next.
//!
//! Times are relative, so that a state does not depend on how long it took to come there. What belongs to a node, and to
//! the way from a client to it, is kept with the node: nodes differ in nothing else, so their order can be ignored.

use crate::message::{Kind, Message, Queue};
use crate::protocol::Protocol;

pub(crate) const NODES: usize = 3;

/// A state, with `C` clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State<const C: usize> {
    pub(crate) nodes: [Node<C>; NODES],
    pub(crate) clients: [Client; C],
    /// Ticks since the beginning, where clocks go on.
    pub(crate) time: u8,
    pub(crate) crashes_left: u8,
    pub(crate) redeliveries_left: u8,
    /// The fencing tokens that holders were given, one bit for each.
    pub(crate) fences: u32,
    /// A holder was given one that it must not be given.
    pub(crate) fence_fell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Proposed, or settled.
    pub(crate) fence: u8,
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

impl<const C: usize> State<C> {
    pub(crate) fn new(protocol: &Protocol) -> Self {
        let node = Node {
            key: None,
            young: 0,
            fence: protocol.fence_before,
            links: [Link::default(); C],
        };
        Self {
            nodes: [node; NODES],
            clients: [Client::default(); C],
            time: 0,
            crashes_left: protocol.crashes,
            redeliveries_left: protocol.redeliveries,
            fences: 1 << protocol.fence_before,
            fence_fell: false,
        }
    }

    /// The largest fencing token that a holder was given.
    pub(crate) fn last_fence(&self) -> u8 {
        u8::try_from(u32::BITS - self.fences.leading_zeros())
            .map_or(0, |bits| bits.saturating_sub(1))
    }

    pub(crate) fn links(&self, client: usize) -> impl Iterator<Item = &Link> {
        self.nodes.iter().map(move |node| &node.links[client])
    }

    pub(crate) fn links_mut(&mut self, client: usize) -> impl Iterator<Item = &mut Link> {
        self.nodes
            .iter_mut()
            .map(move |node| &mut node.links[client])
    }

    /// The one state that stands for all that differ only in which node is which and, where clients are alike, in which
    /// client is which.
    pub(crate) fn canonical(mut self, clients_alike: bool) -> Self {
        self.nodes.sort_unstable();
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
