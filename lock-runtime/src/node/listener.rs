//! Who waits to hear of the releases of one lock on one node.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::listening::Listening;

/// Tells of the releases of one lock on one node. Dropping it ends the subscription, in the background; the last one for a
/// lock on a node ends it on the server.
#[derive(Debug)]
pub(crate) struct Listener {
    channel: Arc<str>,
    board: Arc<Board>,
    /// How much of the news was heard.
    heard: u64,
    /// How often others had been sent away before.
    departures: u64,
    listening: Arc<Listening>,
}

/// What there is to hear on a channel.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// How often something happened.
    pub(super) count: u64,
    /// For how long whoever released the lock last had waited for it.
    pub(super) waited: Duration,
    pub(super) standing: Standing,
    /// How often those who listened were sent away.
    departures: u64,
}

/// Whether a release would be heard.
#[derive(Clone, Debug, Default)]
pub(super) enum Standing {
    /// Not known to be subscribed to.
    #[default]
    Sought,
    Subscribed,
    /// In the words of the server.
    Refused(Arc<str>),
}

impl Listener {
    /// One that is counted, and will be counted off.
    pub(super) fn new(channel: Arc<str>, board: Arc<Board>, listening: Arc<Listening>) -> Self {
        let (heard, departures) = {
            let news = board.news();
            (news.count, news.departures)
        };
        Self {
            channel,
            board,
            heard,
            departures,
            listening,
        }
    }

    /// Whether it is better to listen anew: releases are published elsewhere now.
    pub(crate) fn is_sent_away(&self) -> bool {
        self.board.news().departures != self.departures
    }

    /// Waits until it is worth looking again: the lock was released on the node since the last call (or since `listen`
    /// answered), or the connection broke or was made again, so that a release may have been missed. Cancel-safe. Several
    /// wakes may be one.
    ///
    /// For how long whoever released it had waited for it, as far as is known.
    pub(crate) async fn heard(&mut self) -> Duration {
        let known = self.heard;
        let differs = |news: &News| (news.count != known).then_some((news.count, news.waited));
        let (count, waited) = self.board.wait_for(differs).await;
        self.heard = count;
        waited
    }

    /// Waits until the server has confirmed the subscription, and forgets what was heard before; or until the server has
    /// refused it: why.
    pub(crate) async fn subscribed(&mut self) -> Result<(), Arc<str>> {
        let settled = |news: &News| match &news.standing {
            Standing::Sought => None,
            Standing::Subscribed => Some(Ok(news.count)),
            Standing::Refused(reason) => Some(Err(Arc::clone(reason))),
        };
        self.heard = self.board.wait_for(settled).await?;
        Ok(())
    }
}

/// Where news are put up. Those who wait are woken in the order in which they began to: a simulation can repeat it, which it
/// could not with tokio's `watch`.
#[derive(Debug, Default)]
pub(super) struct Board {
    news: Mutex<News>,
    changed: Notify,
}

impl Board {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes nobody yet.
    pub(super) fn set(&self, standing: Standing) {
        self.news().standing = standing;
    }

    /// Something happened: wakes everybody.
    pub(super) fn wake(&self, waited: Duration) {
        {
            let mut news = self.news();
            news.count = news.count.wrapping_add(1);
            news.waited = waited;
        }
        self.changed.notify_waiters();
    }

    /// Wakes everybody, to listen elsewhere.
    pub(super) fn send_away(&self) {
        {
            let mut news = self.news();
            news.departures = news.departures.wrapping_add(1);
        }
        self.wake(Duration::ZERO);
    }

    async fn wait_for<T>(&self, seen: impl Fn(&News) -> Option<T>) -> T {
        loop {
            // Listening comes before looking, or what happens between the two would be missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let found = seen(&self.news());
            if let Some(found) = found {
                return found;
            }
            changed.await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listening.leave(&self.channel);
    }
}
