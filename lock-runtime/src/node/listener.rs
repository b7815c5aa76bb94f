//! Who waits to hear of the releases of one lock on one node.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::listening::Listening;

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

/// What there is to hear on a channel.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// How often something happened.
    pub(super) count: u64,
    /// For how long whoever released the lock last had waited for it.
    pub(super) waited: Duration,
    pub(super) standing: Standing,
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
    pub(super) fn new(
        channel: Arc<str>,
        news: watch::Receiver<News>,
        listening: Arc<Listening>,
    ) -> Self {
        let heard = news.borrow().count;
        Self {
            channel,
            news,
            heard,
            listening,
        }
    }

    /// Waits until it is worth looking again: the lock was released on the node since the last call (or since `listen`
    /// answered), or the connection broke or was made again, so that a release may have been missed. Cancel-safe. Several
    /// wakes may be one.
    ///
    /// For how long whoever released it had waited for it, as far as is known.
    pub(crate) async fn heard(&mut self) -> Duration {
        let known = self.heard;
        let news = self.news.wait_for(|news| news.count != known).await;
        match news.map(|news| (news.count, news.waited)) {
            Ok((count, waited)) => {
                self.heard = count;
                waited
            }
            // The channel is kept for as long as somebody listens to it.
            Err(_) => pending().await,
        }
    }

    /// Waits until the server has confirmed the subscription, and forgets what was heard before; or until the server has
    /// refused it: why.
    pub(crate) async fn subscribed(&mut self) -> Result<(), Arc<str>> {
        let settled = |news: &News| !matches!(news.standing, Standing::Sought);
        let news = self.news.wait_for(settled).await;
        match news.map(|news| news.clone()) {
            Ok(News {
                standing: Standing::Refused(reason),
                ..
            }) => Err(reason),
            Ok(news) => {
                self.heard = news.count;
                Ok(())
            }
            Err(_) => pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listening.leave(&self.channel);
    }
}
