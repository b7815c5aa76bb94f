//! Renews what is held, whatever its holders do, and tells them when its time is over.
//!
//! One task for all holds of a manager, with a queue of due times: a hold that ends before its first renewal is due costs
//! an entry made and an entry removed. The task runs where the protocol does, so it goes on while a body computes without
//! yielding, and a body needs no timer of its own. If the task ends, for whatever reason, all that it had to renew is lost.
//!
//! A manager of embedded nodes works on its callers' runtimes, and has such a task on each.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::select;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::{Hold, Loss};
use crate::backoff::between;
use crate::executor::Executor;

/// The keepers of a manager: one, or where it follows its callers one for each of their runtimes.
#[derive(Debug, Default)]
pub(crate) struct Keepers(Mutex<HashMap<Option<runtime::Id>, Weak<Keeper>>>);

impl Keepers {
    /// Looks after the hold until it ends.
    pub(crate) fn keep(&self, hold: &Arc<Hold>) {
        let keeper = self.here(&hold.redlock.executor);
        keep_on(&keeper, hold, hold.ttl / 3);
    }

    /// Gives back what was lost, of a manager that takes nothing more: whoever has it by hand need not have noticed.
    pub(crate) fn end_lost(&self) {
        for keeper in self.all() {
            let lost = std::mem::take(&mut keeper.queue().lost);
            for hold in lost.into_values() {
                drop(hold.end());
            }
        }
    }

    /// Tells all holds that the manager was stopped.
    pub(crate) fn tell_all(&self) {
        for keeper in self.all() {
            let all = std::mem::take(&mut keeper.queue().due);
            for ((at, _), hold) in all {
                look_again(&keeper, &hold, at);
            }
        }
    }

    fn all(&self) -> Vec<Arc<Keeper>> {
        let keepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.values().filter_map(Weak::upgrade).collect()
    }

    fn here(&self, executor: &Executor) -> Arc<Keeper> {
        let mut keepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = executor.place();
        if let Some(keeper) = keepers.get(&place).and_then(Weak::upgrade) {
            return keeper;
        }
        keepers.retain(|_, keeper| keeper.strong_count() > 0);
        let keeper = Arc::new(Keeper::default());
        keepers.insert(place, Arc::downgrade(&keeper));
        keeper
    }
}

/// Without a manager and without a lease a keeper ends at once: on a runtime of the callers it would stay until the last
/// lease would have been due.
impl Drop for Keepers {
    fn drop(&mut self) {
        let keepers = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for keeper in keepers.values().filter_map(Weak::upgrade) {
            keeper.queue().is_orphan = true;
            keeper.sooner.notify_one();
        }
    }
}

/// Has the hold looked at again when its renewal is due, and at its end in any case.
fn keep_on(keeper: &Arc<Keeper>, hold: &Arc<Hold>, renewal: Duration) {
    let left = hold.held().unwrap_or_default();
    let pause = if hold.extend { left.min(renewal) } else { left };
    let now = hold.redlock.executor.now();
    look_again(keeper, hold, now.checked_add(pause).unwrap_or(now));
}

/// Has the hold looked at again at this time, if there still is one, and tells whoever uses it if that is over.
fn look_again(keeper: &Arc<Keeper>, hold: &Arc<Hold>, at: Instant) {
    hold.look();
    if !hold.keep_by(keeper, at) {
        hold.set_aside(keeper);
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    queue: Mutex<Queue>,
    sooner: Notify,
}

/// An entry of the queue: when it is due, and a number that makes it unique.
pub(crate) type Ticket = (Instant, u64);

#[derive(Debug, Default)]
struct Queue {
    due: BTreeMap<Ticket, Arc<Hold>>,
    /// Ended, and not given back by whoever has it by hand: for a shutdown to do it.
    lost: HashMap<Ticket, Arc<Hold>>,
    made: u64,
    /// When the task looks next. `None`: there is no task.
    looks: Option<Instant>,
    /// The manager is gone, so nothing comes into the queue but what is renewed.
    is_orphan: bool,
}

impl Keeper {
    /// Puts a hold into the queue. True: there is no task, and [`start`](Self::start) has to be called, once whatever is
    /// locked now is unlocked.
    pub(super) fn enqueue(&self, hold: Arc<Hold>, at: Instant, told: bool) -> (Ticket, bool) {
        let mut queue = self.queue();
        // Whoever told all the others of the end has not seen this one.
        let untold = hold.redlock.census.is_stopped() && !told;
        let at = if untold { hold.acquired } else { at };
        queue.made += 1;
        let ticket = (at, queue.made);
        queue.due.insert(ticket, hold);
        let sleeping = queue.looks.is_none();
        match queue.looks {
            Some(looks) if looks <= at => {}
            Some(_) => self.sooner.notify_one(),
            None => queue.looks = Some(at),
        }
        (ticket, sleeping)
    }

    /// Remembers a hold that has ended. `None`: nothing more is taken, and it is to be given back at once.
    pub(super) fn set_aside(&self, hold: Arc<Hold>) -> Option<Ticket> {
        let mut queue = self.queue();
        // Whoever gave back all the others has not seen this one.
        if hold.redlock.census.refuses() {
            return None;
        }
        queue.made += 1;
        let ticket = (hold.acquired, queue.made);
        queue.lost.insert(ticket, hold);
        Some(ticket)
    }

    /// Starts the task. Where that is not possible any more, all in the queue are lost before this returns.
    pub(super) fn start(self: &Arc<Self>, executor: &Executor) {
        let task = Task {
            keeper: Arc::clone(self),
            ended: false,
        };
        executor.spawn(task.run());
    }

    pub(super) fn forget(&self, ticket: Ticket) {
        // Dropped only after the queue is unlocked: a hold may end with it, which is more than should happen here.
        let forgotten = {
            let mut queue = self.queue();
            let due = queue.due.remove(&ticket);
            let forgotten = due.or_else(|| queue.lost.remove(&ticket));
            if queue.is_orphan && queue.due.is_empty() {
                self.sooner.notify_one();
            }
            forgotten
        };
        drop(forgotten);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is due now, and when to look again. `None`: nothing is left, and the task ends.
    fn take_due(&self, now: Instant) -> (Vec<Arc<Hold>>, Option<Instant>) {
        let mut queue = self.queue();
        let later = queue.due.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut queue.due, later);
        let next = queue.due.first_key_value().map(|((at, _), _)| *at);
        queue.looks = next;
        (due.into_values().collect(), next)
    }
}

/// The task of a keeper. Its end is the loss of what is still in the queue.
struct Task {
    keeper: Arc<Keeper>,
    /// Nothing was left to renew. From then on there may be another task.
    ended: bool,
}

impl Task {
    async fn run(mut self) {
        loop {
            let (due, next) = self.keeper.take_due(tokio::time::Instant::now().into_std());
            for hold in due {
                let redlock = Arc::clone(&hold.redlock);
                let renewal = Renewing {
                    hold: Some(hold),
                    keeper: Arc::clone(&self.keeper),
                };
                redlock.executor.spawn(renewal.run());
            }
            let Some(next) = next else {
                self.ended = true;
                return;
            };
            let pause = pin!(sleep_until(next.into()));
            let sooner = pin!(self.keeper.sooner.notified());
            select(pause, sooner).await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let left = {
            let mut queue = self.keeper.queue();
            queue.looks = None;
            std::mem::take(&mut queue.due)
        };
        for hold in left.into_values() {
            hold.lose(Loss::NobodyRenews);
            hold.set_aside(&self.keeper);
        }
    }
}

/// Looking at one hold that is due. If this is dropped before it has said when to look again, the hold is lost.
struct Renewing {
    hold: Option<Arc<Hold>>,
    keeper: Arc<Keeper>,
}

impl Renewing {
    async fn run(mut self) {
        let Some(hold) = &self.hold else { return };
        let mut next = hold.ttl / 3;
        if hold.extend && hold.held().is_ok() && !hold.renew().await {
            let left = hold.held().unwrap_or_default();
            next = pause_before_retry(hold.ttl, left);
        }
        keep_on(&self.keeper, hold, next);
        self.hold = None;
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.lose(Loss::NobodyRenews);
            hold.set_aside(&self.keeper);
        }
    }
}

/// Often enough that several tries fit into what is left, and not so often that nodes in trouble are given more of it.
fn pause_before_retry(ttl: Duration, left: Duration) -> Duration {
    let most = (ttl / 20).min(left / 4);
    between(most / 2, most).clamp(Duration::from_millis(2), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_retries_fit_into_what_is_left_of_a_lease() {
        for ttl in [100, 1_000, 30_000, 86_400_000].map(Duration::from_millis) {
            let mut left = ttl * 2 / 3;
            let mut retries = 0;
            while left > Duration::from_millis(10) && retries < 1_000 {
                left = left.saturating_sub(pause_before_retry(ttl, left));
                retries += 1;
            }
            assert!(retries >= 8, "{retries} in {ttl:?}");
        }
    }
}
