//! What is held: until when, by which claims, and how it ended.

mod end;
pub(crate) mod keeper;
mod terms;
mod told;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Context;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::error::{Listed, NodeVote};
use crate::key::LockKey;
use crate::queue::{Baton, Holder, Turn, succession};
use crate::redlock::Redlock;
use crate::redlock::claim::Claim;
use crate::redlock::renew::{Renewal, Renewed};
use crate::telemetry::{self, Named};
use keeper::{Keeper, Ticket};
use told::{Locked, News};

pub(crate) use end::{End, Loss};
pub(crate) use keeper::Keepers;
pub(crate) use terms::Terms;

/// Locks that were acquired together, from their acquisition to their end.
///
/// It ends once, and never comes back: by its release, or by its loss.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) redlock: Arc<Redlock>,
    pub(crate) named: Named,
    /// How often the nodes were asked for it.
    pub(crate) attempts: u32,
    pub(crate) keys: Vec<LockKey>,
    pub(crate) ttl: Duration,
    pub(crate) extend: bool,
    pub(crate) acquired: Instant,
    /// The fencing token; of several locks the largest, which is that of all.
    pub(crate) fence: Option<u64>,
    /// The end of the whole hold, renewals included.
    cap: Option<Instant>,
    /// A release before leaves the locks in place until then.
    keep_until: Option<Instant>,
    state: Mutex<State>,
    /// The body, which is to be stopped when the hold ends.
    body: AtomicWaker,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    /// Empty once it was given back or handed over.
    parts: Vec<Part>,
    end: Option<End>,
    /// What the nodes said to a renewal that told nothing, until one does.
    doubts: Vec<NodeVote>,
    keeper: Option<(Arc<Keeper>, Ticket)>,
    /// Somebody has it.
    accepted: bool,
    /// A body runs under it, which alone says when it is given back.
    bound: bool,
    /// A shutdown has told the body to stop.
    told: bool,
}

/// One of the locks.
#[derive(Debug)]
struct Part {
    baton: Baton,
    /// `None`: it is lost, and others of this process may ask for it.
    turn: Option<Turn>,
}

/// A hold for whoever is to use it: dropping this releases it, in the background.
#[derive(Debug)]
pub(crate) struct Held(pub(crate) Arc<Hold>);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.end());
    }
}

impl Hold {
    /// Held from now on. Each lock comes with the turn for it.
    pub(crate) fn new(
        redlock: &Arc<Redlock>,
        terms: Terms,
        attempts: u32,
        batons: impl IntoIterator<Item = (Turn, Baton)>,
    ) -> Arc<Self> {
        let acquired = redlock.executor.now();
        let (turns, parts): (Vec<_>, Vec<_>) = batons
            .into_iter()
            .map(|(turn, mut baton)| {
                baton.claim.keep_until = None;
                baton.claim.released_by = None;
                (turn, Part { baton, turn: None })
            })
            .unzip();
        let tokens = parts.iter().filter_map(|part| part.baton.claim.token());
        let fence = tokens.max().filter(|_| terms.fenced);
        let keep = Some(terms.hold_at_least).filter(|keep| !keep.is_zero());
        let hold = Arc::new(Self {
            redlock: Arc::clone(redlock),
            named: terms.named,
            attempts,
            keys: terms.keys,
            ttl: terms.ttl,
            extend: terms.extend,
            acquired,
            fence,
            cap: terms.max_hold.and_then(|most| acquired.checked_add(most)),
            keep_until: keep.and_then(|keep| acquired.checked_add(keep)),
            state: Mutex::new(State {
                parts,
                end: None,
                doubts: Vec::new(),
                keeper: None,
                accepted: false,
                bound: false,
                told: false,
            }),
            body: AtomicWaker::new(),
            ended: Notify::new(),
        });
        hold.take_turns(turns);
        hold
    }

    /// Those in line wait for its end from now on.
    fn take_turns(self: &Arc<Self>, turns: Vec<Turn>) {
        let left = self.held().unwrap_or_default();
        for turn in &turns {
            let holder: Weak<Self> = Arc::downgrade(self);
            turn.held_by(holder, left);
        }
        for (part, turn) in self.state().parts.iter_mut().zip(turns) {
            part.turn = Some(turn);
        }
    }

    /// Somebody is there to use it. Before, a release frees the locks at once, whatever they were to be kept for: nobody
    /// has run.
    pub(crate) fn accept(&self) {
        let keep_until = self.keep_until.map(tokio::time::Instant::from_std);
        let mut state = self.state();
        for part in &mut state.parts {
            part.baton.claim.keep_until = keep_until;
        }
        state.accepted = true;
        if let Some(end) = state.end {
            Self::tell_end(&mut state, end);
        }
    }

    /// It ends, once.
    fn conclude(state: &mut Locked<'_>, end: End) {
        state.end = Some(end);
        if state.accepted {
            Self::tell_end(state, end);
        }
    }

    /// A body that a shutdown told to stop was told that it is lost.
    fn tell_end(state: &mut Locked<'_>, end: End) {
        let was_told = state.bound && state.told;
        state.tell(News::Ended(match end {
            End::Lost(loss) if !was_told => Some(loss),
            End::Lost(_) | End::Released => None,
        }));
    }

    /// Since its acquisition.
    pub(crate) fn held_for(&self) -> Duration {
        let now = self.redlock.executor.now();
        now.saturating_duration_since(self.acquired)
    }

    /// Whether it holds this key of these nodes, as far as is known.
    pub(crate) fn is_of(&self, redlock: &Arc<Redlock>, key: &LockKey) -> bool {
        Arc::ptr_eq(&self.redlock, redlock) && self.keys.contains(key) && self.remaining().is_ok()
    }

    /// How much longer it may be believed.
    ///
    /// # Errors
    ///
    /// Not any more. Noticing that the time is over is what ends it: later news do not bring it back.
    pub(crate) fn remaining(&self) -> Result<Duration, End> {
        self.remaining_of(&mut self.state())
    }

    fn remaining_of(&self, state: &mut Locked<'_>) -> Result<Duration, End> {
        let left = self.held_of(state)?;
        if self.redlock.census.is_stopped() {
            return Err(self.stop(state));
        }
        Ok(left)
    }

    /// The same without noticing, for whoever shows it: he may be in the middle of writing.
    pub(crate) fn shown(&self) -> Duration {
        let left = Holder::left(self).unwrap_or_default();
        if self.redlock.census.is_stopped() {
            return Duration::ZERO;
        }
        left
    }

    /// How much longer it is held, also by a body that is to stop and has not.
    ///
    /// # Errors
    ///
    /// Not any more.
    pub(crate) fn held(&self) -> Result<Duration, End> {
        self.held_of(&mut self.state())
    }

    fn held_of(&self, state: &mut Locked<'_>) -> Result<Duration, End> {
        match self.left_of(state) {
            Err(End::Lost(loss)) if state.end.is_none() => Err(self.lost(state, loss)),
            left => left,
        }
    }

    /// The same, and nobody is told: for where anything may be locked.
    fn left_of(&self, state: &State) -> Result<Duration, End> {
        if let Some(end) = state.end {
            return Err(end);
        }
        let now = self.redlock.executor.now();
        let deadlines = state.parts.iter().map(|part| part.baton.deadline);
        let expires = deadlines.min().unwrap_or(now);
        let (ends, loss) = match self.cap {
            Some(cap) if cap < expires => (cap, Loss::HeldTooLong),
            _ => (expires, Loss::Expired),
        };
        match ends.checked_duration_since(now) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(End::Lost(loss)),
        }
    }

    fn lost(&self, state: &mut Locked<'_>, loss: Loss) -> End {
        self.redlock.counters.lost.add();
        let end = End::Lost(loss);
        Self::conclude(state, end);
        end
    }

    /// A shutdown has waited long enough. A body has to be gone before its lock is, so that one is kept until then; what
    /// somebody has by hand ends.
    fn stop(&self, state: &mut Locked<'_>) -> End {
        let end = End::Lost(Loss::ShutDown);
        let is_first = !std::mem::replace(&mut state.told, true);
        if is_first {
            self.redlock.counters.stopped.add();
        }
        if !state.bound {
            Self::conclude(state, end);
        } else if is_first {
            state.tell(News::Lost(Loss::ShutDown));
        }
        end
    }

    /// Ends it, unless it has ended.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut state = self.state();
        if state.end.is_none() {
            self.lost(&mut state, loss);
        }
        let _untold = state.unlock();
        self.announce_end();
    }

    /// Looks whether it is over, and tells whoever uses it.
    fn look(&self) {
        let mut state = self.state();
        let is_over = self.remaining_of(&mut state).is_err();
        let _untold = state.unlock();
        if is_over {
            self.announce_end();
        }
    }

    /// Wakes whoever is to know that it has ended, here and in line.
    fn announce_end(&self) {
        let turns: Vec<_> = {
            let mut state = self.state();
            let is_over = state.end.is_some();
            let parts = state.parts.iter_mut().filter(|_| is_over);
            parts.filter_map(|part| part.turn.take()).collect()
        };
        drop(turns);
        self.body.wake();
        self.ended.notify_waiters();
    }

    /// A body is to run under it.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub(crate) fn bind(&self) -> Result<(), End> {
        let mut state = self.state();
        self.remaining_of(&mut state)?;
        state.bound = true;
        Ok(())
    }

    /// It has ended, and nothing renews it any more. What somebody has by hand he gives back himself, unless a shutdown comes
    /// first.
    fn set_aside(self: &Arc<Self>, keeper: &Arc<Keeper>) {
        {
            let mut state = self.state();
            if state.bound || state.parts.is_empty() {
                return;
            }
            if let Some(ticket) = keeper.set_aside(Arc::clone(self)) {
                state.keeper = Some((Arc::clone(keeper), ticket));
                return;
            }
        }
        drop(self.end());
    }

    /// Ends it: the lock goes to the next in line, or comes back to be released, as do several that were taken together.
    /// Nothing comes back the second time.
    pub(crate) fn end(&self) -> Vec<Claim> {
        let (parts, keeper, is_good) = {
            let mut state = self.state();
            let is_good = self.held_of(&mut state).is_ok() && state.doubts.is_empty();
            let mut parts = std::mem::take(&mut state.parts);
            if state.end.is_none() {
                Self::conclude(&mut state, End::Released);
                let by = state.accepted.then_some(&self.named);
                for part in &mut parts {
                    part.baton.claim.released_by = by.cloned();
                }
            }
            (parts, state.keeper.take(), is_good)
        };
        if let Some((keeper, ticket)) = keeper {
            keeper.forget(ticket);
        }
        self.ended.notify_waiters();
        let is_good = is_good && parts.len() == 1;
        let mut claims = Vec::with_capacity(parts.len());
        for Part { baton, turn } in parts {
            claims.extend(match turn {
                Some(turn) if is_good => succession::pass_on(turn, baton),
                Some(turn) => Some(succession::give_back(turn, baton.claim)),
                None => Some(baton.claim),
            });
        }
        claims
    }

    /// Wakes this task when it is lost.
    pub(crate) fn watch(&self, context: &Context<'_>) {
        self.body.register(context.waker());
    }

    /// Woken when it ends.
    pub(crate) fn ended(&self) -> tokio::sync::futures::Notified<'_> {
        self.ended.notified()
    }

    /// Has it renewed from `at` on. False: it has ended.
    #[must_use]
    pub(crate) fn keep_by(self: &Arc<Self>, keeper: &Arc<Keeper>, at: Instant) -> bool {
        let start = {
            let mut state = self.state();
            if state.end.is_some() {
                return false;
            }
            let (ticket, start) = keeper.enqueue(Arc::clone(self), at, state.told);
            state.keeper = Some((Arc::clone(keeper), ticket));
            start
        };
        if start {
            keeper.start(&self.redlock.executor);
        }
        true
    }

    /// Renews all claims, and waits until it is known what came of it. False: inconclusive.
    pub(crate) async fn renew(self: &Arc<Self>) -> bool {
        let renewals: Vec<(Renewal, Instant)> = {
            let mut state = self.state();
            if self.held_of(&mut state).is_err() {
                // Nothing of ours touches the key any more, but its release.
                return true;
            }
            let batons = state.parts.iter().map(|part| &part.baton);
            batons
                .map(|baton| (baton.claim.renewal(), baton.deadline))
                .collect()
        };
        let mut outcomes = Vec::with_capacity(renewals.len());
        for (index, (renewal, until)) in renewals.into_iter().enumerate() {
            let (told, outcome) = tokio::sync::oneshot::channel();
            let hold = Arc::clone(self);
            let until = tokio::time::Instant::from_std(until);
            self.redlock
                .executor
                .spawn(renewal.run(until, move |renewed| {
                    let conclusive = hold.apply(index, renewed);
                    // The lease may have ended meanwhile, and nobody waits.
                    let _ = told.send(conclusive);
                }));
            outcomes.push(outcome);
        }
        let mut conclusive = true;
        for outcome in outcomes {
            conclusive &= outcome.await.unwrap_or(false);
        }
        conclusive
    }

    /// A renewal counts only while the old lease does.
    fn apply(&self, index: usize, renewed: Renewed) -> bool {
        if renewed == Renewed::Taken {
            self.lose(Loss::Taken);
        }
        let mut state = self.state();
        let is_held = self.held_of(&mut state).is_ok();
        if is_held || state.end != Some(End::Released) {
            state.tell(News::Renewed(match &renewed {
                Renewed::Until(_) if is_held => telemetry::Renewal::Renewed,
                Renewed::Inconclusive(_) if is_held => telemetry::Renewal::Inconclusive,
                _ => telemetry::Renewal::Lost,
            }));
        }
        let was_in_doubt = !state.doubts.is_empty();
        let is_conclusive = match renewed {
            Renewed::Until(deadline) => {
                if is_held && let Some(part) = state.parts.get_mut(index) {
                    let known = &mut part.baton.deadline;
                    *known = deadline.into_std().max(*known);
                    state.doubts.clear();
                }
                true
            }
            Renewed::Taken => true,
            Renewed::Inconclusive(votes) => {
                // Once the lease is over, it is what keeps nodes from being asked.
                if is_held || state.doubts.is_empty() {
                    state.doubts = votes;
                }
                false
            }
        };
        let is_in_doubt = !state.doubts.is_empty();
        let votes = (is_in_doubt && !was_in_doubt).then(|| state.doubts.clone());
        drop(state);
        let name = self.named.name();
        if let Some(votes) = votes.filter(|_| is_held) {
            tracing::warn!(name, votes = %Listed(&votes), "lease not renewed yet");
        } else if was_in_doubt && !is_in_doubt {
            tracing::info!(name, "lease renewed again");
        }
        is_conclusive
    }

    /// What the nodes said to the last renewal, if that did not renew it.
    pub(crate) fn doubts(&self) -> Vec<NodeVote> {
        self.state().doubts.clone()
    }

    /// Nothing above is left half done by a panic elsewhere.
    fn state(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked::new(self, state)
    }
}

impl Holder for Hold {
    fn left(&self) -> Option<Duration> {
        self.left_of(&self.state()).ok()
    }
}
