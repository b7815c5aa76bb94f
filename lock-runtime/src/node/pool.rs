//! The connections to one server: made in the background, questioned before they carry a request, given up when they no
//! longer answer, and made anew. Nothing else reconnects.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::handshake::{Opened, open};
use super::link::Link;
use super::listening::Listening;
use super::target::Target;
use super::{Limit, NodeError};
use crate::backoff::Backoff;

/// How often a server that refuses is tried. The upper bound is what a restarted server waits at the most before it is
/// used again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// A connection that lived this long was a good one: the next try need not wait.
const LIVED: Duration = Duration::from_secs(1);

/// One connection, or the lack of it.
#[derive(Debug)]
pub(super) struct Slot {
    state: watch::Receiver<State>,
    pub(super) listening: Arc<Listening>,
}

#[derive(Clone, Debug)]
enum State {
    /// Not known yet: it is being connected for the first time, or again after it was good.
    Connecting,
    Ready(Arc<Link>),
    /// The last try failed. Tried again in the background.
    Down(Arc<str>),
}

impl State {
    fn link(&self) -> Option<Arc<Link>> {
        match self {
            Self::Ready(link) => Some(Arc::clone(link)),
            Self::Connecting | Self::Down(_) => None,
        }
    }
}

impl Slot {
    /// A slot, and the work that keeps it connected until the slot is dropped.
    pub(super) fn new(target: Arc<Target>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, state) = watch::channel(State::Connecting);
        let listening = Arc::default();
        let work = keep_connected(target, sender, Arc::clone(&listening));
        (Self { state, listening }, work)
    }

    /// A connection that may be expected to answer. A doubt is waited out, but only once: a server that has been silent
    /// for the time that it is allowed costs nothing more.
    pub(super) async fn trusted(&self, limit: &Limit) -> Result<Arc<Link>, NodeError> {
        let link = self.any(limit).await?;
        let Some(since) = link.doubted_since() else {
            return Ok(link);
        };
        let patience = since
            .checked_add(limit.allowed())
            .unwrap_or(since)
            .min(limit.at());
        let trusted = |state: &State| match state {
            State::Ready(link) => link.doubted_since().is_none(),
            State::Connecting | State::Down(_) => false,
        };
        let mut state = self.state.clone();
        let link = match timeout_at(patience, state.wait_for(trusted)).await {
            Ok(Ok(state)) => state.link(),
            Ok(Err(_)) | Err(_) => None,
        };
        link.ok_or_else(|| {
            NodeError::from("no answer to an earlier request, and none to a probe yet")
        })
    }

    /// A connection, also one that owes an answer: what is sent over it is executed after what was sent before. Waits for
    /// one where it is not known yet whether there will be one.
    pub(super) async fn any(&self, limit: &Limit) -> Result<Arc<Link>, NodeError> {
        let mut known = self.state.borrow().clone();
        if matches!(known, State::Connecting) {
            let mut state = self.state.clone();
            let settled = |state: &State| !matches!(state, State::Connecting);
            known = match timeout_at(limit.at(), state.wait_for(settled)).await {
                Ok(Ok(state)) => state.clone(),
                Ok(Err(_)) => return Err("the lock manager has ended".into()),
                Err(_) => State::Connecting,
            };
        }
        match known {
            State::Ready(link) => Ok(link),
            State::Down(reason) => Err(NodeError::Failed(reason)),
            State::Connecting => Err("not connected yet".into()),
        }
    }
}

async fn keep_connected(
    target: Arc<Target>,
    state: watch::Sender<State>,
    listening: Arc<Listening>,
) {
    let (least, most) = RECONNECT;
    let mut backoff = Backoff::new(least, most);
    let mut in_trouble = false;
    while !state.is_closed() {
        match open(&target, &listening).await {
            Ok(opened) => {
                let since = Instant::now();
                tell_connected(&target, &opened.link, in_trouble);
                serve(&target, opened, &state, &listening).await;
                listening.lost();
                in_trouble = true;
                if since.elapsed() >= LIVED {
                    backoff = Backoff::new(least, most);
                    continue;
                }
            }
            Err(reason) => {
                let changed = !matches!(&*state.borrow(), State::Down(known) if *known == reason);
                if changed {
                    tracing::warn!(node = %target.name, %reason, "lock node cannot be used");
                }
                in_trouble = true;
                state.send_replace(State::Down(reason));
            }
        }
        sleep(backoff.next()).await;
    }
}

/// Whoever was told of the trouble is told of its end, and if that is not the end of it yet.
fn tell_connected(target: &Target, link: &Link, again: bool) {
    let node = &target.name;
    match link.votes() {
        Err(NodeError::Abstains(left)) if again => tracing::warn!(
            %node,
            "lock node is back, and has no vote for another {left:.0?}, as it restarted"
        ),
        _ if again => tracing::info!(%node, "lock node is back"),
        _ => tracing::debug!(%node, "connected"),
    }
}

/// Lends the connection out until it breaks, is given up, or nobody is left who could use it.
async fn serve(
    target: &Target,
    opened: Opened,
    state: &watch::Sender<State>,
    listening: &Listening,
) {
    let Opened {
        link,
        driver,
        abandon,
    } = opened;
    let link = Arc::new(link);
    state.send_replace(State::Ready(Arc::clone(&link)));

    let probe = pin!(link.probe(target.patience(), || {
        state.send_modify(|_| {});
    }));
    // Ends when nobody is left who could use the connection.
    let remind = pin!(link.remind(target));
    let keep_told = pin!(async {
        match &link.hears {
            Ok(()) => listening.keep_told(&*link, &target.name).await,
            // Whoever subscribes without RESP3 can send nothing else any more; and there may be listeners, of the connection before.
            Err(_) => pending().await,
        }
    });
    let closed = pin!(state.closed());
    let unused = select(closed, select(remind, keep_told));
    let reason = match select(select(driver, probe), unused).await {
        Either::Left((Either::Left(_), _)) => "connection closed",
        Either::Left((Either::Right(_), _)) => {
            abandon.abandon();
            "no answer for too long"
        }
        Either::Right(_) => return,
    };
    tracing::warn!(node = %target.name, reason, "lock node lost");
    state.send_replace(State::Connecting);
}
