//! What a manager counts for whoever asks it: see [`LockManager::stats`](crate::LockManager::stats).

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What a manager has counted since it was built. Each number only grows.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)+
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    /// Locks that were acquired; several keys taken together count once.
    acquired,
    /// Of these, those that were handed over by another task of this process, without asking the nodes.
    handed_over,
    /// Calls that ended because somebody else held the lock.
    busy,
    /// Calls that ended because too few nodes answered.
    no_quorum,
    /// Split votes that were settled, or were tried to be: nobody had a majority at first.
    split_votes,
    /// Leases that ran out while their body was running.
    lost,
    /// Leases that a shutdown ended, because it had waited long enough.
    stopped,
    /// Releases that were not confirmed by a majority, or came too late.
    releases_unconfirmed,
    /// Releases of single nodes that were given up, because too many waited or the TTL had ended them.
    releases_abandoned,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
