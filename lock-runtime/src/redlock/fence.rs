//! Fencing tokens. Pure: what to propose, and what the nodes' answers amount to.
//!
//! A token is a number that is larger for every later holder of the same key. A client proposes the time, or more; each
//! node that grants stores the proposal if it is larger than what it has, and answers what it had. Accepted by a majority:
//! that is the token, stored before the body starts. Two holders' majorities share a node, and on that node the later
//! grant comes after the earlier token was stored; so a majority that accepts a token has never accepted a larger one.
//! Clocks decide only whether one round is enough.
//!
//! Where several tasks of a process wait for the lock, a block of tokens is reserved in one go, for those who are given it one
//! after the other without asking the nodes again. The nodes store its last token, and accept it if they had less than its
//! first: so whoever asks later is above all of it, as if each had been proposed by itself.
//!
//! The second round asks only nodes where the lock is ours. That check is needed even while every lease is kept: without
//! it, a node could be counted that has told a rival a smaller value before. What a client is given that hears its grant
//! only after its lease is over is smaller than what later holders have, and a store refuses it, as it should.

use std::time::{SystemTime, UNIX_EPOCH};

/// The largest token: servers compare tokens as double-precision numbers, which are exact up to here. Microseconds since
/// 1970 reach it in the year 2255.
pub(crate) const LARGEST: u64 = 1 << 53;

/// The largest that a clock is believed, two weeks before: one that was at the end of time once leaves a million million
/// tokens for those who come later.
const LATEST: u64 = LARGEST - (1 << 40);

/// What to propose at this time, by a client that has seen tokens up to `seen` and wants so many.
///
/// No more are reserved than the clock has microseconds until they could have been proposed one by one. Otherwise those of
/// many short holds would add up, and run ahead of all clocks: after a crash that loses what a node has stored, only the
/// clocks make tokens grow. (A model found that.)
pub(crate) fn proposal(now: SystemTime, seen: u64, tokens: u64) -> Block {
    let micros = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros());
    let now = u64::try_from(micros).map_or(LATEST, |micros| micros.min(LATEST));
    let first = now.max(seen.saturating_add(1)).min(LARGEST);
    Block::new(now, tokens).moved_to(first)
}

/// Tokens that are proposed together: one, or those of holders who follow one another in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    first: u64,
    last: u64,
}

impl Block {
    /// So many tokens, at least one, as far as there are any.
    pub(crate) fn new(first: u64, tokens: u64) -> Self {
        let last = first.saturating_add(tokens.saturating_sub(1));
        Self {
            first,
            last: last.min(LARGEST).max(first),
        }
    }

    /// The same from another token on: it ends where it would have ended, with one token at least.
    pub(crate) fn moved_to(self, first: u64) -> Self {
        let last = self.last.max(first);
        Self { first, last }
    }

    /// What the holder is given.
    pub(crate) fn token(self) -> u64 {
        self.first
    }

    /// What the nodes store.
    pub(crate) fn last(self) -> u64 {
        self.last
    }

    /// What is left for those who come after the holder.
    pub(crate) fn rest(self) -> Option<Self> {
        let first = self.first + 1;
        (first <= self.last).then_some(Self { first, ..self })
    }
}

/// What the answers to a proposal amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// A majority has stored it: its tokens are ours.
    Accepted,
    /// Too few had less: this is to be proposed next.
    Raise(u64),
}

/// `stored`: what each node had that answered. `majority`: of all configured nodes.
pub(crate) fn settle(
    proposal: Block,
    stored: impl Iterator<Item = u64>,
    majority: usize,
) -> Settled {
    let (mut accepted, mut highest) = (0, proposal.last);
    for stored in stored {
        accepted += usize::from(stored < proposal.first);
        highest = highest.max(stored);
    }
    if accepted >= majority {
        Settled::Accepted
    } else {
        Settled::Raise(highest.saturating_add(1).min(LARGEST))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_is_proposed_unless_more_was_seen() {
        let at = |micros| UNIX_EPOCH + Duration::from_micros(micros);
        let proposal = |now, seen| proposal(now, seen, 1).token();
        assert_eq!(proposal(at(1_000), 0), 1_000);
        assert_eq!(proposal(at(1_000), 999), 1_000);
        assert_eq!(proposal(at(1_000), 1_000), 1_001);
        assert_eq!(proposal(at(10), 5_000), 5_001);
        assert_eq!(proposal(UNIX_EPOCH - Duration::from_secs(1), 0), 1);
        assert_eq!(proposal(at(1_000), u64::MAX), LARGEST);
        let end_of_time = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(proposal(end_of_time, 0), LATEST);
        assert_eq!(proposal(end_of_time, LATEST), LATEST + 1);
        assert_eq!(proposal(at(1_000), LATEST), LATEST + 1);
        assert!(
            i64::try_from(LARGEST).is_ok(),
            "tokens fit a signed SQL column"
        );
    }

    #[test]
    fn only_a_majority_that_had_less_accepts() {
        let settle = |proposal, stored: &[u64], majority| {
            settle(Block::new(proposal, 1), stored.iter().copied(), majority)
        };
        assert_eq!(settle(10, &[0, 0, 9], 2), Settled::Accepted);
        assert_eq!(settle(10, &[0, 10, 9], 2), Settled::Accepted);
        assert_eq!(settle(10, &[0, 10, 10], 2), Settled::Raise(11));
        assert_eq!(settle(10, &[0, 25, 10], 2), Settled::Raise(26));
        assert_eq!(settle(10, &[0], 2), Settled::Raise(11));
        assert_eq!(settle(10, &[], 1), Settled::Raise(11));
        assert_eq!(settle(10, &[5], 1), Settled::Accepted);
        assert_eq!(settle(LARGEST, &[LARGEST], 1), Settled::Raise(LARGEST));
    }

    #[test]
    fn a_block_is_accepted_by_nodes_that_had_less_than_its_first_token() {
        let block = Block::new(10, 5);
        assert_eq!((block.token(), block.last()), (10, 14));
        let settle = |stored: &[u64]| settle(block, stored.iter().copied(), 2);
        assert_eq!(settle(&[9, 9, 14]), Settled::Accepted);
        assert_eq!(settle(&[9, 10, 14]), Settled::Raise(15));
        assert_eq!(settle(&[9, 12]), Settled::Raise(15));
        assert_eq!(settle(&[9, 20]), Settled::Raise(21));
    }

    #[test]
    fn a_block_ends_with_the_clock() {
        let at = |micros| UNIX_EPOCH + Duration::from_micros(micros);
        let block = |now, seen, tokens| {
            let block = proposal(at(now), seen, tokens);
            (block.token(), block.last())
        };
        assert_eq!(block(5_000, 0, 1_000), (5_000, 5_999));
        assert_eq!(block(5_200, 5_999, 1_000), (6_000, 6_199));
        assert_eq!(block(5_200, 9_000, 1_000), (9_001, 9_001));
        assert_eq!(block(5_000, u64::MAX, 1_000), (LARGEST, LARGEST));
        let raised = proposal(at(5_000), 0, 1_000).moved_to(5_500);
        assert_eq!((raised.token(), raised.last()), (5_500, 5_999));
        let ahead = raised.moved_to(7_000);
        assert_eq!((ahead.token(), ahead.last()), (7_000, 7_000));
    }

    #[test]
    fn a_block_gives_each_token_once() {
        let given = std::iter::successors(Some(Block::new(7, 3)), |block| block.rest());
        let given: Vec<_> = given.map(Block::token).collect();
        assert_eq!(given, [7, 8, 9]);
        assert_eq!(Block::new(LARGEST, 1_000).rest(), None);
        let at_the_end = Block::new(LARGEST - 1, 1_000);
        assert_eq!(at_the_end.last(), LARGEST);
        assert_eq!(Block::new(5, 0), Block::new(5, 1));
    }

    /// Nodes in any order, clients with any clocks: every later holder's token is larger.
    #[test]
    fn tokens_grow_whatever_the_clocks_say() {
        let mut stored = [0_u64; 3];
        let mut last = 0;
        let clocks = [500, 100, 100, 90_000, 7, 0, 90_001, 90_000];
        for (holder, clock) in clocks.into_iter().enumerate() {
            // Another majority for each holder.
            let majority = [holder % 3, (holder + 1) % 3];
            let now = UNIX_EPOCH + Duration::from_micros(clock);
            let mut token = proposal(now, 0, 1).token();
            loop {
                let had = majority.map(|node| stored[node]);
                for node in majority {
                    stored[node] = stored[node].max(token);
                }
                match settle(Block::new(token, 1), had.into_iter(), 2) {
                    Settled::Accepted => break,
                    Settled::Raise(next) => token = next,
                }
            }
            assert!(token > last, "holder {holder}: {token} after {last}");
            last = token;
        }
    }
}
