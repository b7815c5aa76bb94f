//! What clients send to nodes, and the order in which it is executed.

use std::fmt;

/// A request of one client to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// Which attempt of the client it belongs to: its owner token.
    pub(crate) attempt: u8,
    /// Which of the requests of that attempt it is.
    pub(crate) round: u8,
    /// The fencing token that it carries.
    pub(crate) fence: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Extend,
    Raise,
    Release,
}

impl Message {
    const BITS: u32 = 12;

    fn packed(self) -> u128 {
        let kind = match self.kind {
            Kind::Acquire => 0,
            Kind::Extend => 1,
            Kind::Raise => 2,
            Kind::Release => 3,
        };
        debug_assert!(self.attempt < 4 && self.round < 4 && self.fence < 32);
        // The uppermost bit tells a message from none.
        1 << 11
            | u128::from(self.fence) << 6
            | u128::from(self.round) << 4
            | u128::from(self.attempt) << 2
            | kind
    }

    fn unpacked(bits: u128) -> Self {
        let field =
            |shift: u32, width: u32| ((bits >> shift) & ((1 << width) - 1)).to_le_bytes()[0];
        Self {
            kind: match field(0, 2) {
                0 => Kind::Acquire,
                1 => Kind::Extend,
                2 => Kind::Raise,
                _ => Kind::Release,
            },
            attempt: field(2, 2),
            round: field(4, 2),
            fence: field(6, 5),
        }
    }
}

/// Messages on their way, first in, first out. One number, so that states are small.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue(u128);

impl Queue {
    pub(crate) fn push(&mut self, message: Message) {
        let used = (u128::BITS - self.0.leading_zeros()).div_ceil(Message::BITS) * Message::BITS;
        assert!(used + Message::BITS <= u128::BITS, "more messages than fit");
        self.0 |= message.packed() << used;
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        let first = self.iter().next()?;
        self.0 >>= Message::BITS;
        Some(first)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Message> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let message = (left != 0).then(|| Message::unpacked(left));
            left >>= Message::BITS;
            message
        })
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
