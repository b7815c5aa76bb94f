//! A Redis server as a node.
//!
//! What is written is what redsync, node-redlock, redis-py and others write: the owner token under the lock's key, with a
//! TTL in milliseconds; so services in other languages can share a lock.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, Value};

use super::pool::Slot;
use super::{Acquired, Ask, Holder, Limit, Node, NodeError, Owner, Released, Reply, Return};

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

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let link = self.slot(&ask.key).trusted(&ask.limit).await?;
            let by_script;
            let command = if link.set_nx_get {
                ask.command.get_or_init(|| set_nx_get(&ask))
            } else {
                by_script = set_by_script(&ask);
                &by_script
            };
            if !ask.commit(position) {
                return Err("decided without it".into());
            }
            match link.send(command, &ask.limit).await? {
                Value::Nil => Ok(Acquired::Granted),
                Value::BulkString(owner) => Ok(Acquired::found(&owner, ask.token)),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        Box::pin(async move {
            let limit = &give_back.limit;
            let link = self.slot(&give_back.key).any(limit).await?;
            let by_hash = || release("EVALSHA", &RELEASE.hash, &give_back);
            let command = give_back.command.get_or_init(by_hash);
            let answer = match link.send(command, limit).await {
                Err(NodeError(reason)) if reason.starts_with("NOSCRIPT") => {
                    let by_text = release("EVAL", RELEASE.source, &give_back);
                    link.send(&by_text, limit).await?
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

    fn look(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Option<Holder>> {
        Box::pin(async move {
            let link = self.slot(&key).trusted(&limit).await?;
            let mut questions = redis::pipe();
            questions.cmd("GET").arg(&*key);
            questions.cmd("PTTL").arg(&*key);
            match link.send_all(&questions, &limit).await?.as_slice() {
                [Value::Nil, _] => Ok(None),
                [Value::BulkString(owner), Value::Int(millis)] => Ok(Some(Holder {
                    owner: Owner(owner.as_slice().into()),
                    remaining: u64::try_from(*millis).ok().map(Duration::from_millis),
                })),
                answers => Err(NodeError(format!("unexpected answer: {answers:?}").into())),
            }
        })
    }

    fn ping(self: Arc<Self>, limit: Limit) -> Reply<()> {
        Box::pin(async move {
            let link = self.slot("").trusted(&limit).await?;
            link.send(&redis::cmd("PING"), &limit).await.map(drop)
        })
    }
}

fn set_nx_get(ask: &Ask) -> Cmd {
    let mut command = command("SET", &ask.key);
    command.arg(&*ask.key).arg(ask.token.as_bytes()).arg("NX");
    command.arg("PX").arg(whole_millis(ask.ttl)).arg("GET");
    command
}

/// The same for servers that cannot. Never by the script's hash: a second try, with its text, could be executed after the
/// release.
fn set_by_script(ask: &Ask) -> Cmd {
    let mut command = command("EVAL", &ask.key);
    command.arg(ACQUIRE).arg(1).arg(&*ask.key);
    command.arg(ask.token.as_bytes()).arg(whole_millis(ask.ttl));
    command
}

fn release(name: &str, script: &str, give_back: &Return) -> Cmd {
    let mut command = command(name, &give_back.key);
    command.arg(script).arg(1).arg(&*give_back.key);
    command.arg(give_back.token.as_bytes());
    command.arg(give_back.keep.map_or(0, whole_millis));
    command
}

/// An empty command with room for what the hot path sends.
fn command(name: &str, key: &str) -> Cmd {
    const MOST_ARGUMENTS: usize = 7;
    const NAME_HASH_TOKEN_AND_NUMBERS: usize = 128;
    let mut command = Cmd::with_capacity(MOST_ARGUMENTS, NAME_HASH_TOKEN_AND_NUMBERS + key.len());
    command.arg(name);
    command
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
