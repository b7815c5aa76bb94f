//! Who is next in this process.
//!
//! Tasks that want the same lock stand in line. One of them has the *turn*: the right to ask the nodes, and then to hold.
//! The others wait in their own futures and cost the nodes nothing. When the turn ends it goes to the next in line, first
//! come, first served; and where the lock is still good it goes with it, without asking the nodes again (see
//! [`succession`]).
//!
//! A line exists while somebody has the turn. Nothing is kept for a key that nobody wants.

mod deadlines;
mod line;
pub(crate) mod succession;
mod turn;
mod verdict;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::executor::Executor;
use crate::key::LockKey;
use deadlines::{Deadlines, Due, Entry};
use line::{Line, Number, Waiter};

pub(crate) use succession::Baton;
pub(crate) use turn::{Handed, Turn};
pub(crate) use verdict::Verdict;

/// The lines of a manager.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Mutex<Lines>,
    /// How long somebody whose time is over waits to be told what the nodes say. Whoever has the turn may be a future that
    /// nobody polls.
    grace: Duration,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<LockKey, Line>,
    deadlines: Deadlines,
    /// The number of the last who came.
    last: Number,
    /// Nobody is let in any more.
    closed: bool,
}

/// What somebody in line wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    /// Nothing else is wanted with it.
    pub(crate) alone: bool,
}

/// Until when somebody stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until it is known once what the nodes say.
    FirstVerdict,
    /// And if that is not known by then, until it is.
    Deadline(Instant),
    Forever,
}

/// Whoever holds a lock in this process.
pub(crate) trait Holder: Send + Sync + fmt::Debug {
    /// How long its lease is still good. `None`: it is over.
    fn left(&self) -> Option<Duration>;
}

/// What comes of standing in line.
#[derive(Debug)]
pub(crate) enum Joined {
    /// There was nobody.
    Turn(Turn),
    Behind(Place),
    Refused(Verdict),
}

/// The end of standing in line.
#[derive(Debug)]
pub(crate) enum Called {
    /// It is one's turn: the nodes may be asked.
    Turn(Turn),
    /// The same, and the lock comes with it.
    HandedOver(Handed),
    Refused(Verdict),
}

/// Whoever is taken out of a line has no deadline any more.
impl Lines {
    /// The first one, whose turn it is.
    fn call_first(&mut self, key: &LockKey) -> Option<Waiter> {
        let line = self.by_key.get_mut(key)?;
        line.set_holder(None);
        let number = line.first_number()?;
        self.remove(key, number)
    }

    fn remove(&mut self, key: &LockKey, number: Number) -> Option<Waiter> {
        let waiter = self.by_key.get_mut(key)?.remove(number)?;
        self.deadlines.remove(number, waiter.deadline);
        Some(waiter)
    }

    /// Those who have no more time, and came by then.
    fn take_overdue(&mut self, key: &LockKey, by: Number) -> Vec<Waiter> {
        let overdue = self.by_key.get(key).map(|line| line.overdue(by));
        let numbers = overdue.unwrap_or_default().into_iter();
        numbers
            .filter_map(|number| self.remove(key, number))
            .collect()
    }
}

impl Queue {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            lines: Mutex::default(),
            grace,
        }
    }

    /// Gets in line for a lock.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &LockKey,
        wants: Wants,
        until: Until,
        executor: &Executor,
    ) -> Joined {
        // Dropped only after the lines are unlocked.
        let holder;
        let mut lines = self.lines();
        let Lines {
            by_key,
            deadlines,
            last,
            closed,
        } = &mut *lines;
        if *closed {
            return Joined::Refused(Verdict::ShuttingDown);
        }
        let Some(line) = by_key.get_mut(key) else {
            by_key.insert(key.clone(), Line::default());
            return Joined::Turn(Turn::new(self, key));
        };
        let now = executor.now();
        let overdue = match until {
            Until::FirstVerdict => true,
            Until::Deadline(at) => at <= now,
            Until::Forever => false,
        };
        if overdue {
            holder = line.holder();
            if let Some(left) = holder.as_ref().and_then(|holder| holder.left()) {
                return Joined::Refused(Verdict::held_here(key, Some(left)));
            }
        }
        *last += 1;
        let number = *last;
        let (caller, place) = oneshot::channel();
        let site = executor.place();
        let at = match until {
            _ if overdue => now.checked_add(self.grace),
            Until::Deadline(at) => Some(at),
            Until::FirstVerdict | Until::Forever => None,
        };
        let entry = at.map(|at| Entry { at, site });
        line.push(number, Waiter::new(wants, caller, entry));
        if overdue {
            line.press(number);
        }
        let clerk = entry.and_then(|entry| deadlines.add(number, entry, key));
        drop(lines);
        if let Some(clerk) = clerk {
            executor.spawn(clerk.of(Arc::downgrade(self)).run());
        }
        Joined::Behind(Place {
            queue: Arc::clone(self),
            key: key.clone(),
            number,
            called: place,
            is_called: false,
        })
    }

    /// The turn, if nobody has it.
    pub(crate) fn turn_at_once(self: &Arc<Self>, key: &LockKey) -> Option<Turn> {
        let mut lines = self.lines();
        if lines.closed || lines.by_key.contains_key(key) {
            return None;
        }
        lines.by_key.insert(key.clone(), Line::default());
        Some(Turn::new(self, key))
    }

    /// Nobody is let in from now on, and whoever stands in line is told.
    pub(crate) fn close(&self) {
        let all: Vec<Waiter> = {
            let mut lines = self.lines();
            lines.closed = true;
            lines.deadlines.clear();
            let lines = lines.by_key.values_mut();
            lines.flat_map(Line::take_all).collect()
        };
        for waiter in all {
            waiter.refuse(Verdict::ShuttingDown);
        }
    }

    /// Nothing above is left half done by a panic elsewhere.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first out of a line, if he fits.
    fn next(&self, key: &LockKey, fits: impl FnOnce(&Wants) -> bool) -> Option<Waiter> {
        let mut lines = self.lines();
        let first = lines.by_key.get(key)?.first()?;
        if fits(&first.wants) {
            lines.call_first(key)
        } else {
            None
        }
    }

    /// Ends a line, or gives its turn to the first in it.
    fn pass_on(self: &Arc<Self>, key: &LockKey) {
        loop {
            let waiter = {
                let mut lines = self.lines();
                let Some(waiter) = lines.call_first(key) else {
                    lines.by_key.remove(key);
                    return;
                };
                waiter
            };
            match waiter.call(Called::Turn(Turn::new(self, key))) {
                // He left at this moment: it is another's.
                Err(Called::Turn(unused)) => unused.forget(),
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Nobody looks after their deadlines any more.
    fn give_up(&self, left: Due) {
        for ((_, number), key) in left {
            let waiter = self.lines().remove(&key, number);
            if let Some(waiter) = waiter {
                waiter.refuse(Verdict::nothing_works(&key));
            }
        }
    }

    /// Their time is over: whoever can be told what is known is told, and for the others it is found out, for a while.
    fn expire(&self, due: Due, now: Instant) {
        let mut told = Vec::new();
        {
            // Dropped only after the lines are unlocked.
            let mut holders = Vec::new();
            let mut lines = self.lines();
            let Lines {
                by_key, deadlines, ..
            } = &mut *lines;
            for ((_, number), key) in due {
                let Some(line) = by_key.get_mut(&key) else {
                    continue;
                };
                let holder = line.holder();
                let left = holder.as_ref().and_then(|holder| holder.left());
                let here = left.map(|left| Verdict::held_here(&key, Some(left)));
                let last = || Verdict::held_here(&key, None);
                if let Some(answer) = line.expire(number, here, last) {
                    told.push(answer);
                } else {
                    let at = now.checked_add(self.grace);
                    let entry = at.and_then(|at| line.put_off(number, at));
                    deadlines.add_again(number, entry, &key);
                }
                holders.extend(holder);
            }
            drop(lines);
        }
        for (waiter, verdict) in told {
            waiter.refuse(verdict);
        }
    }
}

/// A place in a line. Dropping it is leaving the line.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    key: LockKey,
    number: Number,
    called: oneshot::Receiver<Called>,
    is_called: bool,
}

impl Future for Place {
    type Output = Called;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Called> {
        let called = Pin::new(&mut self.called).poll(cx);
        called.map(|called| {
            self.is_called = true;
            // Nobody is forgotten in a line; if he were, he has no lock.
            called.unwrap_or_else(|_| Called::Refused(Verdict::nothing_works(&self.key)))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_called {
            return;
        }
        let left = self.queue.lines().remove(&self.key, self.number);
        drop(left);
    }
}

#[cfg(test)]
mod tests;
