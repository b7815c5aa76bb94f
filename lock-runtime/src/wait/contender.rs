//! Contending with other processes: asking the nodes, and while the locks are busy, asking again at the right moments.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::news::{News, leave_to_others};
use super::taking::{Manner, take_all};
use super::{Core, Vain};
use crate::hold::{Held, Terms};
use crate::key::LockKey;
use crate::queue::{Baton, Called, Turn, Until, Verdict, succession};
use crate::redlock::claim::Claim;
use crate::redlock::{Cause, Refusal, Stragglers, Want};

/// For how long somebody who wants several locks waits for the turns for some of them while he has it for others: at least
/// this, and a share of what he has waited so far. Otherwise he would never get on where lines are long.
const WITH_TURNS: Duration = Duration::from_millis(100);

/// See [`WITH_TURNS`].
const SHARE: u32 = 4;

/// See the [module](self).
pub(super) struct Contender {
    core: Arc<Core>,
    terms: Terms,
    until: Until,
    answer: oneshot::Sender<Result<Held, Vain>>,
    news: News,
    /// How often it has asked the nodes.
    attempts: u32,
    /// Since when this process has contended for them.
    since: Instant,
}

/// All the locks, and what is left to be done for them.
struct Taken {
    turns: Vec<Turn>,
    claims: Vec<Claim>,
    stragglers: Stragglers,
}

impl Contender {
    pub(super) fn new(
        core: &Arc<Core>,
        terms: Terms,
        until: Until,
        answer: oneshot::Sender<Result<Held, Vain>>,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            terms,
            until,
            answer,
            news: News::none(),
            attempts: 0,
            since: Instant::now(),
        }
    }

    /// Contends until the locks are there, or it is known that they will not be in time. `turns`: those that it has already.
    pub(super) async fn run(mut self, turns: Vec<Turn>) {
        // That he has gone meanwhile is no trouble: the locks go on, or back, and he need not be told why he has none.
        match self.contend(turns).await {
            Ok(taken) => {
                let waited = self.since.elapsed();
                let batons = taken.claims.into_iter().map(|mut claim| {
                    claim.waited = waited;
                    Baton::fresh(claim)
                });
                let parts = taken.turns.into_iter().zip(batons);
                let held = self.core.hold(self.terms, self.attempts, parts);
                let _ = self.answer.send(Ok(held));
                taken.stragglers.finish().await;
            }
            Err(verdict) => {
                let verdict = Some(verdict);
                let attempts = self.attempts;
                let _ = self.answer.send(Err(Vain { verdict, attempts }));
            }
        }
    }

    async fn contend(&mut self, mut turns: Vec<Turn>) -> Result<Taken, Verdict> {
        let began = Instant::now();
        let mut contended = turns.iter().any(Turn::is_contended);
        if let [turn] = &*turns {
            self.since = turn.contends_since(self.since);
        }
        while !self.is_over() {
            if turns.is_empty() {
                turns = self.all_turns(began).await?;
            }
            let is_last = self.time_is_over();
            let is_pressed = turns.iter().any(Turn::is_pressed);
            let manner = if contended && !is_last && !is_pressed {
                Manner::InOrder
            } else {
                Manner::AllAtOnce
            };
            let before = turns.first().map_or(0, Turn::begin);
            let Some((taken, stragglers)) = self.take(&turns, manner).await else {
                break;
            };
            let refusal = match taken {
                Ok(_) if self.core.redlock.census.refuses() => {
                    self.core.redlock.executor.spawn(stragglers.finish());
                    break;
                }
                Ok(claims) => {
                    return Ok(Taken {
                        turns,
                        claims,
                        stragglers,
                    });
                }
                Err(refusal) => refusal,
            };
            if !stragglers.is_empty() {
                self.core.redlock.executor.spawn(stragglers.finish());
            }
            if let Cause::Busy { .. } = refusal.cause
                && !is_last
            {
                self.ask_about(&refusal.key).await;
            }
            if manner == Manner::AllAtOnce {
                let turn = turns.iter().find(|turn| *turn.key() == refusal.key);
                let is_awaited = is_last || turn.is_some_and(|turn| turn.followers() > 0);
                let verdict = self.verdict(refusal, is_awaited).await;
                if let Some(turn) = turn {
                    turn.found(before, &verdict);
                }
                if is_last {
                    return Err(verdict);
                }
            }
            let pressed = if let [turn] = &*turns {
                turn.pressed()
            } else {
                // While it waits for one of several, others may have the rest.
                turns.clear();
                Some(Arc::default())
            };
            if let Some(pressed) = pressed {
                contended = self.pause(&pressed).await;
                if contended && let [turn] = &*turns {
                    turn.holder_changed();
                }
            }
        }
        Err(Verdict::ShuttingDown)
    }

    fn is_over(&self) -> bool {
        self.answer.is_closed() || self.core.redlock.census.refuses()
    }

    fn deadline(&self) -> Option<Instant> {
        match self.until {
            Until::Deadline(at) => Some(Instant::from_std(at)),
            Until::FirstVerdict | Until::Forever => None,
        }
    }

    fn time_is_over(&self) -> bool {
        let deadline = self.deadline();
        self.until == Until::FirstVerdict || deadline.is_some_and(|at| at <= Instant::now())
    }

    /// One try. `None`: nobody wants it any more.
    async fn take(
        &mut self,
        turns: &[Turn],
        manner: Manner,
    ) -> Option<(Result<Vec<Claim>, Refusal>, Stragglers)> {
        let redlock = &self.core.redlock;
        let _permit = {
            let gone = pin!(self.answer.closed());
            let permit = pin!(redlock.attempts.acquire());
            // Who goes away while he waits for his turn is in nobody's way.
            let Either::Right((Ok(permit), _)) = select(gone, permit).await else {
                return None;
            };
            permit
        };
        self.attempts = self.attempts.saturating_add(1);
        let tokens = match turns {
            _ if !self.terms.fenced => 0,
            [turn] => succession::tokens(self.terms.ttl, turn.next_wants()),
            _ => 1,
        };
        let ttl = self.terms.ttl;
        Some(take_all(redlock, &self.terms.keys, Want { ttl, tokens }, manner).await)
    }

    /// What a refusal amounts to, for all who wanted to know. The nodes are asked for more only where somebody waits for it.
    async fn verdict(&self, refusal: Refusal, is_awaited: bool) -> Verdict {
        let Refusal { key, votes, cause } = refusal;
        match cause {
            Cause::Busy { at } => {
                let mut retry_after = self.news.left();
                let mut never_expires = false;
                if retry_after.is_none() && is_awaited {
                    let holder = self.core.redlock.holder(&key, at).await.flatten();
                    never_expires = holder.as_ref().is_some_and(|who| who.remaining.is_none());
                    retry_after = holder.and_then(|holder| holder.remaining);
                }
                Verdict::Busy {
                    key,
                    retry_after,
                    never_expires,
                    votes,
                }
            }
            Cause::NoQuorum(reason) => Verdict::NoQuorum { key, reason, votes },
            Cause::ShuttingDown => Verdict::ShuttingDown,
        }
    }

    /// Finds out more of a lock that is busy, while there is time and somebody wants it.
    async fn ask_about(&mut self, key: &LockKey) {
        let deadline = self.deadline();
        let asked = pin!(self.news.ask_about(&self.core.redlock, key));
        let gone = pin!(self.answer.closed());
        let time_is_over = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        select(asked, select(gone, time_is_over)).await;
    }

    /// Waits until it is worth asking again. True: because the lock was released, so others ask too.
    async fn pause(&mut self, pressed: &Notify) -> bool {
        let again = self.news.again();
        let again = self.deadline().map_or(again, |end| again.min(end));
        let heard = {
            let time = pin!(sleep_until(again));
            let heard = pin!(self.news.heard());
            let pressed = pin!(pressed.notified());
            let gone = pin!(self.answer.closed());
            let refused = pin!(self.core.redlock.census.refused());
            let end = select(gone, refused);
            let sooner = select(pressed, end);
            match select(heard, select(time, sooner)).await {
                Either::Left((waited, _)) => Some(waited),
                Either::Right(_) => None,
            }
        };
        if let Some(holder_waited) = heard {
            let behind = leave_to_others(self.since.elapsed(), holder_waited);
            if !behind.is_zero() {
                sleep(behind).await;
            }
        }
        heard.is_some()
    }

    /// Gets the turns for several locks. Whoever has some of them and cannot have another in a moment gives back what he has,
    /// and gets in line for that one first. He waits with a turn only for those that come after it in order, so nobody waits
    /// in a circle, and nobody waits for long behind somebody who only waits himself, and has not waited for longer.
    async fn all_turns(&mut self, began: Instant) -> Result<Vec<Turn>, Verdict> {
        let core = Arc::clone(&self.core);
        let (wants, until) = (self.terms.wants(), self.until);
        let keys = self.terms.keys.clone();
        let mut first = 0;
        'again: loop {
            let mut turns: Vec<(usize, Turn)> = Vec::with_capacity(keys.len());
            let others = (0..keys.len()).filter(|&index| index != first);
            let mut at_most = None;
            for index in std::iter::once(first).chain(others) {
                let in_line = core.stand_in_line(&keys[index], wants, until);
                let called = match turns.iter().map(|(had, _)| *had).max() {
                    None => self.while_wanted(None, in_line).await?,
                    Some(had) if had < index => self.while_wanted(at_most, in_line).await?,
                    Some(_) => core.queue.turn_at_once(&keys[index]).map(Called::Turn),
                };
                match called {
                    Some(Called::Turn(turn)) => {
                        turns.push((index, turn));
                        let now = Instant::now();
                        let patience = (now - began) / SHARE;
                        at_most = at_most.or_else(|| now.checked_add(patience.max(WITH_TURNS)));
                    }
                    Some(Called::Refused(verdict)) => return Err(verdict),
                    Some(Called::HandedOver(_)) | None => {
                        first = index;
                        continue 'again;
                    }
                }
            }
            turns.sort_unstable_by_key(|(index, _)| *index);
            return Ok(turns.into_iter().map(|(_, turn)| turn).collect());
        }
    }

    /// `None`: it took too long.
    async fn while_wanted<T>(
        &mut self,
        until: Option<Instant>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, Verdict> {
        let work = pin!(work);
        let gone = pin!(self.answer.closed());
        let too_long = pin!(async {
            match until {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        });
        match select(work, select(gone, too_long)).await {
            Either::Left((done, _)) => Ok(Some(done)),
            Either::Right((Either::Left(_), _)) => Err(Verdict::ShuttingDown),
            Either::Right((Either::Right(_), _)) => Ok(None),
        }
    }
}
