//! What a node does: the scripts of the product.

use crate::message::{Kind, Message};
use crate::protocol::{Flaw, Protocol};
use crate::state::{Answer, Key, Node, Token};

/// Executes a request. Changes the lock and the fence, and nothing else.
pub(crate) fn execute<const C: usize>(
    protocol: &Protocol,
    node: &mut Node<C>,
    client: usize,
    message: Message,
) -> Answer {
    let token = self::owner(protocol, client, message);
    let owner = node.key.map(|key| key.owner);
    let is_ours = owner == Some(token);
    match message.kind {
        Kind::Acquire => {
            let abstains = node.young > 0 && !protocol.has(Flaw::YoungNodesVote);
            if abstains || owner.is_some_and(|owner| owner != token) {
                return Answer::No;
            }
            // `SET NX` does not prolong what is there.
            node.key.get_or_insert(Key {
                owner: token,
                left: protocol.ttl,
            });
            Answer::Yes(propose(node, message.fence))
        }
        Kind::Extend => {
            if owner.is_some_and(|owner| owner != token) {
                return Answer::No;
            }
            node.key = Some(Key {
                owner: token,
                left: protocol.ttl,
            });
            Answer::Yes(propose(node, message.fence))
        }
        Kind::Raise => {
            if is_ours || protocol.has(Flaw::FenceRaisedAnywhere) {
                Answer::Yes(propose(node, message.fence))
            } else {
                Answer::No
            }
        }
        Kind::Release => {
            if is_ours {
                node.key = None;
            }
            Answer::None
        }
    }
}

/// Executes releases that would find nothing now: they will find nothing later either, as what could put their token here
/// is behind them. So it makes no difference when they are executed.
pub(crate) fn execute_idle<const C: usize>(protocol: &Protocol, node: &mut Node<C>) {
    for client in 0..C {
        while let Some(message) = node.links[client].queue.iter().next()
            && message.kind == Kind::Release
            && node.key.map(|key| key.owner) != Some(owner(protocol, client, message))
        {
            node.links[client].queue.pop();
        }
    }
}

fn owner(protocol: &Protocol, client: usize, message: Message) -> Token {
    Token {
        client: client.try_into().expect("few clients"),
        attempt: protocol.token(message.attempt),
    }
}

/// Stores a fencing token if it is larger. Answers what was stored before.
fn propose<const C: usize>(node: &mut Node<C>, fence: u8) -> u8 {
    let stored = node.fence;
    node.fence = stored.max(fence);
    stored
}

/// All that the node knew is gone.
pub(crate) fn crash<const C: usize>(protocol: &Protocol, node: &mut Node<C>, requests_lost: bool) {
    let voted = node.young == 0;
    node.key = None;
    node.fence = 0;
    node.young = protocol.ttl;
    for link in &mut node.links {
        if requests_lost {
            link.queue = crate::message::Queue::default();
        }
        if let Answer::Yes(stored) = link.answer
            && voted
        {
            link.answer = Answer::YesBeforeCrash(stored);
        }
    }
}

pub(crate) fn tick<const C: usize>(node: &mut Node<C>) {
    node.young = node.young.saturating_sub(1);
    if let Some(key) = &mut node.key {
        key.left -= 1;
        if key.left == 0 {
            node.key = None;
        }
    }
}
