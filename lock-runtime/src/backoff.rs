//! How long to pause between tries.
//!
//! Decorrelated jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): each pause is drawn
//! between the least one and three times the last, so that many who started together soon ask at different times.

use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    last: Duration,
}

impl Backoff {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            last: least,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let bound = self.last.saturating_mul(3).min(self.most);
        self.last = between(self.least, bound);
        self.last
    }
}

/// A random duration from `least` to `most`.
pub(crate) fn between(least: Duration, most: Duration) -> Duration {
    // Without randomness the pause is the longest one: contenders then meet again, and the nodes' order still decides.
    let share = draw().unwrap_or(u32::MAX);
    let span = most.saturating_sub(least).as_nanos();
    let drawn = span / u128::from(u32::MAX) * u128::from(share)
        + span % u128::from(u32::MAX) * u128::from(share) / u128::from(u32::MAX);
    least.saturating_add(Duration::from_nanos(
        u64::try_from(drawn).unwrap_or(u64::MAX),
    ))
}

fn draw() -> Option<u32> {
    #[cfg(test)]
    if let Some(drawn) = seeded::draw() {
        return Some(drawn);
    }
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).ok()?;
    Some(u32::from_le_bytes(random))
}

#[cfg(test)]
pub(crate) use seeded::seeded;

/// Pauses that a simulation can repeat.
#[cfg(test)]
mod seeded {
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Pauses on this thread are drawn from a seed, until dropped.
    #[derive(Debug)]
    pub(crate) struct Seeded;

    pub(crate) fn seeded(seed: u64) -> Seeded {
        STATE.set(Some(seed));
        Seeded
    }

    impl Drop for Seeded {
        fn drop(&mut self) {
            STATE.set(None);
        }
    }

    /// Knuth's linear congruential generator; its upper half is the better one.
    pub(super) fn draw() -> Option<u32> {
        let state = STATE.get()?;
        let next = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        STATE.set(Some(next));
        u32::try_from(next >> 32).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(5);
    const MOST: Duration = Duration::from_millis(250);

    #[test]
    fn pauses_stay_in_bounds_and_grow_up_to_the_most() {
        let mut backoff = Backoff::new(LEAST, MOST);
        let pauses: Vec<_> = (0..2_000).map(|_| backoff.next()).collect();
        assert!(pauses.iter().all(|pause| (LEAST..=MOST).contains(pause)));
        assert!(pauses[0] <= LEAST * 3);
        assert!(pauses.iter().any(|pause| *pause > MOST / 2));
    }

    #[test]
    fn two_waiters_do_not_keep_step() {
        let mut one = Backoff::new(LEAST, MOST);
        let mut other = Backoff::new(LEAST, MOST);
        let together = (0..100).filter(|_| one.next() == other.next()).count();
        assert!(together < 10, "{together}");
    }

    #[test]
    fn no_bounds_panic() {
        for (least, most) in [
            (Duration::ZERO, Duration::ZERO),
            (MOST, LEAST),
            (Duration::MAX, Duration::MAX),
            (Duration::ZERO, Duration::MAX),
        ] {
            let mut backoff = Backoff::new(least, most);
            for _ in 0..20 {
                backoff.next();
            }
        }
    }
}
