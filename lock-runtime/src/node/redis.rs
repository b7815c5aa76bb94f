//! A Redis server as a node.
//!
//! What is written is what redsync, node-redlock, redis-py and others write: the owner token under the lock's key, with a
//! TTL in milliseconds; so services in other languages can share a lock.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::pool::{Link, Slot};
use super::{Acquired, Ask, Holder, Node, NodeError, Owner, Released, Reply, Token};

pub(crate) use super::pool::Target;
pub(crate) use super::wire::Address;

/// A script, called by its hash, and by its text where the server does not know the hash.
pub(super) struct Script {
    pub(super) source: &'static str,
    hash: LazyLock<String>,
}

pub(super) static RELEASE: Script = Script {
    source: include_str!("scripts/release.lua"),
    hash: LazyLock::new(|| redis::Script::new(RELEASE.source).get_hash().to_owned()),
};

const ACQUIRE: &str = include_str!("scripts/acquire.lua");

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisNode {
    target: Arc<Target>,
    slots: Box<[Slot]>,
}

impl RedisNode {
    /// A node with `connections` connections, and the work that keeps each connected.
    pub(crate) fn new(
        target: Target,
        connections: usize,
    ) -> (Self, Vec<impl Future<Output = ()> + Send + 'static>) {
        let target = Arc::new(target);
        let (slots, work): (Vec<_>, Vec<_>) = (0..connections)
            .map(|_| Slot::new(Arc::clone(&target)))
            .unzip();
        let slots = slots.into();
        (Self { target, slots }, work)
    }

    /// Always the same connection for a key: what is sent first is executed first.
    fn slot(&self, key: &str) -> &Slot {
        let index = match self.slots.len() {
            1 => 0,
            len => {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                usize::try_from(hasher.finish() % len as u64).unwrap_or(0)
            }
        };
        &self.slots[index]
    }
}

impl Node for RedisNode {
    fn name(&self) -> &Arc<str> {
        &self.target.name
    }

    fn acquire(self: Arc<Self>, ask: Ask) -> Reply<Acquired> {
        Box::pin(async move {
            let link = self.slot(&ask.key).trusted(ask.deadline).await?;
            let command = acquire_command(&link, &ask);
            if !ask.commit() {
                return Err("decided without it".into());
            }
            match link.send(&command, ask.deadline).await? {
                Value::Nil => Ok(Acquired::Granted),
                Value::BulkString(owner) => Ok(Acquired::found(&owner, ask.token)),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn release(
        self: Arc<Self>,
        key: Arc<str>,
        token: Token,
        keep: Option<Duration>,
        deadline: Instant,
    ) -> Reply<Released> {
        Box::pin(async move {
            let link = self.slot(&key).any(deadline).await?;
            let keep = keep.map_or(0, whole_millis);
            let call = |name: &str, script: &str| {
                redis::cmd(name)
                    .arg(script)
                    .arg(1)
                    .arg(&*key)
                    .arg(token.as_bytes())
                    .arg(keep)
                    .to_owned()
            };
            let by_hash = link.send(&call("EVALSHA", &RELEASE.hash), deadline).await;
            let answer = match by_hash {
                Err(NodeError(reason)) if reason.starts_with("NOSCRIPT") => {
                    link.send(&call("EVAL", RELEASE.source), deadline).await?
                }
                answer => answer?,
            };
            match answer {
                Value::Int(1) => Ok(Released::Done),
                Value::Int(0) => Ok(Released::NotOurs),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn look(self: Arc<Self>, key: Arc<str>, deadline: Instant) -> Reply<Option<Holder>> {
        Box::pin(async move {
            let link = self.slot(&key).trusted(deadline).await?;
            let mut questions = redis::pipe();
            questions.cmd("GET").arg(&*key);
            questions.cmd("PTTL").arg(&*key);
            match link.send_all(&questions, deadline).await?.as_slice() {
                [Value::Nil, _] => Ok(None),
                [Value::BulkString(owner), Value::Int(millis)] => Ok(Some(Holder {
                    owner: Owner(owner.as_slice().into()),
                    remaining: u64::try_from(*millis).ok().map(Duration::from_millis),
                })),
                answers => Err(NodeError(format!("unexpected answer: {answers:?}").into())),
            }
        })
    }

    fn ping(self: Arc<Self>, deadline: Instant) -> Reply<()> {
        Box::pin(async move {
            let link = self.slot("").trusted(deadline).await?;
            link.send(&redis::cmd("PING"), deadline).await.map(drop)
        })
    }
}

/// One command in either case, never a script by its hash: a second try could be executed after the release.
fn acquire_command(link: &Link, ask: &Ask) -> Cmd {
    let millis = whole_millis(ask.ttl);
    if link.set_nx_get {
        redis::cmd("SET")
            .arg(&*ask.key)
            .arg(ask.token.as_bytes())
            .arg("NX")
            .arg("PX")
            .arg(millis)
            .arg("GET")
            .to_owned()
    } else {
        redis::cmd("EVAL")
            .arg(ACQUIRE)
            .arg(1)
            .arg(&*ask.key)
            .arg(ask.token.as_bytes())
            .arg(millis)
            .to_owned()
    }
}

/// Redis counts in milliseconds, and takes none for an error.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1000))
        .unwrap_or(u64::MAX)
        .max(1)
}

fn unexpected(answer: &Value) -> NodeError {
    NodeError(format!("unexpected answer: {answer:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_never_none() {
        assert_eq!(whole_millis(Duration::ZERO), 1);
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_micros(1_001)), 2);
        assert_eq!(whole_millis(Duration::from_millis(500)), 500);
        assert_eq!(whole_millis(Duration::MAX), u64::MAX);
    }
}
