//! One line: who stands in it, who holds the lock here, and what the nodes said last.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

use super::deadlines::Entry;
use super::{Called, Holder, Verdict, Wants};

/// Given in the order of arrival, over all lines.
pub(super) type Number = u64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<Number, Waiter>,
    /// How many of them have no more time, and wait only to be told what the nodes say.
    overdue: usize,
    holder: Option<Weak<dyn Holder>>,
    /// What all nodes said last, and who had come when they were asked.
    verdict: Option<(Number, Verdict)>,
    /// Other processes want it too.
    pub(super) is_contended: bool,
    /// Since when it has been asked for without success.
    pub(super) contends_since: Option<tokio::time::Instant>,
    /// Where whoever has the turn waits, if he does.
    pressed: Option<Arc<Notify>>,
}

/// Somebody in line.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) wants: Wants,
    /// Where his deadline stands.
    pub(super) deadline: Option<Entry>,
    caller: oneshot::Sender<Called>,
    overdue: bool,
}

impl Waiter {
    pub(super) fn new(
        wants: Wants,
        caller: oneshot::Sender<Called>,
        deadline: Option<Entry>,
    ) -> Self {
        Self {
            wants,
            deadline,
            caller,
            overdue: false,
        }
    }

    /// # Errors
    ///
    /// He has left meanwhile. What he was to be given comes back.
    pub(super) fn call(self, called: Called) -> Result<(), Called> {
        self.caller.send(called)
    }

    /// If he has left meanwhile, there is nobody to be told.
    pub(super) fn refuse(self, verdict: Verdict) {
        let _ = self.caller.send(Called::Refused(verdict));
    }
}

impl Line {
    pub(super) fn push(&mut self, number: Number, waiter: Waiter) {
        self.waiting.insert(number, waiter);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn first(&self) -> Option<&Waiter> {
        self.waiting.values().next()
    }

    pub(super) fn first_number(&self) -> Option<Number> {
        self.waiting.keys().next().copied()
    }

    pub(super) fn remove(&mut self, number: Number) -> Option<Waiter> {
        let waiter = self.waiting.remove(&number)?;
        self.overdue -= usize::from(waiter.overdue);
        Some(waiter)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiter> + use<> {
        self.overdue = 0;
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Who has no more time, and came before that number or has it.
    pub(super) fn overdue(&self, by: Number) -> Vec<Number> {
        if self.overdue == 0 {
            return Vec::new();
        }
        let came = self.waiting.range(..=by);
        came.filter(|(_, who)| who.overdue)
            .map(|(number, _)| *number)
            .collect()
    }

    /// His time is over. What he can be told now; otherwise whoever has the turn is pressed to find out. Has he waited for
    /// that in vain, he is told the `last` word.
    pub(super) fn expire(
        &mut self,
        number: Number,
        held_here: Option<Verdict>,
        last: impl FnOnce() -> Verdict,
    ) -> Option<(Waiter, Verdict)> {
        let known = self.verdict.as_ref().filter(|(by, _)| number <= *by);
        let known = held_here.or_else(|| known.map(|(_, verdict)| verdict.clone()));
        let in_vain = self.waiting.get(&number).is_some_and(|who| who.overdue);
        let known = known.or_else(|| in_vain.then(last));
        if let Some(verdict) = known {
            return self.remove(number).map(|waiter| (waiter, verdict));
        }
        self.press(number);
        None
    }

    /// He has no more time, and is to be told what the nodes say.
    pub(super) fn press(&mut self, number: Number) {
        let Some(waiter) = self.waiting.get_mut(&number) else {
            return;
        };
        if !std::mem::replace(&mut waiter.overdue, true) {
            self.overdue += 1;
        }
        if let Some(pressed) = &self.pressed {
            pressed.notify_one();
        }
    }

    /// He is to be looked at again then.
    pub(super) fn put_off(&mut self, number: Number, at: Instant) -> Option<Entry> {
        let deadline = &mut self.waiting.get_mut(&number)?.deadline;
        let site = deadline.as_ref()?.site;
        *deadline = Some(Entry { at, site });
        *deadline
    }

    /// Somebody else may have it by now.
    pub(super) fn holder_changed(&mut self) {
        if let Some((_, Verdict::Busy { retry_after, .. })) = &mut self.verdict {
            *retry_after = None;
        }
    }

    pub(super) fn holder(&self) -> Option<Arc<dyn Holder>> {
        self.holder.as_ref().and_then(Weak::upgrade)
    }

    pub(super) fn set_holder(&mut self, holder: Option<Weak<dyn Holder>>) {
        self.holder = holder;
    }

    pub(super) fn set_verdict(&mut self, by: Number, verdict: Verdict) {
        self.verdict = Some((by, verdict));
    }

    pub(super) fn forget_verdict(&mut self) {
        self.verdict = None;
    }

    pub(super) fn is_pressed(&self) -> bool {
        self.overdue > 0
    }

    /// `None`: somebody has to be told now.
    pub(super) fn pressed(&mut self) -> Option<Arc<Notify>> {
        if self.is_pressed() {
            return None;
        }
        Some(Arc::clone(self.pressed.get_or_insert_default()))
    }
}
