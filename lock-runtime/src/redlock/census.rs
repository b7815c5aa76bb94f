//! What is under way, and whether more may begin: what an orderly end has to know.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Census {
    /// Attempts and what they took, until it is given back.
    pub(crate) claims: Gauge,
    /// What is given back, until all nodes know.
    pub(crate) releases: Gauge,
    /// Without permits: whoever waits for one learns that it was closed.
    refusing: Semaphore,
    stopped: AtomicBool,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            claims: Gauge::default(),
            releases: Gauge::default(),
            refusing: Semaphore::new(0),
            stopped: AtomicBool::new(false),
        }
    }
}

impl Census {
    pub(super) fn refuse(&self) {
        self.refusing.close();
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refusing.is_closed()
    }

    /// Waits until nothing more is taken.
    pub(crate) async fn refused(&self) {
        // There is no other answer than that it was closed.
        let _ = self.refusing.acquire().await;
    }

    /// From now on nothing is held any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// How many there are.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    count: AtomicUsize,
    none: Notify,
}

impl Gauge {
    pub(crate) fn enter(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.none.notify_waiters();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there are none.
    pub(crate) async fn none(&self) {
        loop {
            // Listening comes before looking, or the last one could leave between the two.
            let mut none = std::pin::pin!(self.none.notified());
            none.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_gauge_tells_when_the_last_one_has_left() {
        let gauge = Gauge::default();
        gauge.enter();
        gauge.enter();
        let mut none = Box::pin(gauge.none());
        assert!((&mut none).now_or_never().is_none());
        gauge.leave();
        assert!((&mut none).now_or_never().is_none(), "one is left");
        gauge.leave();
        assert_eq!(none.now_or_never(), Some(()));
    }

    #[test]
    fn refusing_is_told_to_those_who_wait_and_to_those_who_ask() {
        let census = Census::default();
        let mut refused = Box::pin(census.refused());
        assert!((&mut refused).now_or_never().is_none());
        assert!(!census.refuses());
        census.refuse();
        assert!(census.refuses());
        assert_eq!(refused.now_or_never(), Some(()));
    }
}
