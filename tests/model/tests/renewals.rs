//! Renewals, which take the lock again on nodes that lack it. What was measured is from an optimised build on one core.

use lock_model::{Flaw, NO_RETURN, Protocol, check};

const RENEWED_ONCE: Protocol = Protocol {
    renewals: 1,
    ..Protocol::PLAIN
};

/// Measured: 542 thousand states in 1.2 s.
#[test]
fn two_clients_who_ask_twice() {
    check::exhaustive::<2>(RENEWED_ONCE, 270_000);
}

/// The second may be sent while requests and answers of the first are still on their way. Measured: 89 thousand states in
/// 0.2 s.
#[test]
fn two_renewals_of_a_lease() {
    let twice = Protocol {
        attempts: 1,
        renewals: 2,
        ..Protocol::PLAIN
    };
    check::exhaustive::<2>(twice, 44_000);
}

/// A longer TTL, of which renewals may leave more or less. Measured: 36 thousand states in 0.1 s.
#[test]
fn a_ttl_of_three_ticks() {
    let longer = Protocol {
        ttl: 3,
        attempts: 1,
        ..RENEWED_ONCE
    };
    check::exhaustive::<2>(longer, 18_000);
}

/// A renewal that was sent in time takes the lock on nodes where another client has had it meanwhile. That client has
/// released it or lost it, so there are not two at a time; but whoever goes on then has not held the lock all the time,
/// and what it read before may be stale.
#[test]
fn a_lease_that_has_ended_is_not_revived_by_a_late_renewal() {
    let flawed = RENEWED_ONCE.with(Flaw::LapsedGoesOn);
    check::breaks::<2>(NO_RETURN, flawed);
}
