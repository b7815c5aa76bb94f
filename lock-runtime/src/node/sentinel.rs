//! Which server of a group is its primary, as the group's sentinels say.
//!
//! One watcher for each node asks all of them, each over a connection of its own: once a second, and more often while a
//! connection to the primary is sought. What they say is [weighed](weigh): the newest configuration wins. A connection is
//! made to that server and to no other, and given up when they name another one.
//!
//! # What keeps two holders apart
//!
//! A group is one voter with several servers, so its old and its new primary may both vote: a client that is cut off together
//! with the old one goes on with it. Replication does not help, as it does not wait. So, where there is a quorum to protect
//! (two nodes and more), two things are asked.
//!
//! 1. A vote counts only if within the last five seconds ([`BELIEVED`]) a majority of the sentinels was asked and named this
//!    server in this configuration ([`Mandate`]). The look at it comes after the moment from which the lease counts, so a
//!    lease is over at the latest `BELIEVED + max_ttl` after that majority was asked.
//! 2. The new primary has no vote for `max_ttl + BELIEVED` (and a second, for clocks that run at different speeds) from when
//!    a client first was connected to it after a majority had named it, or until some client has waited that long and left
//!    a mark: see [`life`](super::life).
//!
//! Two majorities share a sentinel. A sentinel's configuration only ever becomes a newer one, so it named the old primary to the
//! one client before it named the new one to the other. Hence every lease that the old primary voted for is over by the time
//! that the new one votes. The moments are each client's own, and no two clocks are compared.
//!
//! It needs: the same sentinels in the configuration of all clients, each by a name of its own; the same `max_ttl`; sentinels
//! that keep their configuration file; and that nobody has a group begin anew at another server (`SENTINEL REMOVE`, `SENTINEL
//! MONITOR`) without waiting for as long. Where a sentinel knows of more sentinels than are configured, a majority is one of all of
//! them: one name may lead to any of several, and is one sentinel to us.
//!
//! With one node there is nothing to protect: the switch is followed at once, on the word of any sentinel that knows of a
//! newer configuration than the others, and where none answers the connection that is there is kept. What was not replicated
//! is lost then. `replicas` (see [`barrier`](super::barrier)) has locks replicated before they count.
//!
//! Sentinels that are not configured are not learned from the others: clients that had learned different ones would count
//! majorities of different sets.

mod ask;
mod weigh;

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join_all, select};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::target::Target;
use super::trouble::{DownCause, Trouble};
use crate::backoff::Backoff;

pub(super) use weigh::Said;

use weigh::{BELIEVED, Belief, Sentinel, majority, votes, weigh};

/// How much longer than the longest lease a new primary has no vote.
pub(super) const OLD_PRIMARY_VOTES: Duration = BELIEVED;

/// How often sentinels are asked.
const ONCE: Duration = Duration::from_secs(1);

/// The same while the primary is sought. A sentinel can take this from many clients: it answers from its memory.
const SOUGHT: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(200));

/// Nobody seeks for longer than this without asking for it again.
const SEEKING: Duration = Duration::from_secs(1);

/// A group, for whoever needs its primary.
#[derive(Clone, Debug)]
pub(super) struct Group {
    belief: watch::Receiver<Belief>,
    /// When somebody sought the primary last.
    sought: Arc<watch::Sender<Option<Instant>>>,
    sentinels: usize,
    must_be_confirmed: bool,
}

impl Group {
    /// Where the target is the primary of a group: the group, and the work that asks its sentinels for as long as there is
    /// somebody who needs it.
    pub(super) fn of(
        target: &Arc<Target>,
    ) -> Option<(Self, impl Future<Output = ()> + Send + use<>)> {
        let sentinels = target.sentinels()?.hosts.len();
        let (sender, belief) = watch::channel(Belief::Nothing);
        let sought = Arc::new(watch::Sender::new(None));
        let watcher = Watcher {
            target: Arc::clone(target),
            belief: sender,
            sought: Arc::clone(&sought),
            table: Mutex::new(Table {
                sentinels: vec![Sentinel::default(); sentinels],
                known: None,
            }),
        };
        let group = Self {
            belief,
            sought,
            sentinels,
            must_be_confirmed: target.max_ttl.is_some(),
        };
        Some((group, watcher.run()))
    }

    /// The primary, once it is known. Where there is a quorum to protect, a majority must name it.
    ///
    /// # Errors
    ///
    /// In words for an operator, after `patience`.
    pub(super) async fn primary(&self, patience: Duration) -> Result<Said, Trouble> {
        let mut belief = self.belief.clone();
        let usable = |belief: &Belief| self.usable(belief).is_ok();
        if let Ok(Err(_)) = timeout(patience, belief.wait_for(usable)).await {
            return Err("the lock manager has ended".into());
        }
        self.usable(&self.belief.borrow()).cloned()
    }

    fn usable<'a>(&self, belief: &'a Belief) -> Result<&'a Said, Trouble> {
        match belief {
            Belief::Nothing => Err(not_yet()),
            Belief::Trouble(trouble) => Err(trouble.clone()),
            Belief::In {
                said,
                asked,
                sentinels,
            } => {
                if self.must_be_confirmed {
                    self.confirmed(said, asked, *sentinels)?;
                }
                Ok(said)
            }
        }
    }

    /// How many sentinels there are, as they say.
    pub(super) fn known(&self) -> Option<usize> {
        match &*self.belief.borrow() {
            Belief::In { sentinels, .. } => Some(*sentinels),
            Belief::Nothing | Belief::Trouble(_) => None,
        }
    }

    /// How many are configured.
    pub(super) fn sentinels(&self) -> usize {
        self.sentinels
    }

    fn confirmed(&self, said: &Said, asked: &[Instant], of: usize) -> Result<(), Trouble> {
        let votes = votes(asked, Instant::now());
        let needed = majority(of);
        if votes >= needed {
            return Ok(());
        }
        let primary = &said.primary;
        let configured = match self.sentinels {
            1 if of > 1 => ", and 1 is configured".to_owned(),
            configured if configured < of => format!(", and {configured} are configured"),
            _ => String::new(),
        };
        let confirm = if votes == 1 { "confirms" } else { "confirm" };
        Err(DownCause::Sentinels.because(format!(
            "{votes} of {of} sentinels {confirm} that {primary} is the primary, where {needed} must{configured}"
        )))
    }

    /// Has the sentinels asked more often for a while: there is no connection to the primary.
    pub(super) fn seek(&self) {
        self.sought.send_replace(Some(Instant::now()));
    }

    /// Waits until another server or a newer configuration is named than this one. Cancel-safe.
    pub(super) async fn moved_from(&self, old: &Said) {
        let mut belief = self.belief.clone();
        let moved = |belief: &Belief| matches!(belief, Belief::In { said, .. } if said != old);
        if belief.wait_for(moved).await.is_err() {
            pending::<()>().await;
        }
    }

    /// For a connection to a primary whose votes have to be confirmed.
    pub(super) fn mandate(&self, said: &Said) -> Option<Mandate> {
        self.must_be_confirmed.then(|| Mandate {
            group: self.clone(),
            said: said.clone(),
        })
    }
}

/// Of a server to vote as the primary of its group.
#[derive(Debug)]
pub(super) struct Mandate {
    group: Group,
    said: Said,
}

impl Mandate {
    /// Whether a majority has confirmed it not long ago.
    ///
    /// # Errors
    ///
    /// In words for an operator.
    pub(super) fn holds(&self) -> Result<(), Trouble> {
        match &*self.group.belief.borrow() {
            Belief::In {
                said,
                asked,
                sentinels,
            } if *said == self.said => self.group.confirmed(said, asked, *sentinels),
            Belief::In { .. } => Err("its sentinels name another primary".into()),
            Belief::Trouble(trouble) => Err(trouble.clone()),
            Belief::Nothing => Err(not_yet()),
        }
    }
}

fn not_yet() -> Trouble {
    DownCause::Sentinels.because("its sentinels have not answered yet")
}

/// Asks the sentinels of a group.
struct Watcher {
    target: Arc<Target>,
    belief: watch::Sender<Belief>,
    sought: Arc<watch::Sender<Option<Instant>>>,
    table: Mutex<Table>,
}

/// What is to be mended where no sentinel can tell: what all of them have, or what those have that answer.
fn causes(sentinels: &[Sentinel]) -> DownCause {
    let troubles = sentinels.iter().filter_map(|one| one.trouble.as_ref());
    let mut causes = troubles.map(|trouble| trouble.cause);
    if causes.clone().any(|cause| cause == DownCause::UnknownGroup) {
        return DownCause::UnknownGroup;
    }
    let first = causes.next().unwrap_or_default();
    if first != DownCause::Other && causes.all(|cause| cause == first) {
        first
    } else {
        DownCause::Sentinels
    }
}

struct Table {
    sentinels: Vec<Sentinel>,
    known: Option<Said>,
}

impl Watcher {
    async fn run(self) {
        let Some(sentinels) = self.target.sentinels() else {
            return;
        };
        let asking = sentinels
            .hosts
            .iter()
            .enumerate()
            .map(|(index, host)| Box::pin(ask::keep_asking(&self, sentinels, index, host)));
        let unused = pin!(self.belief.closed());
        select(join_all(asking), unused).await;
    }

    /// Takes an answer, or notes that there was none.
    fn note(&self, index: usize, asked: Instant, answer: Result<(Said, usize), Trouble>) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sentinel) = table.sentinels.get_mut(index) else {
            return;
        };
        match answer {
            Ok((said, others)) => {
                *sentinel = Sentinel {
                    said: Some((asked, said)),
                    others,
                    trouble: None,
                };
            }
            Err(trouble) => sentinel.trouble = Some(trouble),
        }
        let known = table.known.clone();
        let words = || self.trouble(&table.sentinels);
        let belief = weigh(&table.sentinels, known.as_ref(), Instant::now(), words);
        if let Belief::In { said, .. } = &belief {
            table.known = Some(said.clone());
        }
        // In this order for all sentinels: what is heard later is weighed later.
        self.belief.send_if_modified(|before| {
            let differs = *before != belief;
            *before = belief;
            differs
        });
    }

    fn trouble(&self, sentinels: &[Sentinel]) -> Trouble {
        let hosts = self.target.sentinels().map(|sentinels| &*sentinels.hosts);
        let hosts = hosts.unwrap_or_default().iter().zip(sentinels);
        let each: Vec<_> = hosts
            .map(|(host, sentinel)| match &sentinel.trouble {
                Some(trouble) => format!("{host}: {trouble}"),
                None => format!("{host}: no answer for too long"),
            })
            .collect();
        causes(sentinels).because(format!(
            "no sentinel says which server is the primary: {}",
            each.join("; ")
        ))
    }

    /// Between two questions to a sentinel.
    async fn pause(&self, backoff: &mut Backoff) {
        let mut sought = self.sought.subscribe();
        let is_sought = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < SEEKING);
        let begun = Instant::now();
        let next = begun.checked_add(ONCE).unwrap_or(begun);
        if timeout_at(next, sought.wait_for(is_sought)).await.is_err() {
            let (least, most) = SOUGHT;
            *backoff = Backoff::new(least, most);
            return;
        }
        let soon = begun.checked_add(backoff.next()).unwrap_or(begun);
        sleep_until(soon.min(next)).await;
    }
}
