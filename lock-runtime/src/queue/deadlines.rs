//! Ends the wait of those whose time is over, also where they have no timer of their own: a caller may be a future on any
//! runtime. One task for all lines of a manager; where a manager works on its callers' runtimes, one on each.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::future::select;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::Queue;
use super::line::Number;
use crate::key::LockKey;

/// The longest sleep: a task for which nothing is left to do ends within this.
const NAP: Duration = Duration::from_secs(1);

/// Where tasks run.
type Site = Option<runtime::Id>;

/// Where a deadline stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Instant,
    pub(super) site: Site,
}

/// The deadlines of all lines.
#[derive(Debug, Default)]
pub(super) struct Deadlines(HashMap<Site, Agenda>);

#[derive(Debug)]
struct Agenda {
    due: Due,
    /// When the task looks next.
    looks: Instant,
    sooner: Arc<Notify>,
}

impl Deadlines {
    /// Gives back the task that is to be started, if there is none yet.
    pub(super) fn add(&mut self, number: Number, entry: Entry, key: &LockKey) -> Option<Clerk> {
        let mut clerk = None;
        let agenda = self.0.entry(entry.site).or_insert_with(|| {
            let sooner = Arc::default();
            clerk = Some(Clerk {
                site: entry.site,
                sooner: Arc::clone(&sooner),
            });
            Agenda {
                due: Due::new(),
                looks: entry.at,
                sooner,
            }
        });
        agenda.due.insert((entry.at, number), key.clone());
        if entry.at < agenda.looks {
            agenda.sooner.notify_one();
        }
        clerk
    }

    /// For somebody who stood there before, while the task looks.
    pub(super) fn add_again(&mut self, number: Number, entry: Option<Entry>, key: &LockKey) {
        if let Some(entry) = entry
            && let Some(agenda) = self.0.get_mut(&entry.site)
        {
            agenda.due.insert((entry.at, number), key.clone());
        }
    }

    pub(super) fn remove(&mut self, number: Number, entry: Option<Entry>) {
        if let Some(entry) = entry
            && let Some(agenda) = self.0.get_mut(&entry.site)
        {
            agenda.due.remove(&(entry.at, number));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What is due by then.
    fn take_due(&mut self, site: Site, now: Instant) -> Due {
        let Some(agenda) = self.0.get_mut(&site) else {
            return Due::new();
        };
        let later = agenda.due.split_off(&(now, Number::MAX));
        std::mem::replace(&mut agenda.due, later)
    }

    /// When to look again. `None`: nothing is left, and the task ends.
    fn look_again(&mut self, site: Site, now: Instant) -> Option<Instant> {
        let agenda = self.0.get_mut(&site)?;
        let Some(((next, _), _)) = agenda.due.first_key_value() else {
            self.0.remove(&site);
            return None;
        };
        agenda.looks = now.checked_add(NAP).map_or(*next, |nap| nap.min(*next));
        Some(agenda.looks)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(|agenda| agenda.due.is_empty())
    }

    /// What this clerk, and not one after him, was to look after.
    fn take_all(&mut self, clerk: &Clerk) -> Due {
        let is_his = |agenda: &Agenda| Arc::ptr_eq(&agenda.sooner, &clerk.sooner);
        if !self.0.get(&clerk.site).is_some_and(is_his) {
            return Due::new();
        }
        let agenda = self.0.remove(&clerk.site);
        agenda.map(|agenda| agenda.due).unwrap_or_default()
    }
}

/// Who is due, and when.
pub(super) type Due = BTreeMap<(Instant, Number), LockKey>;

/// What is to be looked after by a task that is not there yet.
#[derive(Debug)]
pub(super) struct Clerk {
    site: Site,
    sooner: Arc<Notify>,
}

impl Clerk {
    pub(super) fn of(self, queue: Weak<Queue>) -> Work {
        Work { clerk: self, queue }
    }
}

/// The task. When it ends before its work is done, because its runtime does or has no timer, nobody waits any more.
pub(super) struct Work {
    clerk: Clerk,
    queue: Weak<Queue>,
}

impl Work {
    pub(super) async fn run(self) {
        while let Some(next) = self.look() {
            let nap = pin!(sleep_until(next.into()));
            let sooner = pin!(self.clerk.sooner.notified());
            select(nap, sooner).await;
        }
    }

    fn look(&self) -> Option<Instant> {
        let queue = self.queue.upgrade()?;
        let now = tokio::time::Instant::now().into_std();
        let due = queue.lines().deadlines.take_due(self.clerk.site, now);
        queue.expire(due, now);
        queue.lines().deadlines.look_again(self.clerk.site, now)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Some(queue) = self.queue.upgrade() else {
            return;
        };
        let left = queue.lines().deadlines.take_all(&self.clerk);
        queue.give_up(left);
    }
}
