//! When to ask again for a lock that was busy: when it is released, when its lease ends, and now and then in any case.
//!
//! A release is published by the nodes, and heard by whoever listens to one of them. Listening comes before looking once
//! more who has the lock, so a release between the try that failed and the subscription is not missed. Whatever is missed
//! later (a connection that breaks, a key that is deleted by hand, a user who may not subscribe) is found out by asking.

use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{Backoff, between};
use crate::key::LockKey;
use crate::node::Listener;
use crate::redlock::Redlock;

/// The pause between two tries where nobody tells of releases.
const DEAF_POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// The same where somebody does.
const POLL: (Duration, Duration) = (Duration::from_millis(125), Duration::from_millis(250));

/// How long nobody is asked again to tell, where nobody did: nodes that do not answer take their time.
const DEAF: Duration = Duration::from_secs(1);

/// All who wait hear of a release at once. Whoever has come last leaves them so many milliseconds to be first.
const HEAD_START: u32 = 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct News {
    source: Option<Source>,
    /// When the holder's lease ends, as far as is known.
    expires: Option<Instant>,
    deaf_polls: Backoff,
    deaf_until: Option<Instant>,
    /// It was free when it was looked at last.
    is_free: bool,
}

/// Who tells.
#[derive(Debug)]
struct Source {
    key: LockKey,
    listener: Listener,
    node: usize,
}

impl News {
    pub(super) fn none() -> Self {
        let (least, most) = DEAF_POLL;
        Self {
            source: None,
            expires: None,
            deaf_polls: Backoff::new(least, most),
            deaf_until: None,
            is_free: false,
        }
    }

    /// Finds out what there is to know of a lock that is busy, and sees to it that its release is heard.
    pub(super) async fn ask_about(&mut self, redlock: &Redlock, key: &LockKey) {
        let known = |source: &Source| source.key == *key && !source.listener.is_sent_away();
        let is_known = self.source.as_ref().is_some_and(known);
        let is_deaf = self.deaf_until.is_some_and(|until| Instant::now() < until);
        let is_new = !is_known && !is_deaf;
        if is_new {
            let found = redlock.listen(key).await;
            self.deaf_until = match found {
                Some(_) => None,
                None => Instant::now().checked_add(DEAF),
            };
            self.source = found.map(|(listener, node)| Source {
                key: key.clone(),
                listener,
                node,
            });
        }
        let now = Instant::now();
        let has_expired = self.expires.is_some_and(|expires| expires <= now);
        if let Some(source) = &self.source
            && (is_new || has_expired)
        {
            let holder = redlock.holder(key, source.node).await;
            self.is_free = is_new && holder == Some(None);
            let left = holder.flatten().and_then(|holder| holder.remaining);
            self.expires = left.and_then(|left| now.checked_add(left));
        }
    }

    /// How long the holder's lease lasts, as far as is known.
    pub(super) fn left(&self) -> Option<Duration> {
        let left = self.expires?.checked_duration_since(Instant::now());
        left.filter(|left| !left.is_zero())
    }

    /// When to ask again if nothing is heard.
    pub(super) fn again(&mut self) -> Instant {
        let now = Instant::now();
        if std::mem::take(&mut self.is_free) {
            return now;
        }
        let pause = match self.source {
            Some(_) => between(POLL.0, POLL.1),
            None => self.deaf_polls.next(),
        };
        let poll = now.checked_add(pause).unwrap_or(now);
        match self.expires {
            // A node forgets a key in the millisecond after.
            Some(expires) if now < expires => {
                let gone = expires.checked_add(Duration::from_millis(1));
                poll.min(gone.unwrap_or(expires))
            }
            _ => poll,
        }
    }

    /// Waits for a release. For how long its holder had waited.
    pub(super) async fn heard(&mut self) -> Duration {
        let waited = match &mut self.source {
            Some(source) => source.listener.heard().await,
            None => pending().await,
        };
        // Whoever has it next has it for another time.
        self.expires = None;
        waited
    }
}

/// How long to leave a lock to others that was released, by somebody who had waited for it. Nobody knows how many wait: but
/// who has waited for as long as that one is as likely as not the first of them, and who has waited for a part of it is not.
pub(super) fn leave_to_others(waited: Duration, holder_waited: Duration) -> Duration {
    let behind = holder_waited.saturating_sub(waited);
    let share = behind.as_millis() * u128::from(HEAD_START) / holder_waited.as_millis().max(1);
    Duration::from_millis(u64::try_from(share).unwrap_or(u64::from(HEAD_START)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_longest_goes_first() {
        let leave = |waited, holder_waited| {
            let millis = Duration::from_millis;
            leave_to_others(millis(waited), millis(holder_waited)).as_millis()
        };
        assert_eq!(leave(0, 0), 0);
        assert_eq!(leave(150, 150), 0);
        assert_eq!(leave(9_000, 150), 0);
        assert_eq!(
            [140, 100, 50, 0].map(|waited| leave(waited, 150)),
            [0, 2, 5, 8]
        );
        assert_eq!([9, 6, 3].map(|waited| leave(waited, 12)), [2, 4, 6]);
        let most = leave_to_others(Duration::ZERO, Duration::MAX);
        assert!(most <= Duration::from_millis(8), "{most:?}");
    }
}
