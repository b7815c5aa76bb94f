//! What one attempt has taken, or may have taken: it gives everything back, on every way out.
//!
//! A claim is what stands between a request that was sent and a key that is left behind. It exists before the first
//! byte leaves, and when it is released or dropped, each node that was sent the request is sent a release: after it, over
//! the same connection. A node that cannot be reached is told again until the TTL has done the work.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{SemaphorePermit, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use super::fence::Block;
use super::quorum::quorum;
use super::renew::Renewal;
use super::replies::Replies;
use super::{Cause, Redlock, Refusal, validity};
use crate::backoff::Backoff;
use crate::clock;
use crate::error::{NodeVote, Vote};
use crate::key::LockKey;
use crate::node::{Fence, Ledger, NodeError, Released, Return, Token};
use crate::telemetry::Named;

/// How many claims may be waiting for nodes that cannot be reached. Beyond, the TTL is left to end them.
pub(super) const MOST_REDELIVERIES: usize = 4096;

/// How much longer than for its majority a release is waited for to say whether other processes wait for the lock.
const HEAR_OUT: Duration = Duration::from_millis(10);

/// How often an unreachable node is told again.
const REDELIVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) redlock: Arc<Redlock>,
    pub(crate) key: LockKey,
    pub(super) wire: Arc<str>,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    /// Before the first byte left: what the lease counts from.
    pub(super) sent: Instant,
    pub(super) ledger: Arc<Ledger>,
    /// The fencing tokens: proposed, and settled once the lock is ours. The first is the holder's.
    pub(crate) fence: Option<Block>,
    /// A release before this moment leaves the lock in place until then.
    pub(crate) keep_until: Option<Instant>,
    /// It was ours, so others may wait for its end. Nobody waits for that of an attempt that failed, except whoever would be
    /// woken by each to make the next.
    pub(super) was_granted: bool,
    /// For how long it had been waited for.
    pub(crate) waited: Duration,
    /// Whose it was, once it is given back before it was lost.
    pub(crate) released_by: Option<Named>,
    /// What is to be done when the nodes have been told.
    afterwards: Option<Afterwards>,
    given_back: bool,
}

/// Dropped without being called where nothing can be run any more.
struct Afterwards(Box<Act>);

type Act = dyn FnOnce(&Redlock, &Confirmation) + Send + Sync;

impl fmt::Debug for Afterwards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Afterwards(…)")
    }
}

impl Claim {
    pub(super) fn new(
        redlock: &Arc<Redlock>,
        key: &LockKey,
        ttl: Duration,
    ) -> Result<Self, getrandom::Error> {
        let token = Token::fresh(redlock.label.as_ref())?;
        redlock.census.claims.enter();
        Ok(Self {
            redlock: Arc::clone(redlock),
            key: key.clone(),
            wire: key.prefixed(&redlock.prefix),
            token,
            ttl,
            sent: Instant::now(),
            ledger: Arc::default(),
            fence: None,
            keep_until: None,
            was_granted: false,
            waited: Duration::ZERO,
            released_by: None,
            afterwards: None,
            given_back: false,
        })
    }

    /// The fencing token of whoever has it.
    pub(crate) fn token(&self) -> Option<u64> {
        self.fence.map(Block::token)
    }

    /// Gives the next of its fencing tokens to whoever has it from now on. False: there was none.
    #[must_use]
    pub(crate) fn take_next_token(&mut self) -> bool {
        let rest = self.fence.and_then(Block::rest);
        self.fence = rest.or(self.fence);
        rest.is_some()
    }

    pub(crate) fn has_next_token(&self) -> bool {
        self.fence.and_then(Block::rest).is_some()
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether another task of this process may have it when its holder is done: it need not be kept, and not be given back.
    pub(crate) fn may_be_handed_over(&self, now: Instant) -> bool {
        self.keep_until.is_none_or(|until| until <= now) && !self.redlock.census.refuses()
    }

    pub(crate) fn sent(&self) -> Instant {
        self.sent
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_std(self.redlock.executor.now())
    }

    /// Has something done when the nodes have been told of its release.
    pub(crate) fn when_given_back(
        &mut self,
        act: impl FnOnce(&Redlock, &Confirmation) + Send + Sync + 'static,
    ) {
        self.afterwards = Some(Afterwards(Box::new(act)));
    }

    /// From when on the lock must not be believed to be ours. `None`: it never could.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        validity::deadline(self.sent.into_std(), self.ttl).map(Instant::from_std)
    }

    pub(crate) fn renewal(&self) -> Renewal {
        Renewal {
            redlock: Arc::clone(&self.redlock),
            wire: Arc::clone(&self.wire),
            token: self.token.clone(),
            ttl: self.ttl,
            ledger: Arc::clone(&self.ledger),
            fence: self
                .fence
                .map(|block| Fence::of(&self.wire, block.last(), self.redlock.fences.ttl)),
        }
    }

    /// The refusal to give when the lock was granted too late to be of use.
    pub(crate) fn outlived(&self) -> Refusal {
        let (taken, ttl) = (self.sent.elapsed(), self.ttl);
        self.refusal(&format!(
            "granted only after {taken:.1?}, too late for a TTL of {ttl:.1?}"
        ))
    }

    /// The refusal to give when the lock was granted and its fencing token was not stored.
    pub(crate) fn unfenced(&self) -> Refusal {
        self.refusal("no majority of the nodes stored the fencing token")
    }

    fn refusal(&self, reason: &str) -> Refusal {
        Refusal {
            key: self.key.clone(),
            votes: Vec::new(),
            cause: Cause::NoQuorum(reason.into()),
        }
    }

    /// Gives the lock back. The result comes as soon as a majority has answered or no majority can; the rest is finished
    /// in the background, also when the result is not waited for.
    pub(crate) fn release(mut self) -> oneshot::Receiver<Confirmation> {
        let (report, result) = oneshot::channel();
        self.give_back(Some(report), None);
        result
    }

    /// Gives the lock back, and returns once the nodes have been handed that, as far as they are connected: what they are
    /// handed from then on comes behind it. Whoever tries again at once would find himself there otherwise, and take
    /// himself for somebody who has the lock.
    pub(crate) async fn hand_back(mut self) {
        let (handed, all_handed) = oneshot::channel();
        self.give_back(None, Some(handed));
        // With nothing to hand over, or nowhere to run that, there is nothing to wait for.
        let _ = all_handed.await;
    }

    fn give_back(
        &mut self,
        report: Option<oneshot::Sender<Confirmation>>,
        handed: Option<oneshot::Sender<()>>,
    ) {
        self.given_back = true;
        self.ledger.close();
        let census = &self.redlock.census;
        census.releases.enter();
        census.claims.leave();
        let mut work = Release {
            redlock: Arc::clone(&self.redlock),
            wire: Arc::clone(&self.wire),
            token: self.token.clone(),
            ttl: self.ttl,
            keep_until: self.keep_until,
            aloud: self.was_granted.then_some(self.waited),
            confirmation: Confirmation::new(self.redlock.nodes.len()),
            afterwards: self.afterwards.take(),
            unconfirmed_by: self.released_by.take(),
            report,
            handed,
        };
        let (asked, others): (Vec<_>, Vec<_>) =
            (0..self.redlock.nodes.len()).partition(|&node| self.ledger.holds(node));
        for node in others {
            let never =
                NodeError::from("it was not asked for the lock, or had given it to somebody else");
            work.confirmation.answers[node] = Some(Err(never));
        }
        let asked = work.tell_at_once(asked);
        if asked.is_empty() {
            work.report();
        } else {
            self.redlock.executor.spawn(work.run(asked));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.given_back {
            self.give_back(None, None);
        }
    }
}

/// What the nodes said to a release.
#[derive(Clone, Debug)]
pub(crate) struct Confirmation {
    answers: Vec<Option<Result<Released, NodeError>>>,
}

impl Confirmation {
    fn new(nodes: usize) -> Self {
        Self {
            answers: vec![None; nodes],
        }
    }

    fn count(&self, wanted: impl Fn(&Result<Released, NodeError>) -> bool) -> usize {
        let answered = self.answers.iter().flatten();
        answered.filter(|answer| wanted(answer)).count()
    }

    /// A majority had the lock as ours, and has it no more.
    pub(crate) fn by_majority(&self) -> bool {
        let done = self.count(|answer| matches!(answer, Ok(Released::Done { .. })));
        done >= quorum(self.answers.len())
    }

    /// Other processes wait for the lock, and were told.
    pub(crate) fn others_were_told(&self) -> bool {
        self.count(|answer| matches!(answer, Ok(Released::Done { told: 1.. }))) > 0
    }

    /// So many no longer had it as ours that it was lost, not merely unconfirmed.
    pub(crate) fn was_lost(&self) -> bool {
        let gone = self.count(|answer| *answer == Ok(Released::NotOurs));
        gone > self.answers.len() - quorum(self.answers.len())
    }

    fn is_decided(&self) -> bool {
        let pending = self
            .answers
            .iter()
            .filter(|answer| answer.is_none())
            .count();
        self.by_majority() || self.was_lost() || pending == 0
    }

    /// For an error.
    pub(crate) fn votes(&self, redlock: &Redlock) -> Vec<NodeVote> {
        let nodes = redlock.nodes.iter().zip(&self.answers);
        nodes
            .filter_map(|(node, answer)| {
                let vote = match answer.as_ref()? {
                    Ok(Released::Done { .. }) => Vote::Released,
                    Ok(Released::NotOurs) => Vote::NotOurs,
                    Err(error) => Vote::from(error),
                };
                Some(NodeVote {
                    node: Arc::clone(node.name()),
                    vote,
                })
            })
            .collect()
    }
}

/// A release on its way, until the nodes know or it is given up.
struct Release {
    redlock: Arc<Redlock>,
    wire: Arc<str>,
    token: Token,
    ttl: Duration,
    keep_until: Option<Instant>,
    aloud: Option<Duration>,
    confirmation: Confirmation,
    afterwards: Option<Afterwards>,
    /// Who will want to know that no majority has confirmed it, until one has.
    unconfirmed_by: Option<Named>,
    report: Option<oneshot::Sender<Confirmation>>,
    /// Told when all nodes have been handed it.
    handed: Option<oneshot::Sender<()>>,
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(named) = &self.unconfirmed_by {
            named.release_failed();
        }
        self.redlock.census.releases.leave();
    }
}

impl Release {
    /// How long the lock lives on if it is released now.
    fn keep(&self) -> Option<Duration> {
        let left = self.keep_until?.saturating_duration_since(clock::now());
        (!left.is_zero()).then_some(left)
    }

    fn give_back(&self, again: bool) -> Return {
        let keep = self.keep();
        Return {
            key: Arc::clone(&self.wire),
            token: self.token.clone(),
            keep,
            // What lives on is not free yet.
            aloud: self.aloud.filter(|_| keep.is_none()),
            again,
            limit: self.redlock.limit(),
            command: OnceLock::new(),
        }
    }

    /// Tells the nodes that never have to wait, and gives back the others.
    fn tell_at_once(&mut self, mut nodes: Vec<usize>) -> Vec<usize> {
        let give_back = self.give_back(false);
        nodes.retain(|&node| {
            let released = self.redlock.nodes[node].release_now(&give_back);
            if let Some(released) = released {
                self.confirmation.answers[node] = Some(Ok(released));
            }
            released.is_none()
        });
        nodes
    }

    /// Whoever waits is told once. That nobody waits any more is as good.
    fn report(&mut self) {
        if let Some(named) = self.unconfirmed_by.take()
            && !self.confirmation.by_majority()
        {
            named.release_failed();
        }
        if self.knows_who_waits() {
            self.end_turn();
        }
        if let Some(report) = self.report.take() {
            let _ = report.send(self.confirmation.clone());
        }
    }

    fn end_turn(&mut self) {
        if let Some(Afterwards(act)) = self.afterwards.take() {
            act(&self.redlock, &self.confirmation);
        }
    }

    /// Whether it is known if other processes wait: they listen to the first node of the key that lets itself be listened to.
    fn knows_who_waits(&self) -> bool {
        if self.afterwards.is_none() || self.confirmation.others_were_told() {
            return true;
        }
        let ranks = self.redlock.ranks(&self.wire);
        let mut answers = ranks.iter().map(|&node| &self.confirmation.answers[node]);
        let first = answers.find(|answer| !matches!(answer, Some(Err(_))));
        first.is_none_or(Option::is_some)
    }

    async fn run(mut self, asked: Vec<usize>) {
        let gone = Instant::now().checked_add(self.ttl);
        let redlock = Arc::clone(&self.redlock);
        let Ok(turn) = redlock.releases.acquire().await else {
            return;
        };
        let mut unreached = self.tell(asked, Some(turn)).await;
        self.report();
        self.end_turn();
        if unreached.is_empty() {
            return;
        }
        let Ok(_permit) = redlock.redeliveries.try_acquire() else {
            redlock.counters.releases_abandoned.add();
            return;
        };
        let (least, most) = REDELIVERY;
        let mut backoff = Backoff::new(least, most);
        while !unreached.is_empty() {
            sleep(backoff.next()).await;
            if gone.is_none_or(|gone| gone <= Instant::now()) {
                redlock.counters.releases_abandoned.add();
                return;
            }
            unreached = self.tell(unreached, None).await;
        }
    }

    /// Tells the nodes, and gives back those that did not confirm in time. The first time it has a `turn`, and ends it once
    /// nothing more can be learned: others need not wait for a node that is silent.
    async fn tell(
        &mut self,
        nodes: Vec<usize>,
        mut turn: Option<SemaphorePermit<'_>>,
    ) -> Vec<usize> {
        let give_back = Arc::new(self.give_back(turn.is_none()));
        let mut replies = Replies::of(nodes.len());
        for node in nodes {
            let reply = Arc::clone(&self.redlock.nodes[node]).release(Arc::clone(&give_back));
            replies.push(node, give_back.limit.clone(), reply);
        }
        if let Some(handed) = self.handed.take() {
            replies.hand_over().await;
            let _ = handed.send(());
        }
        let mut unreached = Vec::new();
        let mut turn_ends = None;
        loop {
            let next = match turn_ends {
                Some(at) => timeout_at(at, replies.next()).await,
                None => Ok(replies.next().await),
            };
            let Ok(next) = next else {
                self.end_turn();
                turn_ends = None;
                continue;
            };
            let Some((node, answer)) = next else { break };
            if answer.is_err() {
                unreached.push(node);
            }
            self.confirmation.answers[node] = Some(answer);
            if self.confirmation.is_decided() {
                self.report();
                drop(turn.take());
                turn_ends = match self.afterwards {
                    Some(_) => turn_ends.or_else(|| Instant::now().checked_add(HEAR_OUT)),
                    None => None,
                };
            }
        }
        unreached
    }
}
