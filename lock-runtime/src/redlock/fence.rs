//! Fencing tokens. Pure: what to propose, and what the nodes' answers amount to.
//!
//! A token is a number that is larger for every later holder of the same key. A client proposes the time, or more; each
//! node that grants stores the proposal if it is larger than what it has, and answers what it had. Accepted by a majority:
//! that is the token, stored before the body starts. Two holders' majorities share a node, and on that node the later
//! grant comes after the earlier token was stored; so a majority that accepts a token has never accepted a larger one.
//! Clocks decide only whether one round is enough.
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

/// What to propose at this time, by a client that has seen tokens up to `seen`.
pub(crate) fn proposal(now: SystemTime, seen: u64) -> u64 {
    let micros = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros());
    u64::try_from(micros)
        .map_or(LATEST, |micros| micros.min(LATEST))
        .max(seen.saturating_add(1))
        .min(LARGEST)
}

/// What the answers to a proposal amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// A majority has stored it: it is the token.
    Accepted,
    /// Too few had less: this is to be proposed next.
    Raise(u64),
}

/// `stored`: what each node had that answered. `majority`: of all configured nodes.
pub(crate) fn settle(proposal: u64, stored: impl Iterator<Item = u64>, majority: usize) -> Settled {
    let (mut accepted, mut highest) = (0, proposal);
    for stored in stored {
        accepted += usize::from(stored < proposal);
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
        let settle =
            |proposal, stored: &[u64], majority| settle(proposal, stored.iter().copied(), majority);
        assert_eq!(settle(10, &[0, 0, 9], 2), Settled::Accepted);
        assert_eq!(settle(10, &[0, 10, 9], 2), Settled::Accepted);
        assert_eq!(settle(10, &[0, 10, 10], 2), Settled::Raise(11));
        assert_eq!(settle(10, &[0, 25, 10], 2), Settled::Raise(26));
        assert_eq!(settle(10, &[0], 2), Settled::Raise(11));
        assert_eq!(settle(10, &[], 1), Settled::Raise(11));
        assert_eq!(settle(10, &[5], 1), Settled::Accepted);
        assert_eq!(settle(LARGEST, &[LARGEST], 1), Settled::Raise(LARGEST));
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
            let mut token = proposal(UNIX_EPOCH + Duration::from_micros(clock), 0);
            loop {
                let had = majority.map(|node| stored[node]);
                for node in majority {
                    stored[node] = stored[node].max(token);
                }
                match settle(token, had.into_iter(), 2) {
                    Settled::Accepted => break,
                    Settled::Raise(next) => token = next,
                }
            }
            assert!(token > last, "holder {holder}: {token} after {last}");
            last = token;
        }
    }
}
