//! The connections to one server: made in the background, questioned before they carry a request, given up when they no
//! longer answer, and made anew. Nothing else reconnects.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::address::Address;
use super::handshake::{Opened, There, open};
use super::life::Met;
use super::link::Link;
use super::listening::Listening;
use super::sentinel::{Group, Said};
use super::target::{Place, Target};
use super::told::Told;
use super::trouble::Trouble;
use super::{Limit, NodeError};
use crate::backoff::Backoff;
use crate::telemetry::NodeState;

/// How often a server that refuses is tried. The upper bound is what a restarted server waits at the most before it is
/// used again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// A connection that lived this long was a good one: the next try need not wait.
const LIVED: Duration = Duration::from_secs(1);

/// One connection, or the lack of it.
#[derive(Debug)]
pub(super) struct Slot {
    state: watch::Receiver<State>,
    /// Who says which server it is connected to, if anybody has to.
    pub(super) group: Option<Group>,
    pub(super) listening: Arc<Listening>,
}

#[derive(Clone, Debug)]
enum State {
    /// Not known yet: it is being connected for the first time, or again after it was good.
    Connecting,
    Ready(Arc<Link>),
    /// The last try failed. Tried again in the background.
    Down(Trouble),
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
    /// A slot, and the work that keeps it connected until the slot is dropped. `group`: who says which server it is to be
    /// connected to, where the target is one.
    pub(super) fn of(
        target: Arc<Target>,
        group: Option<Group>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, state) = watch::channel(State::Connecting);
        let listening = Arc::default();
        let work = keep_connected(target, group.clone(), sender, Arc::clone(&listening));
        let slot = Self {
            state,
            group,
            listening,
        };
        (slot, work)
    }

    /// Whether there is a connection that is not in doubt.
    pub(super) fn is_ready(&self) -> bool {
        self.stands().up
    }

    /// How the server stands, as far as is known here.
    pub(super) fn stands(&self) -> NodeState {
        let link = self.state.borrow().link();
        let ready = link.filter(|link| link.doubted_since().is_none());
        NodeState {
            up: ready.is_some(),
            votes: ready.is_some_and(|link| link.votes().is_ok()),
        }
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
            NodeError::silent("no answer to an earlier request, and none to a probe yet")
        })
    }

    /// A connection, also one that owes an answer: what is sent over it is executed after what was sent before. Waits for
    /// one where it is not known yet whether there will be one.
    pub(super) async fn any(&self, limit: &Limit) -> Result<Arc<Link>, NodeError> {
        let link = self.known(limit).await;
        link.map_err(|trouble| match trouble.unfit {
            Some(_) => trouble.reason.into(),
            None => NodeError::unreachable(trouble.reason),
        })
    }

    /// The same, or what stands in the way of it.
    pub(super) async fn known(&self, limit: &Limit) -> Result<Arc<Link>, Trouble> {
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
            State::Down(trouble) => Err(trouble),
            State::Connecting => Err("not connected yet".into()),
        }
    }
}

async fn keep_connected(
    target: Arc<Target>,
    group: Option<Group>,
    state: watch::Sender<State>,
    listening: Arc<Listening>,
) {
    let (least, most) = RECONNECT;
    let mut backoff = Backoff::new(least, most);
    let mut in_trouble = false;
    let mut met = Met::default();
    let mut told = Told::default();
    while !state.is_closed() {
        let way = match Way::find(&target, group.as_ref()).await {
            Ok(way) => way,
            Err(trouble) => {
                tell_down(&target, &state, &mut told, trouble);
                in_trouble = true;
                sleep(backoff.next()).await;
                continue;
            }
        };
        match way.open(&target, &mut met, &mut told, &listening).await {
            Ok(opened) => {
                let since = Instant::now();
                // Of one that comes and goes it is told once it stays.
                let at_once = !in_trouble || told.is_news(BACK);
                if at_once {
                    way.tell_connected(&target, &opened.link, in_trouble);
                }
                let lost = serve(&target, &way, opened, &state, &listening, !at_once).await;
                listening.lost();
                if since.elapsed() >= LIVED {
                    told.is_well();
                }
                if let Some(reason) = lost
                    && told.is_news(reason)
                {
                    tracing::warn!(node = %target.name, reason, "lock node lost");
                }
                in_trouble = true;
                tell_others(&target);
                if since.elapsed() >= LIVED {
                    backoff = Backoff::new(least, most);
                    continue;
                }
            }
            Err(trouble) => {
                tell_down(&target, &state, &mut told, trouble);
                in_trouble = true;
                tell_others(&target);
            }
        }
        way.seek();
        select(pin!(sleep(backoff.next())), pin!(way.moved())).await;
    }
}

/// Whoever knows more servers may find another one in the place of this.
fn tell_others(target: &Target) {
    if let Some(member) = &target.member {
        member.trouble.notify_one();
    }
}

fn tell_down(target: &Target, state: &watch::Sender<State>, told: &mut Told, trouble: Trouble) {
    let changed = !matches!(&*state.borrow(), State::Down(known) if *known == trouble);
    if changed && told.is_news(&trouble.reason) {
        tracing::warn!(node = %target.name, reason = %trouble, "lock node cannot be used");
    }
    state.send_replace(State::Down(trouble));
}

/// Where a connection leads.
enum Way<'a> {
    Straight(&'a Address),
    /// To where the sentinels say that the primary is.
    Named(&'a Group, Said),
}

impl<'a> Way<'a> {
    async fn find(target: &'a Target, group: Option<&'a Group>) -> Result<Self, Trouble> {
        match (&target.place, group) {
            (Place::Server(address), _) => Ok(Self::Straight(address)),
            (Place::Cluster(_), _) => Err("a cluster is reached server by server".into()),
            (Place::Sentinels(_), None) => Err("nobody asks its sentinels".into()),
            (Place::Sentinels(_), Some(group)) => {
                group.seek();
                let said = group.primary(target.patience()).await?;
                Ok(Self::Named(group, said))
            }
        }
    }

    fn address(&self) -> &Address {
        match self {
            Self::Straight(address) => address,
            Self::Named(_, said) => &said.primary,
        }
    }

    async fn open(
        &self,
        target: &Target,
        met: &mut Met,
        told: &mut Told,
        listening: &Arc<Listening>,
    ) -> Result<Opened, Trouble> {
        let mandate = match self {
            Self::Straight(_) => None,
            Self::Named(group, said) => group.mandate(said),
        };
        let address = self.address();
        let there = There {
            address,
            mandate,
            met,
            told,
        };
        let opened = pin!(open(target, there, listening));
        match select(opened, pin!(self.moved())).await {
            Either::Left((opened, _)) => opened.map_err(|trouble| match self {
                Self::Straight(_) => trouble,
                Self::Named(..) => trouble.of_primary(address),
            }),
            Either::Right(_) => Err(MOVED.into()),
        }
    }

    /// Returns when another server is to be used.
    async fn moved(&self) {
        match self {
            Self::Straight(_) => pending().await,
            Self::Named(group, said) => group.moved_from(said).await,
        }
    }

    /// There is no connection.
    fn seek(&self) {
        if let Self::Named(group, _) = self {
            group.seek();
        }
    }

    /// Whoever was told of the trouble is told of its end, and if that is not the end of it yet.
    fn tell_connected(&self, target: &Target, link: &Link, again: bool) {
        let (node, server) = (&target.name, self.address());
        match link.votes() {
            Err(NodeError::Abstains(left)) if again => tracing::warn!(
                %node,
                %server,
                "lock node is back, and has no vote for another {left:.0?}, as it restarted or was promoted"
            ),
            _ if again => tracing::info!(%node, %server, "lock node is back"),
            _ => tracing::debug!(%node, %server, "connected"),
        }
    }
}

/// What is told where a node is back, among the other things that are told of it.
const BACK: &str = "lock node is back";

/// Why a connection is given up that works.
const MOVED: &str = "its sentinels name another primary";

/// Lends the connection out until it breaks or is given up: why, or until nobody is left who could use it. `late`: that it is back
/// is to be told once it has stayed for a while.
async fn serve(
    target: &Target,
    way: &Way<'_>,
    opened: Opened,
    state: &watch::Sender<State>,
    listening: &Listening,
    late: bool,
) -> Option<&'static str> {
    let Opened {
        link,
        driver,
        abandon,
    } = opened;
    let link = Arc::new(link);
    state.send_replace(State::Ready(Arc::clone(&link)));

    let useless = pin!(link.probe(target, || state.send_modify(|_| {})));
    let demoted = pin!(async {
        link.demoted().await;
        "it is a replica now"
    });
    let moved = pin!(async {
        way.moved().await;
        MOVED
    });
    let unfit = pin!(async { select(demoted, moved).await.factor_first().0 });
    // Ends when nobody is left who could use the connection.
    let remind = pin!(link.remind(target));
    let ask_replicas = pin!(link.keep_asking_replicas(target));
    let keep_told = pin!(async {
        match &link.hears {
            Ok(()) => listening.keep_told(&*link, &target.name).await,
            // Whoever subscribes without RESP3 can send nothing else any more; and there may be listeners, of the connection before.
            Err(_) => pending().await,
        }
    });
    let tell = pin!(async {
        if late {
            sleep(LIVED).await;
            way.tell_connected(target, &link, true);
        }
        pending::<()>().await;
    });
    let closed = pin!(state.closed());
    let besides = select(tell, select(keep_told, ask_replicas));
    let unused = select(closed, select(remind, besides));
    let given_up = select(useless, unfit);
    let reason = match select(select(driver, given_up), unused).await {
        Either::Left((Either::Left(_), _)) => "connection closed",
        Either::Left((Either::Right((reason, _)), _)) => {
            abandon.abandon();
            reason.factor_first().0
        }
        Either::Right(_) => return None,
    };
    state.send_replace(State::Connecting);
    Some(reason)
}
