//! The bounds within which the protocol is checked, and the flaws that it can be given.

use std::time::{Duration, Instant};

use crate::state::List;
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
    /// How often each claim may be handed over to the next holder of the same client. Where fencing tokens are asked for,
    /// each acquire reserves so many more than one.
    pub handovers: u8,
    /// How many nodes crash, or how often one does.
    pub crashes: u8,
    /// How many requests for the lock are lost on their way, while those behind them arrive.
    pub losses: u8,
    /// How many releases are told again.
    pub redeliveries: u8,
    /// What each client's clock says in the beginning, for its fencing tokens. Empty: nobody asks for a token.
    pub clocks: &'static [u8],
    /// The fencing token that the last holder was given before the beginning.
    pub fence_before: u8,
    /// These clocks go on, and the world ends after so many ticks. If not, they stand still.
    pub ends: Option<u8>,
    /// How far they go on in a tick.
    pub pace: u8,
    /// A block ends where it would if it began with what the clock says, or is one token.
    pub blocks_end_by_the_clock: bool,
    /// How often an attempt may raise its fencing token.
    pub raises: u8,
    /// Whether clients know how much time has passed. If not, they believe in their leases for ever, and only fencing
    /// tokens can be relied on.
    pub deadlines: bool,
    /// Left out is whatever follows a grant between a crash and the next renewal of the holder, which makes up for it.
    pub crashes_are_made_up_for: bool,
    /// Which of the nodes each client was given, one bit for each. Empty: all of them.
    pub lists: &'static [u8],
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
    /// A claim is handed over without a look at its deadline, which goes with it.
    HandedOverLate,
    /// The deadline of a claim that is handed over counts from then.
    ValidFromHandover,
    /// Whoever hands over releases all the same.
    FormerHolderReleases,
    /// Whoever is handed a claim may have come after that was asked for, at the last moment. It matters only where clients
    /// do not know how much time has passed.
    HandedToLatecomers,
    /// What comes of a renewal that the former holder began counts for the next.
    NewsHandedOver,
    /// The next holder is given the fencing token that the former had.
    FenceHandedOver,
    /// A block of fencing tokens is accepted by a majority that had stored less than its last.
    BlockMeasuredByItsLast,
    /// What is proposed after that is larger than everything seen, but not than the last of the first block.
    BlockRaisedIntoItself,
    /// Nodes store the first of a block.
    FirstOfBlockStored,
    /// A renewal writes the fencing token of the holder, not the last of its block.
    HoldersFenceRenewed,
    /// After another proposal the block ends where it ended before; its holders are given tokens from the new first on.
    BlockNotMoved,
    /// After another proposal the holders that come next are given what follows the old first.
    OldBlockGoesOn,
}

impl Protocol {
    /// Two attempts for each client, and nothing that can be left out.
    pub const PLAIN: Self = Self {
        ttl: 2,
        attempts: 2,
        renewals: 0,
        handovers: 0,
        crashes: 0,
        losses: 0,
        redeliveries: 0,
        clocks: &[],
        fence_before: 0,
        ends: None,
        pace: 1,
        blocks_end_by_the_clock: false,
        raises: 0,
        deadlines: true,
        crashes_are_made_up_for: false,
        lists: &[],
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

    pub(crate) fn list<const N: usize>(&self, client: usize) -> List {
        let all = (1 << N) - 1;
        List(self.lists.get(client).map_or(all, |list| list & all))
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
