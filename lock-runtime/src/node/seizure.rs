//! Looking at a lock, and taking it from whoever has it: for an operator.
//!
//! A lock that is taken from its owner must not be free at once. The owner believes in it until he hears of it, or until the
//! time is over that he was granted; and a lock that is merely deleted, he takes again with his next renewal. So what is left in
//! his place is a [mark](MARK) with his name, for the time that the lock had left. His renewals find somebody else there, and
//! he has lost it. His release ends the mark, as he knows that he has it no more. If nothing is heard of him, the mark ends
//! when he, too, knows it. No time that was granted is made shorter by it, so whoever is granted the lock comes later.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::commands::{command, whole_millis};
use super::connections::Via;
use super::route::Servers;
use super::script::SEIZE;
use super::words::UNEXPECTED;
use super::{Holder, Limit, NodeError, Owner, sibling};

/// Stands before the owner from whom an operator has taken a lock.
pub(crate) const MARK: &[u8] = b"forced:";

impl Owner {
    /// The owner from whom the lock was taken, if it was.
    pub(crate) fn seized_from(&self) -> Option<Self> {
        self.0.strip_prefix(MARK).map(|owner| Self(owner.into()))
    }
}

/// A lock that is to be taken from its owner, the same on all nodes.
#[derive(Debug)]
pub(crate) struct Seizure {
    pub(crate) key: Arc<str>,
    /// How long the mark lives where the lock has no end, or nobody has it; and at the least, where somebody is refused.
    pub(crate) keep: Duration,
    /// Whose renewals are to be refused where nobody has it, or not for long enough: they would take it again.
    pub(crate) refused: Option<Owner>,
    pub(crate) limit: Limit,
    /// As servers take it; made by the first node that needs it.
    pub(crate) command: OnceLock<Cmd>,
}

/// What a node keeps of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) holder: Option<Holder>,
    /// The largest fencing token that was stored.
    pub(crate) fence: Option<u64>,
    /// The node has no vote for so much longer.
    pub(crate) abstains: Option<Duration>,
}

pub(super) async fn inspect(
    servers: &Servers,
    key: &str,
    limit: &Limit,
) -> Result<Kept, NodeError> {
    let mut questions = ::redis::pipe();
    questions.cmd("GET").arg(key);
    questions.cmd("PTTL").arg(key);
    let (link, said) = ask(servers, key, &questions, limit).await?;
    let [owner, millis] = &*said else {
        return Err(UNEXPECTED.into());
    };
    // By itself: while a slot of a cluster moves, the two may be on two servers.
    let remembered = sibling::fence(key);
    let mut question = ::redis::pipe();
    question.cmd("GET").arg(&*remembered);
    let (_, said) = ask(servers, &remembered, &question, limit).await?;
    let [fence] = &*said else {
        return Err(UNEXPECTED.into());
    };
    Ok(Kept {
        holder: holder(owner, millis)?,
        fence: ::redis::from_redis_value_ref(fence).ok(),
        abstains: match link.votes() {
            Err(NodeError::Abstains(for_another)) => Some(for_another),
            Ok(()) | Err(NodeError::Failed(..)) => None,
        },
    })
}

/// Asks the server that has the key.
async fn ask(
    servers: &Servers,
    key: &str,
    questions: &Pipeline,
    limit: &Limit,
) -> Result<(Via, Vec<Value>), NodeError> {
    let mut way = servers.way(key);
    loop {
        let link = way.any(limit).await?;
        match link.send_all(questions, limit).await {
            Err(error) if way.leads_on(&error, limit).await => {}
            answers => return Ok((link, answers?)),
        }
    }
}

pub(super) async fn seize(
    servers: &Servers,
    seizure: &Seizure,
) -> Result<Option<Holder>, NodeError> {
    let limit = &seizure.limit;
    let with = |name: &str, script: &str| {
        let mut command = command(name, &seizure.key);
        command.arg(script).arg(1).arg(&*seizure.key);
        command.arg(whole_millis(seizure.keep));
        if let Some(owner) = &seizure.refused {
            command.arg(&*owner.0);
        }
        command
    };
    let mut way = servers.way(&seizure.key);
    let answer = loop {
        let link = way.any(limit).await?;
        match SEIZE
            .call(&link, limit, &seizure.command, with, || true)
            .await
        {
            Err(error) if way.leads_on(&error, limit).await => {}
            answer => break answer?,
        }
    };
    match &answer {
        Value::Array(answer) => match &**answer {
            [owner, millis] => holder(owner, millis),
            _ => Err(UNEXPECTED.into()),
        },
        _ => Err(UNEXPECTED.into()),
    }
}

/// From an owner, or none, and `PTTL`.
pub(super) fn holder(owner: &Value, millis: &Value) -> Result<Option<Holder>, NodeError> {
    match (owner, millis) {
        // It ended between the two questions: -1 is for ever.
        (Value::Nil, _) | (Value::BulkString(_), Value::Int(-2)) => Ok(None),
        (Value::BulkString(owner), Value::Int(millis)) => Ok(Some(Holder {
            owner: Owner(owner.as_slice().into()),
            remaining: u64::try_from(*millis).ok().map(Duration::from_millis),
        })),
        _ => Err(UNEXPECTED.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_ends_while_it_is_looked_at_is_not_held_for_ever() {
        let owner = Value::BulkString(b"x".to_vec());
        let remaining = |millis: i64| {
            let holder = holder(&owner, &Value::Int(millis)).expect("an answer");
            holder.map(|holder| holder.remaining)
        };
        assert_eq!(remaining(7), Some(Some(Duration::from_millis(7))));
        assert_eq!(remaining(-1), Some(None));
        assert_eq!(remaining(-2), None);
    }
}
