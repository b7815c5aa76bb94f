//! A lock that was taken from whoever had it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::owner::LockOwner;
use crate::key::LockKey;
use crate::node::NodeError;
use crate::redlock::seize::Seized;
use crate::shown::{Rounded, Visible};
use crate::table::Table;

/// What came of [`LockManager::force_release`](crate::LockManager::force_release).
///
/// Shown as text for a person, whose wording may change in any release.
#[derive(Clone, Debug)]
#[must_use = "it says whether enough nodes were reached, and when the lock is free"]
pub struct ForceRelease {
    key: LockKey,
    nodes: Vec<NodeRelease>,
    needed: usize,
}

/// What one node did.
#[derive(Clone, Debug)]
pub struct NodeRelease {
    node: Arc<str>,
    done: Result<Done, Arc<str>>,
}

#[derive(Clone, Debug)]
struct Done {
    taken_from: Option<LockOwner>,
    free_in: Duration,
}

impl ForceRelease {
    pub(super) fn new(
        key: LockKey,
        needed: usize,
        nodes: impl IntoIterator<Item = (Arc<str>, Result<Seized, NodeError>)>,
    ) -> Self {
        let nodes = nodes.into_iter().map(|(node, seized)| NodeRelease {
            node,
            done: seized.map(Done::from).map_err(NodeError::into_words),
        });
        Self {
            key,
            nodes: nodes.collect(),
            needed,
        }
    }

    /// The lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// What each node did, in the order of the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[NodeRelease] {
        &self.nodes
    }

    /// Whether enough nodes were reached: nobody who had the lock can renew it. If not, try again once more nodes answer.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done().count() >= self.needed
    }

    /// Whether nobody had it on the nodes that were reached.
    #[must_use]
    pub fn was_free(&self) -> bool {
        self.done().all(|done| done.taken_from.is_none())
    }

    /// When a majority has nobody's lock any more, at the latest: the time for which whoever had it may believe in it. It is
    /// sooner where he lives, and notices. `None`: it is [not complete](Self::is_complete).
    #[must_use]
    pub fn free_in(&self) -> Option<Duration> {
        let mut times: Vec<_> = self.done().map(|done| done.free_in).collect();
        times.sort_unstable();
        times.get(self.needed.saturating_sub(1)).copied()
    }

    fn done(&self) -> impl Iterator<Item = &Done> {
        self.nodes.iter().filter_map(|node| node.done.as_ref().ok())
    }
}

impl NodeRelease {
    /// The node, as errors name it.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// From whom the lock was taken there, by this call or one before. `None`: nobody had it, or the node was not reached.
    #[must_use]
    pub fn taken_from(&self) -> Option<&LockOwner> {
        self.done.as_ref().ok()?.taken_from.as_ref()
    }

    /// When it is free there, at the latest. `None`: the node was not reached.
    #[must_use]
    pub fn free_in(&self) -> Option<Duration> {
        self.done.as_ref().ok().map(|done| done.free_in)
    }

    /// Why the node was not reached, in words for an operator.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.done.as_ref().err().map(|reason| &**reason)
    }

    fn cells(&self) -> [String; 3] {
        let (free_in, said) = match &self.done {
            Err(reason) => ("-".to_owned(), reason.to_string()),
            Ok(done) => {
                let said = match &done.taken_from {
                    Some(owner) => format!("taken from {owner}"),
                    None if done.free_in.is_zero() => "nobody had it".to_owned(),
                    None => "nobody had it, and nobody takes it before".to_owned(),
                };
                (Rounded(done.free_in).to_string(), said)
            }
        };
        [self.node.to_string(), free_in, said]
    }
}

impl From<Seized> for Done {
    fn from(seized: Seized) -> Self {
        Self {
            taken_from: seized.owner.map(LockOwner::from),
            free_in: seized.free_in,
        }
    }
}

impl fmt::Display for ForceRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = Visible(self.key.as_str());
        match self.free_in() {
            None => writeln!(
                f,
                "{key}: too few nodes were reached, so whoever has it may renew it: try again"
            )?,
            Some(_) if self.was_free() => writeln!(f, "{key}: nobody had it")?,
            Some(free_in) => writeln!(
                f,
                "{key}: it was taken from whoever had it, and is free in {} at the latest",
                Rounded(free_in)
            )?,
        }
        let mut table = Table::headed(["node", "free in", "what it did"]);
        for node in &self.nodes {
            table.push(node.cells());
        }
        write!(f, "\n{table}")
    }
}
