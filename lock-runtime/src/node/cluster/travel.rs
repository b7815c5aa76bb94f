//! The way of one request through a cluster: to the owner of its key's slot, and wherever that one sends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::topology::Redirect;
use super::{Cluster, Known, Member};
use crate::backoff::Backoff;
use crate::node::address::Address;
use crate::node::connections::{Via, of_key};
use crate::node::link::Link;
use crate::node::{Limit, NodeError, sibling};

/// How often a request is sent on at the most. While a slot moves it is twice; more means that servers do not agree.
const MOST_REDIRECTS: u32 = 6;

/// Before a request is sent again to servers that have to do something first, or do not agree.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

/// See the [module](self).
pub(in crate::node) struct Travel<'a> {
    cluster: &'a Arc<Cluster>,
    key: &'a str,
    slot: u16,
    /// Not by the map.
    sent_to: Option<(Arc<Member>, Errand)>,
    /// Whom it was sent to last.
    asked: Option<Address>,
    redirects: u32,
    pauses: Backoff,
}

/// What a request has to do with a server that another one sent it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    /// The server has the slot.
    Owner,
    /// It will have it, and has the key, or would if there were one.
    Next,
}

impl<'a> Travel<'a> {
    pub(super) fn new(cluster: &'a Arc<Cluster>, key: &'a str) -> Self {
        let (least, most) = PAUSE;
        Self {
            cluster,
            key,
            slot: sibling::slot(key),
            sent_to: None,
            asked: None,
            redirects: 0,
            pauses: Backoff::new(least, most),
        }
    }

    pub(in crate::node) async fn trusted(&mut self, limit: &Limit) -> Result<Via, NodeError> {
        loop {
            let (member, errand) = self.next(limit).await?;
            match of_key(&member.slots, self.key).trusted(limit).await {
                Ok(link) => return Ok(Self::via(&member, errand, self.key, link)),
                Err(error) => self.replaced(&member, errand, error, limit).await?,
            }
        }
    }

    pub(in crate::node) async fn any(&mut self, limit: &Limit) -> Result<Via, NodeError> {
        loop {
            let (member, errand) = self.next(limit).await?;
            match of_key(&member.slots, self.key).any(limit).await {
                Ok(link) => return Ok(Self::via(&member, errand, self.key, link)),
                Err(error) => self.replaced(&member, errand, error, limit).await?,
            }
        }
    }

    /// A server cannot be asked: waits until another one has its slot.
    ///
    /// # Errors
    ///
    /// None has in time. Why it cannot be asked, for whoever knows the cluster by other addresses.
    async fn replaced(
        &self,
        member: &Arc<Member>,
        errand: Errand,
        error: NodeError,
        limit: &Limit,
    ) -> Result<(), NodeError> {
        self.cluster.trouble.notify_one();
        if errand == Errand::Owner {
            let mut known = self.cluster.known.subscribe();
            let is_another = |known: &Known| {
                let owner = known.map.as_ref().and_then(|map| map.owner(self.slot));
                owner.is_some_and(|owner| !Arc::ptr_eq(owner, member))
            };
            if let Ok(Ok(_)) = timeout_at(limit.at(), known.wait_for(is_another)).await {
                return Ok(());
            }
        }
        Err(match error {
            NodeError::Failed(failure, reason) => {
                let address = &member.address;
                let reason = format!("{address}, as the cluster announces it: {reason}");
                NodeError::Failed(failure, reason.into())
            }
            NodeError::Abstains(left) => NodeError::Abstains(left),
        })
    }

    fn via(member: &Member, errand: Errand, key: &str, link: Arc<Link>) -> Via {
        let via = Via::to(of_key(&member.slots, key), link);
        match errand {
            Errand::Owner => via,
            Errand::Next => via.asking(),
        }
    }

    /// Whom to ask now.
    async fn next(&mut self, limit: &Limit) -> Result<(Arc<Member>, Errand), NodeError> {
        let next = match self.sent_to.take() {
            Some(sent_to) => sent_to,
            None => (self.owner(limit).await?, Errand::Owner),
        };
        self.asked = Some(next.0.address.clone());
        Ok(next)
    }

    async fn owner(&self, limit: &Limit) -> Result<Arc<Member>, NodeError> {
        let map = self.cluster.map(limit).await?;
        if let Some(owner) = map.owner(self.slot) {
            return Ok(Arc::clone(owner));
        }
        self.cluster.trouble.notify_one();
        let reason = format!("no server of the cluster has slot {}", self.slot);
        Err(Arc::<str>::from(reason).into())
    }

    /// Takes the server at its word, if it has sent the request on.
    pub(in crate::node) async fn leads_on(&mut self, error: &NodeError, limit: &Limit) -> bool {
        let (NodeError::Failed(_, words), Some(asked)) = (error, &self.asked) else {
            return false;
        };
        let Some(redirect) = Redirect::read(words, asked) else {
            if words.starts_with("CLUSTERDOWN") {
                self.cluster.trouble.notify_one();
            }
            return false;
        };
        let to = match &redirect {
            Redirect::TryAgain => None,
            Redirect::Moved(address) => self.cluster.moved(address, self.slot),
            Redirect::Ask(address) => self.cluster.sent_on(address, self.slot),
        };
        let errand = match redirect {
            Redirect::Ask(_) => Errand::Next,
            Redirect::Moved(_) | Redirect::TryAgain => Errand::Owner,
        };
        if redirect == Redirect::TryAgain {
            self.redirects = 0;
            return self.pause(limit).await;
        }
        let Some(to) = to else { return false };
        self.redirects += 1;
        self.sent_to = Some((to, errand));
        match self.redirects {
            MOST_REDIRECTS.. => false,
            // A slot that moves right now: they will agree in a moment.
            3.. => self.pause(limit).await,
            _ => !limit.is_over(),
        }
    }

    /// False: there would be too little time left for an answer.
    async fn pause(&mut self, limit: &Limit) -> bool {
        let pause = self.pauses.next();
        let for_an_answer = limit.allowed() / 4;
        let until = Instant::now().checked_add(pause.saturating_add(for_an_answer));
        if until.is_none_or(|until| until >= limit.at()) || limit.is_over() {
            return false;
        }
        sleep(pause).await;
        true
    }
}
