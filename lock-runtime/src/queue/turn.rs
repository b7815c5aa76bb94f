//! Having the turn for a lock, and handing it on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::line::{Line, Number};
use super::{Baton, Called, Holder, Queue, Verdict, Wants, succession};
use crate::key::LockKey;

/// The right to ask the nodes for a lock, and then to hold it. Dropped, it goes to the next in line.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None`: it has gone on.
    queue: Option<Arc<Queue>>,
    key: LockKey,
}

impl Turn {
    pub(super) fn new(queue: &Arc<Queue>, key: &LockKey) -> Self {
        Self {
            queue: Some(Arc::clone(queue)),
            key: key.clone(),
        }
    }

    /// Without effect from now on.
    pub(super) fn forget(mut self) {
        self.queue = None;
    }

    fn with_line<T: Default>(&self, act: impl FnOnce(&mut Line) -> T) -> T {
        let Some(queue) = &self.queue else {
            return T::default();
        };
        let mut lines = queue.lines();
        lines.by_key.get_mut(&self.key).map(act).unwrap_or_default()
    }

    /// Gives the lock to the first in line, if there is one whom it `fits`. Otherwise it comes back.
    pub(super) fn pass(
        mut self,
        mut baton: Baton,
        fits: impl Fn(&Baton, &Wants) -> bool,
    ) -> Option<(Self, Baton)> {
        while let Some(queue) = &self.queue
            && let Some(waiter) = queue.next(&self.key, |wants| fits(&baton, wants))
        {
            let handed = Handed(Some(Box::new((self, baton))));
            // If he left at this moment, it is another's.
            let Err(Called::HandedOver(unused)) = waiter.call(Called::HandedOver(handed)) else {
                return None;
            };
            (self, baton) = unused.into_inner()?;
        }
        Some((self, baton))
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    /// Whether other processes were told of the last release, and may ask too.
    pub(crate) fn is_contended(&self) -> bool {
        self.with_line(|line| line.is_contended)
    }

    pub(crate) fn set_contended(&self, is_contended: bool) {
        self.with_line(|line| line.is_contended = is_contended);
    }

    /// Since when somebody of this line has contended with other processes, who may be gone.
    pub(crate) fn contends_since(&self, now: Instant) -> Instant {
        let since = self.with_line(|line| Some(*line.contends_since.get_or_insert(now)));
        since.unwrap_or(now)
    }

    /// How many stand in line.
    pub(crate) fn followers(&self) -> usize {
        self.with_line(|line| line.len())
    }

    /// What the next in line wants, if there is one.
    pub(crate) fn next_wants(&self) -> Option<Wants> {
        self.with_line(|line| line.first().map(|waiter| waiter.wants))
    }

    /// It is held from now on by this one. Whoever wanted to know only once is told so.
    pub(crate) fn held_by(&self, holder: Weak<dyn Holder>, left: Duration) {
        let verdict = Verdict::held_here(&self.key, Some(left));
        self.tell_overdue(Number::MAX, &verdict, |line| {
            line.set_holder(Some(holder));
            line.forget_verdict();
            line.contends_since = None;
        });
    }

    /// Those who have no more time, and came by then.
    fn tell_overdue(&self, by: Number, verdict: &Verdict, act: impl FnOnce(&mut Line)) {
        let Some(queue) = &self.queue else { return };
        let told = {
            let mut lines = queue.lines();
            let Some(line) = lines.by_key.get_mut(&self.key) else {
                return;
            };
            act(line);
            lines.take_overdue(&self.key, by)
        };
        for waiter in told {
            waiter.refuse(verdict.clone());
        }
    }

    /// The nodes are being asked: whoever is in line by now will be content with what they say.
    pub(crate) fn begin(&self) -> Number {
        let queue = self.queue.as_ref();
        queue.map_or(0, |queue| queue.lines().last)
    }

    /// What all nodes said when they were asked, after these had come.
    pub(crate) fn found(&self, by: Number, verdict: &Verdict) {
        self.tell_overdue(by, verdict, |line| line.set_verdict(by, verdict.clone()));
    }

    /// Whoever has it elsewhere need not be the one of whom it was said how long he has it.
    pub(crate) fn holder_changed(&self) {
        self.with_line(Line::holder_changed);
    }

    /// Wakes when somebody in line has to be told what the nodes say. `None`: somebody has to be told now.
    pub(crate) fn pressed(&self) -> Option<Arc<Notify>> {
        let pressed = self.with_line(|line| Some(line.pressed()));
        pressed.unwrap_or_default()
    }

    /// Whether somebody in line has to be told what the nodes say.
    pub(crate) fn is_pressed(&self) -> bool {
        self.with_line(|line| line.is_pressed())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.pass_on(&self.key);
        }
    }
}

/// A lock that was handed over. If nobody takes it out, it goes on to the next in line, or back.
#[derive(Debug)]
pub(crate) struct Handed(Option<Box<(Turn, Baton)>>);

impl Handed {
    pub(crate) fn into_inner(mut self) -> Option<(Turn, Baton)> {
        self.0.take().map(|handed| *handed)
    }
}

/// A lock that nobody takes out goes on, or back.
impl Drop for Handed {
    fn drop(&mut self) {
        if let Some((turn, baton)) = self.0.take().map(|handed| *handed) {
            drop(succession::pass_on(turn, baton));
        }
    }
}
