//! A Redis server as a node, or a cluster of them.
//!
//! What is written is what redsync, node-redlock, redis-py and others write: the owner token under the lock's key, with a
//! TTL in milliseconds; so services in other languages can share a lock.

use std::pin::pin;
use std::sync::{Arc, OnceLock};

use redis::Value;

use super::cluster::Cluster;
use super::commands::{acquire, acquire_fenced, extend, raise_fence, release, set_nx_get};
use super::connections::Work;
use super::facts::Server;
use super::route::Servers;
use super::script::{
    ACQUIRE, ACQUIRE_FENCED, EXTEND, RAISE, RELEASE, RELEASE_ALOUD, RELEASE_HEARD,
};
use super::seizure::{holder, inspect, seize};
use super::sibling;
use super::words::UNEXPECTED;
use super::{
    Acquired, Ask, Extension, Failure, Holder, Kept, Limit, Listener, Node, NodeError, Raise,
    Released, Reply, Return, Seizure, Standing,
};
use crate::telemetry::{NodeMeter, watch};

pub(crate) use super::address::Address;
pub(crate) use super::target::{Place, Sentinels, Target, marker};
pub(crate) use super::tls::Connector;
#[cfg(feature = "tls")]
pub(crate) use super::tls::Tls;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisNode {
    name: Arc<str>,
    servers: Arc<Servers>,
    meter: NodeMeter,
}

impl RedisNode {
    /// A node with `connections` connections to its server, or to each of them, and the work that keeps it connected.
    pub(crate) fn new(target: Target, connections: usize) -> (Self, Vec<Work>) {
        let name = Arc::clone(&target.name);
        let (servers, mut work) = match &target.place {
            Place::Cluster(seeds) => {
                let seeds = seeds.clone();
                let (cluster, work) = Cluster::new(target, seeds, connections);
                (Servers::Cluster(cluster), work)
            }
            Place::Server(_) | Place::Sentinels(_) => Servers::one(target, connections),
        };
        let servers = Arc::new(servers);
        let watched = Arc::downgrade(&servers);
        let stands = move || watched.upgrade().map(|servers| servers.stands());
        work.extend(watch(&name, stands).map(|watch| Box::pin(watch) as Work));
        let meter = NodeMeter::new(&name);
        let node = Self {
            name,
            servers,
            meter,
        };
        (node, work)
    }

    /// Has an answer counted to what was asked within this limit.
    fn told<T>(&self, limit: &Limit, answer: Result<T, NodeError>) -> Result<T, NodeError> {
        match &answer {
            Ok(_) => self.meter.answered(limit.from()),
            // It has not failed.
            Err(NodeError::Failed(Failure::NotAsked, _) | NodeError::Abstains(_)) => {}
            Err(NodeError::Failed(failure, _)) => self.meter.failed(failure.word()),
        }
        answer
    }

    async fn take(&self, ask: &Ask, position: usize) -> Result<Acquired, NodeError> {
        let limit = &ask.limit;
        let mut way = self.servers.way(&ask.key);
        let (link, answer) = loop {
            let link = way.trusted(limit).await?;
            link.votes()?;
            if !ask.commit(position) {
                return Err(NodeError::not_asked("decided without it"));
            }
            let still = || ask.commit(position);
            let answer = if let Some(fence) = &ask.fence {
                let with = |name: &str, script: &str| acquire_fenced(name, script, ask, fence);
                ACQUIRE_FENCED
                    .call(&link, limit, &ask.command, with, still)
                    .await
            } else if link.set_nx_get {
                let command = ask.command.get_or_init(|| set_nx_get(ask));
                link.send(command, limit).await
            } else {
                let with = |name: &str, script: &str| acquire(name, script, ask);
                let own = OnceLock::new();
                ACQUIRE.call(&link, limit, &own, with, still).await
            };
            match answer {
                Err(error) if way.leads_on(&error, limit).await => {}
                answer => break (link, answer?),
            }
        };
        let fence = match answer {
            Value::Nil => 0,
            Value::Int(stored) => u64::try_from(stored).map_err(|_| UNEXPECTED)?,
            Value::BulkString(owner) => match Acquired::found(&owner, &ask.token) {
                Acquired::Granted(_) if link.asks_replicas() => {
                    // Nothing was written now, so waiting for replicas would say nothing.
                    return Err(
                        "it had granted this before, and its replicas may not have it".into(),
                    );
                }
                found => return Ok(found),
            },
            _ => return Err(UNEXPECTED.into()),
        };
        link.replicated(limit).await?;
        Ok(Acquired::Granted(fence))
    }

    /// Sent to a node without a vote too, so that the lock is there when it has it again; but its answer does not count.
    async fn renew(&self, extension: &Extension, position: usize) -> Result<Acquired, NodeError> {
        let limit = &extension.limit;
        let mut way = self.servers.way(&extension.key);
        let mut fence = extension.fence.as_ref();
        let (link, answer) = loop {
            let link = way.trusted(limit).await?;
            if !extension.commit(position) {
                return Err(NodeError::not_asked("the lease has ended"));
            }
            let with = |name: &str, script: &str| extend(name, script, extension, fence);
            let still = || extension.commit(position);
            let own = OnceLock::new();
            let command = if fence.is_some() == extension.fence.is_some() {
                &extension.command
            } else {
                &own
            };
            let answer = EXTEND.call(&link, limit, command, with, still).await;
            match answer {
                Err(error) if way.leads_on(&error, limit).await => {
                    // The fence is remembered wherever it is, and the lock must not end meanwhile.
                    fence = fence.filter(|_| !error.is_tryagain());
                }
                answer => break (link, answer?),
            }
        };
        link.votes()?;
        match answer {
            Value::Int(1) => {
                link.replicated(limit).await?;
                Ok(Acquired::Granted(0))
            }
            Value::BulkString(owner) => Ok(Acquired::found(&owner, &extension.token)),
            _ => Err(UNEXPECTED.into()),
        }
    }

    async fn give_back(&self, give_back: &Return) -> Result<Released, NodeError> {
        let limit = &give_back.limit;
        let mut way = self.servers.way(&give_back.key);
        let (link, answer) = loop {
            let link = if give_back.again {
                way.trusted(limit).await?
            } else {
                way.any(limit).await?
            };
            let aloud = give_back.aloud.filter(|_| link.publishes());
            let script = match aloud {
                Some(_) if link.counts_listeners => &RELEASE_HEARD,
                Some(_) => &RELEASE_ALOUD,
                None => &RELEASE,
            };
            let own = OnceLock::new();
            let is_common = aloud.is_none() || !link.counts_listeners;
            let command = if aloud == give_back.aloud && is_common {
                &give_back.command
            } else {
                &own
            };
            let with = |name: &str, script: &str| release(name, script, give_back, aloud);
            let answer = script.call(&link, limit, command, with, || true).await;
            match answer {
                Err(error) if way.leads_on(&error, limit).await => {}
                answer => break (link, answer?),
            }
        };
        match answer {
            Value::Int(0) => Ok(Released::NotOurs),
            Value::Int(-1) => {
                link.publish_no_more(&self.name);
                Ok(Released::Done { told: 0 })
            }
            Value::Int(one_and_told) => {
                let one_and_told = u64::try_from(one_and_told).map_err(|_| UNEXPECTED)?;
                let told = one_and_told.saturating_sub(1);
                let ours = || {
                    link.listening
                        .is_subscribed(&sibling::channel(&give_back.key))
                };
                let told = told - u64::from(told > 0 && ours());
                Ok(Released::Done { told })
            }
            _ => Err(UNEXPECTED.into()),
        }
    }
}

impl Node for RedisNode {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let answer = self.take(&ask, position).await;
            self.told(&ask.limit, answer)
        })
    }

    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let answer = self.renew(&extension, position).await;
            self.told(&extension.limit, answer)
        })
    }

    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64> {
        Box::pin(async move {
            let limit = &raise.limit;
            let mut way = self.servers.way(&raise.key);
            let (link, answer) = loop {
                let link = way.trusted(limit).await?;
                let with = |name: &str, script: &str| raise_fence(name, script, &raise);
                let answer = RAISE.call(&link, limit, &raise.command, with, || true);
                match answer.await {
                    Err(error) if way.leads_on(&error, limit).await => {}
                    answer => break (link, answer?),
                }
            };
            match answer {
                Value::Int(-1) => Err("the lock is not ours there".into()),
                Value::Int(stored) => {
                    let stored = u64::try_from(stored).map_err(|_| "unexpected fencing token")?;
                    link.replicated(limit).await?;
                    Ok(stored)
                }
                _ => Err(UNEXPECTED.into()),
            }
        })
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        Box::pin(async move {
            let answer = self.give_back(&give_back).await;
            self.told(&give_back.limit, answer)
        })
    }

    fn look(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Option<Holder>> {
        Box::pin(async move {
            let mut questions = redis::pipe();
            questions.cmd("GET").arg(&*key);
            questions.cmd("PTTL").arg(&*key);
            let mut way = self.servers.way(&key);
            let answers = loop {
                let link = way.trusted(&limit).await?;
                link.votes()?;
                match link.send_all(&questions, &limit).await {
                    Err(error) if way.leads_on(&error, &limit).await => {}
                    answers => break answers?,
                }
            };
            match answers.as_slice() {
                [owner, millis] => holder(owner, millis),
                _ => Err(UNEXPECTED.into()),
            }
        })
    }

    fn listen(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Listener> {
        Box::pin(async move {
            let unheard =
                |reason: &str| NodeError::from(&*format!("cannot be listened to: {reason}"));
            let link = self.servers.way(&key).trusted(&limit).await?;
            link.hears.as_ref().map_err(|reason| unheard(reason))?;
            let mut listener = link.listening.join(&sibling::channel(&key).into());
            {
                let subscribed = pin!(async { Ok(listener.subscribed().await) });
                let answer = link.answered(subscribed, &limit).await?;
                answer.map_err(|reason| unheard(&reason))?;
            }
            Ok(listener)
        })
    }

    fn ping(self: Arc<Self>, limit: Limit) -> Reply<()> {
        Box::pin(async move { self.servers.ping(&limit).await })
    }

    fn standing(self: Arc<Self>, limit: Limit) -> Reply<Standing> {
        Box::pin(async move { self.servers.standing(&limit).await })
    }

    fn inspect(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Kept> {
        Box::pin(async move { inspect(&self.servers, &key, &limit).await })
    }

    fn seize(self: Arc<Self>, seizure: Arc<Seizure>) -> Reply<Option<Holder>> {
        Box::pin(async move { seize(&self.servers, &seizure).await })
    }

    fn examine(self: Arc<Self>, limit: Limit) -> Reply<Vec<Server>> {
        Box::pin(async move { self.servers.examine(&limit).await })
    }

    fn admit(self: Arc<Self>, life: Arc<str>, limit: Limit) -> Reply<()> {
        Box::pin(async move { self.servers.admit(&life, &limit).await })
    }
}

#[cfg(test)]
pub(super) mod tests;
