//! For how long a lock may be believed. Pure arithmetic, after the Redlock description
//! (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>): a holder counts from the moment before
//! it sent its first byte, and leaves out what the clocks of client and servers may drift apart meanwhile.

use std::time::{Duration, Instant};

/// What is left out for clocks that run at different speeds, and for the millisecond in which a node rounds.
pub(crate) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// How long a lease is good for, from the moment its request was sent. `None`: the TTL is eaten up by the drift.
pub(crate) fn usable(ttl: Duration) -> Option<Duration> {
    ttl.checked_sub(drift(ttl))
        .filter(|usable| !usable.is_zero())
}

/// The moment from which a lease whose request was sent at `sent` must not be believed any more.
pub(crate) fn deadline(sent: Instant, ttl: Duration) -> Option<Instant> {
    sent.checked_add(usable(ttl)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_a_hundredth_and_two_milliseconds() {
        assert_eq!(drift(Duration::ZERO), Duration::from_millis(2));
        assert_eq!(drift(Duration::from_secs(8)), Duration::from_millis(82));
        assert!(drift(Duration::MAX) < Duration::MAX);
    }

    #[test]
    fn a_ttl_below_its_drift_is_worth_nothing() {
        for micros in [0, 1, 1_000, 2_000, 2_020] {
            assert_eq!(usable(Duration::from_micros(micros)), None, "{micros} µs");
        }
        assert_eq!(
            usable(Duration::from_millis(100)),
            Some(Duration::from_millis(97))
        );
    }

    #[test]
    fn no_ttl_overflows() {
        let now = Instant::now();
        assert_eq!(deadline(now, Duration::MAX), None);
        assert_eq!(deadline(now, Duration::ZERO), None);
        assert_eq!(
            deadline(now, Duration::from_secs(1)),
            Some(now + Duration::from_millis(988))
        );
    }
}
