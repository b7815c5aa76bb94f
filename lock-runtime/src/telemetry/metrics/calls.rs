//! What is told of calls, and of what they hold.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Key, Label, with_recorder};
use tokio::time::Instant;

use super::catalogue::{
    ACQUISITIONS, HANDOVERS, HOLD, HOLD_RATIO, LOSSES, OUTCOMES, REASONS, RELEASES_FAILED,
    RENEWALS, RENEWED, WAIT, WAITERS,
};
use super::{ByWord, METADATA, catalogue, count, introduce, observe};
use crate::clock;
use crate::telemetry::{Outcome, Renewal};

/// The series of a manager, by the names that its calls have had.
pub(crate) struct Meters(RwLock<HashMap<&'static str, Named>>);

impl Meters {
    pub(crate) fn new() -> Self {
        introduce();
        Self(RwLock::default())
    }

    pub(crate) fn of(&self, name: &'static str) -> Named {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = known.get(name) {
            return named.clone();
        }
        let is_first = known.is_empty();
        drop(known);
        if is_first {
            // Whoever installs a recorder after the manager was built has done it by now.
            introduce();
        }
        let named = Named::new(name);
        named.begin();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(name).or_insert(named).clone()
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

/// A call that found no manager, and so nothing that knows its name.
pub(crate) fn refused(name: &'static str) {
    Named::new(name).call().ended(Outcome::Refused);
}

/// A name, and its series.
#[derive(Clone)]
pub(crate) struct Named(Arc<Series>);

struct Series {
    name: &'static str,
    acquisitions: ByWord,
    wait: ByWord,
    hold: Key,
    hold_ratio: Key,
    renewals: ByWord,
    losses: ByWord,
    releases_failed: Key,
    waiters: Key,
    handovers: Key,
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Named").field(&self.0.name).finish()
    }
}

impl Named {
    fn new(name: &'static str) -> Self {
        let label = Label::from_static_parts("name", name);
        let key = |metric: &'static str| Key::from_parts(metric, vec![label.clone()]);
        Self(Arc::new(Series {
            name,
            acquisitions: ByWord::new(ACQUISITIONS, &label, "outcome", &OUTCOMES),
            wait: ByWord::new(WAIT, &label, "outcome", &OUTCOMES),
            hold: key(HOLD),
            hold_ratio: key(HOLD_RATIO),
            renewals: ByWord::new(RENEWALS, &label, "outcome", &RENEWED),
            losses: ByWord::new(LOSSES, &label, "reason", &REASONS),
            releases_failed: key(RELEASES_FAILED),
            waiters: key(WAITERS),
            handovers: key(HANDOVERS),
        }))
    }

    fn begin(&self) {
        for words in [&self.0.acquisitions, &self.0.renewals, &self.0.losses] {
            words.begin();
        }
        for key in [&self.0.releases_failed, &self.0.handovers] {
            count(key, 0);
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    /// It begins to wait for a lock.
    pub(crate) fn call(&self) -> Call {
        with_recorder(|recorder| {
            let waiters = recorder.register_gauge(&self.0.waiters, &METADATA);
            waiters.increment(1.0);
        });
        Call {
            named: self.clone(),
            began: clock::now(),
            outcome: Outcome::Cancelled,
        }
    }

    pub(crate) fn handed_over(&self) {
        count(&self.0.handovers, 1);
    }

    pub(crate) fn held(&self, time: Duration, ttl: Duration) {
        observe(&self.0.hold, time.as_secs_f64());
        observe(&self.0.hold_ratio, time.div_duration_f64(ttl));
    }

    pub(crate) fn lost(&self, reason: &'static str) {
        self.0.losses.count(reason);
    }

    pub(crate) fn renewed(&self, renewal: Renewal) {
        self.0.renewals.count(catalogue::renewed(renewal));
    }

    pub(crate) fn release_failed(&self) {
        count(&self.0.releases_failed, 1);
    }
}

/// A call that wants a lock: it waits until it has one or not, and ends in one way, also where it is dropped.
#[derive(Debug)]
pub(crate) struct Call {
    named: Named,
    began: Instant,
    outcome: Outcome,
}

impl Call {
    pub(crate) fn ended(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Series {
            acquisitions,
            wait,
            waiters,
            ..
        } = &*self.named.0;
        let waited = clock::now().saturating_duration_since(self.began);
        with_recorder(|recorder| recorder.register_gauge(waiters, &METADATA).decrement(1.0));
        let word = self.outcome.word();
        acquisitions.count(word);
        if let Some(wait) = wait.of(word) {
            observe(wait, waited.as_secs_f64());
        }
    }
}
