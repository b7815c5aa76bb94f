//! Who waits to hear of releases: by channel, counted, with nothing left for a channel that nobody listens to.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Tells of the releases of one lock on one node. Dropping it ends the subscription, in the background; the last one for a
/// lock on a node ends it on the server.
#[derive(Debug)]
pub(crate) struct Listener {
    channel: Arc<str>,
    news: watch::Receiver<News>,
    /// How much of the news was heard.
    heard: u64,
    listening: Arc<Listening>,
}

impl Listener {
    /// Waits until it is worth looking again: the lock was released on the node since the last call (or since `listen`
    /// answered), or the connection broke or was made again, so that a release may have been missed. Cancel-safe. Several
    /// wakes may be one.
    pub(crate) async fn heard(&mut self) {
        let known = self.heard;
        let news = self.news.wait_for(|news| news.count != known).await;
        match news.map(|news| news.count) {
            Ok(count) => self.heard = count,
            // The channel is kept for as long as somebody listens to it.
            Err(_) => pending().await,
        }
    }

    /// Forgets what was heard so far.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing waits with it yet"))]
    pub(crate) fn forget(&mut self) {
        self.heard = self.news.borrow().count;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listening.leave(&self.channel);
    }
}

/// What there is to hear on a channel: how often something happened since somebody listens.
#[derive(Debug, Default)]
struct News {
    count: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Listening {
    channels: Mutex<HashMap<Arc<str>, Channel>>,
}

#[derive(Debug, Default)]
struct Channel {
    listeners: u64,
    news: watch::Sender<News>,
}

impl Listening {
    pub(super) fn join(self: &Arc<Self>, name: &Arc<str>) -> Listener {
        let mut channels = self.channels();
        let channel = channels.entry(Arc::clone(name)).or_default();
        channel.listeners += 1;
        let news = channel.news.subscribe();
        let heard = news.borrow().count;
        Listener {
            channel: Arc::clone(name),
            news,
            heard,
            listening: Arc::clone(self),
        }
    }

    fn leave(&self, name: &str) {
        let mut channels = self.channels();
        if let Some(channel) = channels.get_mut(name) {
            channel.listeners -= 1;
            if channel.listeners == 0 {
                channels.remove(name);
            }
        }
    }

    /// Wakes who listens to the channel. Answers how many do.
    pub(super) fn tell(&self, name: &str) -> u64 {
        self.channels().get(name).map_or(0, |channel| {
            channel.tell();
            channel.listeners
        })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.channels().is_empty()
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    fn tell(&self) {
        self.news
            .send_modify(|news| news.count = news.count.wrapping_add(1));
    }
}
