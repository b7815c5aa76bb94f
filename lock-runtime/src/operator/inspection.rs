//! What the nodes keep of a lock, and what that amounts to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::owner::LockOwner;
use crate::key::LockKey;
use crate::node::{Holder, Kept, NodeError};
use crate::shown::{Rounded, Visible};
use crate::table::Table;

/// Who has a lock, as each node says. See [`LockManager::inspect`](crate::LockManager::inspect).
///
/// Shown as text for a person, whose wording may change in any release.
#[derive(Clone, Debug)]
pub struct Inspection {
    key: LockKey,
    nodes: Vec<NodeInspection>,
    needed: usize,
}

/// What one node keeps of a lock.
#[derive(Clone, Debug)]
pub struct NodeInspection {
    node: Arc<str>,
    found: Result<Found, Arc<str>>,
}

#[derive(Clone, Debug)]
struct Found {
    holding: Option<Holding>,
    fence: Option<u64>,
    abstains: Option<Duration>,
}

/// A lock that somebody has on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    owner: LockOwner,
    remaining: Option<Duration>,
}

/// What the nodes amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Somebody has it on a majority.
    #[non_exhaustive]
    Held {
        /// Who.
        owner: LockOwner,
        /// For so much longer, if it is not renewed. `None`: for ever; no client of this library writes that.
        remaining: Option<Duration>,
    },
    /// It was [taken from](crate::LockManager::force_release) somebody who had it on a majority, and who cannot renew it any
    /// more. It is free once he has noticed.
    #[non_exhaustive]
    Forced {
        /// Who had it.
        owner: LockOwner,
        /// It is free after so much longer at the latest.
        remaining: Option<Duration>,
    },
    /// Nobody has it on a majority, and a majority would grant it.
    Free,
    /// Nobody has it on a majority, and nobody could be given it: what is there was left by somebody who died, or will be
    /// settled in a moment.
    Split,
    /// Too few nodes have answered to say.
    Unknown,
}

impl Inspection {
    pub(super) fn new(
        key: LockKey,
        needed: usize,
        nodes: impl IntoIterator<Item = (Arc<str>, Result<Kept, NodeError>)>,
    ) -> Self {
        let nodes = nodes.into_iter().map(|(node, kept)| NodeInspection {
            node,
            found: kept.map(Found::from).map_err(NodeError::into_words),
        });
        Self {
            key,
            nodes: nodes.collect(),
            needed,
        }
    }

    /// The lock that was looked at.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// What each node says, in the order of the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[NodeInspection] {
        &self.nodes
    }

    /// What that amounts to. The nodes were asked at nearly the same time, not at the same: while the lock changes hands it may
    /// look split.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let holdings = || self.nodes.iter().filter_map(NodeInspection::holding);
        let of = |token: &[u8]| {
            let token = token.to_vec();
            holdings().filter(move |holding| *holding.owner.token == *token)
        };
        let strongest = holdings().max_by_key(|holding| of(&holding.owner.token).count());
        let unanswered = self.nodes.iter().filter(|node| node.found.is_err()).count();
        let mut most = 0;
        if let Some(strongest) = strongest {
            most = of(&strongest.owner.token).count();
            if most >= self.needed {
                return self.held(&of(&strongest.owner.token).collect::<Vec<_>>());
            }
        }
        let free = self.nodes.iter().filter(|node| node.would_grant()).count();
        if free >= self.needed {
            Verdict::Free
        } else if free.max(most) + unanswered >= self.needed {
            Verdict::Unknown
        } else {
            Verdict::Split
        }
    }

    /// By one owner, on a majority.
    fn held(&self, holdings: &[&Holding]) -> Verdict {
        let forced = holdings
            .iter()
            .filter(|holding| holding.owner.forced)
            .count();
        // So many that the others are no majority.
        let is_forced = self.nodes.len() - forced < self.needed;
        let mut remaining: Vec<_> = holdings.iter().map(|holding| holding.remaining).collect();
        // Longest first, and longer than any is for ever.
        remaining.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        let remaining = remaining.get(self.needed - 1).copied().flatten();
        let token = holdings.first().map(|holding| holding.owner.token.clone());
        let owner = LockOwner {
            token: token.unwrap_or_default(),
            forced: is_forced,
        };
        if is_forced {
            Verdict::Forced { owner, remaining }
        } else {
            Verdict::Held { owner, remaining }
        }
    }
}

impl NodeInspection {
    /// The node, as errors name it.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Who has the lock there. `None`: nobody, or the node did not answer.
    #[must_use]
    pub fn holding(&self) -> Option<&Holding> {
        self.found.as_ref().ok()?.holding.as_ref()
    }

    /// The largest fencing token that was given out for the lock there, while it is remembered.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.found.as_ref().ok()?.fence
    }

    /// For how much longer the node has no vote, as it restarted or is new.
    #[must_use]
    pub fn abstains(&self) -> Option<Duration> {
        self.found.as_ref().ok()?.abstains
    }

    /// Why the node did not answer, in words for an operator.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.found.as_ref().err().map(|reason| &**reason)
    }

    fn would_grant(&self) -> bool {
        let free = |found: &Found| found.holding.is_none() && found.abstains.is_none();
        self.found.as_ref().is_ok_and(free)
    }

    fn cells(&self) -> [String; 4] {
        let none = || "-".to_owned();
        match &self.found {
            Err(reason) => [self.node.to_string(), none(), none(), reason.to_string()],
            Ok(found) => {
                let fence = found.fence.map_or_else(none, |fence| fence.to_string());
                let (left, mut who) = match &found.holding {
                    None => (none(), "nobody".to_owned()),
                    Some(Holding { owner, remaining }) => {
                        let who = if owner.forced {
                            format!("taken from {owner}")
                        } else {
                            owner.to_string()
                        };
                        (left(*remaining), who)
                    }
                };
                if let Some(for_another) = found.abstains {
                    who = format!("{who} (no vote for another {for_another:.0?})");
                }
                [self.node.to_string(), left, fence, who]
            }
        }
    }
}

impl Holding {
    /// Who has it.
    #[must_use]
    pub fn owner(&self) -> &LockOwner {
        &self.owner
    }

    /// For how long the node keeps it if it is not renewed. `None`: for ever.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }
}

impl From<Kept> for Found {
    fn from(kept: Kept) -> Self {
        Self {
            holding: kept.holder.map(Holding::from),
            fence: kept.fence,
            abstains: kept.abstains,
        }
    }
}

impl From<Holder> for Holding {
    fn from(holder: Holder) -> Self {
        Self {
            owner: holder.owner.into(),
            remaining: holder.remaining,
        }
    }
}

/// How much longer, in words.
fn left(remaining: Option<Duration>) -> String {
    match remaining {
        Some(remaining) => Rounded(remaining).to_string(),
        None => "for ever".to_owned(),
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                owner,
                remaining: Some(remaining),
            } => write!(
                f,
                "held by {owner}, for another {} unless it is renewed",
                Rounded(*remaining)
            ),
            Self::Held {
                owner,
                remaining: None,
            } => write!(f, "held by {owner}, for ever"),
            Self::Forced { owner, remaining } => {
                write!(
                    f,
                    "taken from {owner}, and free in {} at the latest",
                    left(*remaining)
                )
            }
            Self::Free => f.write_str("free"),
            Self::Split => f.write_str("held by nobody, and not free: the nodes do not agree"),
            Self::Unknown => f.write_str("not known: too few nodes have answered"),
        }
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::headed(["node", "remaining", "fence", "owner"]);
        for node in &self.nodes {
            table.push(node.cells());
        }
        let key = Visible(self.key.as_str());
        write!(f, "{key}: {}\n\n{table}", self.verdict())
    }
}
