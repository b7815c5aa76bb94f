//! The connections to one server: which of them a request takes, and what is asked over all of them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value};

use super::link::Link;
use super::listening::Listening;
use super::pool::Slot;
use super::target::Target;
use super::{Limit, NodeError, Standing};
use crate::telemetry::NodeState;

/// What is to be run for as long as there is the node.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a server stands over all connections to it, as far as is known here: a key has one of them, and needs that one.
pub(super) fn stands(slots: &[Slot]) -> NodeState {
    let each = slots.iter().map(Slot::stands);
    each.reduce(|all, one| NodeState {
        up: all.up && one.up,
        votes: all.votes && one.votes,
    })
    .unwrap_or_default()
}

/// Whether a server votes over all connections to it: each has asked for itself who the server is.
pub(super) async fn standing(
    slots: &[Slot],
    target: &Target,
    limit: &Limit,
) -> Result<Standing, NodeError> {
    let asked = slots.iter().map(async |slot| {
        let link = slot.trusted(limit).await?;
        link.ask_standing(target, limit).await
    });
    let mut all = Standing::Votes;
    for standing in join_all(asked).await {
        let standing = standing?;
        if standing != Standing::Votes {
            all = standing;
        }
    }
    Ok(all)
}

/// Gives a server its vote, over all connections to it.
pub(super) async fn admit(
    slots: &[Slot],
    target: &Target,
    life: &str,
    limit: &Limit,
) -> Result<(), NodeError> {
    let admitted = slots.iter().map(async |slot| {
        let link = slot.trusted(limit).await?;
        link.admit(life, target, limit).await
    });
    join_all(admitted).await.into_iter().collect()
}

/// Always the same connection for a key: what is sent first is executed first.
pub(super) fn of_key<'a>(slots: &'a [Slot], key: &str) -> &'a Slot {
    let index = match slots.len() {
        1 => 0,
        len => {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            usize::try_from(hasher.finish() % len as u64).unwrap_or(0)
        }
    };
    &slots[index]
}

/// A connection for one request.
#[derive(Debug)]
pub(super) struct Via {
    link: Arc<Link>,
    pub(super) listening: Arc<Listening>,
    /// The server has the key of the request, but its slot not yet.
    asking: bool,
}

impl Via {
    pub(super) fn to(slot: &Slot, link: Arc<Link>) -> Self {
        Self {
            link,
            listening: Arc::clone(&slot.listening),
            asking: false,
        }
    }

    pub(super) fn asking(self) -> Self {
        let asking = true;
        Self { asking, ..self }
    }

    /// See [`Link::send`].
    pub(super) async fn send(&self, command: &Cmd, limit: &Limit) -> Result<Value, NodeError> {
        if !self.asking {
            return self.link.send(command, limit).await;
        }
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut answers = self.link.send_all(&both, limit).await?;
        answers.pop().ok_or_else(|| "an answer is missing".into())
    }

    /// See [`Link::send_all`].
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        limit: &Limit,
    ) -> Result<Vec<Value>, NodeError> {
        if !self.asking {
            return self.link.send_all(commands, limit).await;
        }
        let mut all = redis::pipe();
        for command in commands.cmd_iter() {
            all.cmd("ASKING").add_command(command.clone());
        }
        let answers = self.link.send_all(&all, limit).await?;
        Ok(answers.into_iter().skip(1).step_by(2).collect())
    }
}

impl Deref for Via {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}
