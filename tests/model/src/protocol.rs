//! The bounds within which the protocol is checked, and the flaws that it can be given.

use std::time::{Duration, Instant};

use crate::validity;

/// What is checked, and how much of it happens.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// How long a lock lives on a node, in ticks. It is also the longest TTL of all, for which a restarted node abstains.
    pub ttl: u8,
    /// How often each client asks for the lock, each time under a token of its own.
    pub attempts: u8,
    /// How many renewals each attempt may send.
    pub renewals: u8,
    /// How many nodes crash, or how often one does.
    pub crashes: u8,
    /// How many releases are told again.
    pub redeliveries: u8,
    /// What each client's clock says in the beginning, for its fencing tokens. Empty: nobody asks for a token.
    pub clocks: &'static [u8],
    /// The fencing token that the last holder was given before the beginning.
    pub fence_before: u8,
    /// These clocks go on, and the world ends after so many ticks. If not, they stand still.
    pub ends: Option<u8>,
    /// How often an attempt may raise its fencing token.
    pub raises: u8,
    /// Whether clients know how much time has passed. If not, they believe in their leases for ever, and only fencing
    /// tokens can be relied on.
    pub deadlines: bool,
    /// What is wrong with it.
    pub flaw: Option<Flaw>,
}

/// A way to get the protocol wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A node that restarted votes at once.
    YoungNodesVote,
    /// A node that restarted does not grant at once, but its answers to renewals count.
    YoungNodesCountForRenewals,
    /// A client uses one owner token for all its attempts.
    TokensReused,
    /// The proposed fencing token is taken, whatever the nodes had stored.
    FenceNotRaised,
    /// A fencing token is raised on nodes too where the lock is not the client's.
    FenceRaisedAnywhere,
    /// A lease counts from when it is granted.
    ValidFromAnswer,
    /// A majority is one of the nodes that answer.
    QuorumOfReachable,
    /// An answer to a renewal counts, though the lease has ended before it is heard.
    LapsedGoesOn,
    /// A renewal is still sent after the release has begun.
    RenewedAfterRelease,
}

impl Protocol {
    /// Two attempts for each client, and nothing that can be left out.
    pub const PLAIN: Self = Self {
        ttl: 2,
        attempts: 2,
        renewals: 0,
        crashes: 0,
        redeliveries: 0,
        clocks: &[],
        fence_before: 0,
        ends: None,
        raises: 0,
        deadlines: true,
        flaw: None,
    };

    /// The same with a flaw.
    #[must_use]
    pub fn with(self, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..self
        }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// What stands for the owner token of an attempt.
    pub(crate) fn token(&self, attempt: u8) -> u8 {
        if self.has(Flaw::TokensReused) {
            0
        } else {
            attempt
        }
    }

    pub(crate) fn fenced(&self) -> bool {
        !self.clocks.is_empty()
    }

    /// How many ticks long a lease may be believed, counted from its sending: what the product says when a tick is a second.
    pub(crate) fn lease(&self) -> u8 {
        let sent = Instant::now();
        let ticks = |ticks: u8| Duration::from_secs(ticks.into());
        let deadline = validity::deadline(sent, ticks(self.ttl)).expect("no such long TTL");
        (0..=self.ttl)
            .find(|&age| sent + ticks(age) >= deadline)
            .expect("no lease outlives its TTL")
    }
}
