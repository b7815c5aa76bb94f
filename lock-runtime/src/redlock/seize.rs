//! Looking at one lock on all nodes, and taking it from whoever has it.

use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Redlock;
use crate::key::LockKey;
use crate::node::{Holder, Kept, Limit, NodeError, Owner, Seizure};

/// What became of a lock on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seized {
    /// Who had it.
    pub(crate) owner: Option<Owner>,
    /// It is free there after so long, at the latest.
    pub(crate) free_in: Duration,
}

impl Redlock {
    pub(crate) async fn inspect(&self, key: &LockKey) -> Vec<Result<Kept, NodeError>> {
        let wire = key.prefixed(&self.prefix);
        let inspect =
            |node: Arc<dyn crate::node::Node>, _, limit| node.inspect(Arc::clone(&wire), limit);
        self.ask_all(self.patiently(), inspect).await
    }

    /// Takes the lock from whoever has it, where he has it. Where nobody has it, or the lock that is there would end before he has
    /// to know that he has lost it, his renewals are refused for as long: they would take it again, and with it a majority.
    pub(crate) async fn seize(
        &self,
        key: &LockKey,
        max_ttl: Duration,
    ) -> Vec<Result<Seized, NodeError>> {
        let wire = key.prefixed(&self.prefix);
        let seizure = |keep, refused| {
            Arc::new(Seizure {
                key: Arc::clone(&wire),
                keep,
                refused,
                limit: self.patiently(),
                command: OnceLock::new(),
            })
        };
        let first = seizure(max_ttl, None);
        let answers = self
            .ask_all(first.limit.clone(), |node, _, _| {
                node.seize(Arc::clone(&first))
            })
            .await;
        let Some((owner, longest)) = strongest(&answers, max_ttl) else {
            return answers
                .into_iter()
                .map(|answer| answer.map(Seized::from))
                .collect();
        };
        let again = seizure(longest, Some(owner));
        let ends_sooner = |answer: &Result<Option<Holder>, NodeError>| match answer {
            Ok(Some(holder)) => holder.remaining.is_some_and(|left| left < longest),
            Ok(None) => true,
            Err(_) => false,
        };
        let refuse = |node: Arc<dyn crate::node::Node>, position: usize, _| {
            if ends_sooner(&answers[position]) {
                node.seize(Arc::clone(&again))
            } else {
                Box::pin(ready(Ok(None)))
            }
        };
        let kept_out = self.ask_all(again.limit.clone(), refuse).await;
        let both = answers.iter().zip(kept_out);
        both.map(|(first, again)| {
            let is_refused = ends_sooner(first);
            let first = first.clone()?;
            if !is_refused {
                return Ok(Seized::from(first));
            }
            // Somebody may have come in between: then it was taken from him.
            let owner = first.or(again?).map(|holder| holder.owner);
            let free_in = longest;
            Ok(Seized { owner, free_in })
        })
        .collect()
    }

    /// Nobody waits for a lock meanwhile.
    fn patiently(&self) -> Limit {
        const LEAST: Duration = Duration::from_secs(1);
        Limit::within(self.node_timeout.saturating_mul(4).max(LEAST))
    }
}

impl From<Option<Holder>> for Seized {
    fn from(holder: Option<Holder>) -> Self {
        let remaining = holder.as_ref().and_then(|holder| holder.remaining);
        Self {
            owner: holder.map(|holder| holder.owner),
            free_in: remaining.unwrap_or_default(),
        }
    }
}

/// Who was there on most nodes, and for how long he may believe in it.
fn strongest(
    answers: &[Result<Option<Holder>, NodeError>],
    max_ttl: Duration,
) -> Option<(Owner, Duration)> {
    let holders = || answers.iter().flatten().flatten();
    let by = |holder: &Holder| {
        let name = |owner: &Owner| owner.seized_from().unwrap_or_else(|| owner.clone());
        let owner = name(&holder.owner);
        holders().filter(move |other| name(&other.owner) == owner)
    };
    let strongest = holders().max_by_key(|holder| by(holder).count())?;
    let times = by(strongest).map(|holder| holder.remaining.unwrap_or(max_ttl));
    Some((strongest.owner.clone(), times.max().unwrap_or(max_ttl)))
}
