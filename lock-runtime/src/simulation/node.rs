//! A node as one client sees it: over a connection that breaks, delays and loses.

use std::fmt;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::task::AbortHandle;
use tokio::time::{sleep_until, timeout};

use super::clock::Clock;
use super::network::{Answered, Shared};
use super::scenario::NODE_TIMEOUT;
use super::server::{Answer, Question};
use crate::node::facts::Server;
use crate::node::{
    Acquired, Ask, Extension, Holder, Kept, Limit, Listener, Listening, Node, NodeError, Raise,
    Released, Reply, Return, Seizure, Standing, Subscriptions,
};

/// See the [module](self).
pub(super) struct SimulatedNode {
    name: Arc<str>,
    connection: Arc<Connection>,
    keeping_told: AbortHandle,
}

/// What its requests are sent over.
struct Connection {
    client: usize,
    node: usize,
    clock: Clock,
    shared: Arc<Shared>,
    listening: Arc<Listening>,
    /// The number of the one that there is, as far as listeners know.
    number: AtomicU64,
}

impl fmt::Debug for SimulatedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl SimulatedNode {
    pub(super) fn new(client: usize, node: usize, clock: Clock, shared: &Arc<Shared>) -> Self {
        let name: Arc<str> = format!("node-{node}").into();
        let connection = Arc::new(Connection {
            client,
            node,
            clock,
            shared: Arc::clone(shared),
            listening: shared.network().listening(client, node),
            number: AtomicU64::new(0),
        });
        let (its, called) = (Arc::clone(&connection), Arc::clone(&name));
        let keeping_told =
            tokio::spawn(async move { its.listening.keep_told(&*its, &called).await });
        Self {
            name,
            connection,
            keeping_told: keeping_told.abort_handle(),
        }
    }
}

impl Drop for SimulatedNode {
    fn drop(&mut self) {
        self.keeping_told.abort();
    }
}

impl Connection {
    /// Waits for a connection, and says to which life of the server it leads.
    async fn connected(&self, limit: &Limit) -> Result<usize, NodeError> {
        loop {
            let (now, scenario) = (self.clock.now(), &self.shared.scenario);
            let connection = self
                .shared
                .network()
                .connect(scenario, self.client, self.node, now);
            match connection {
                Ok(reached) => {
                    let life = reached.ok_or("connection refused")?;
                    self.is_new_to_listeners();
                    return Ok(life);
                }
                Err(at) => {
                    let mut waits = pin!(sleep_until(self.clock.at(at)));
                    let wait =
                        |context: &mut Context<'_>| waits.as_mut().poll(context).map(|()| Ok(()));
                    until(limit, wait).await?;
                }
            }
        }
    }

    /// What was subscribed to over another one has to be again.
    fn is_new_to_listeners(&self) {
        let number = self.shared.network().connection(self.client, self.node);
        if self.number.swap(number, Ordering::Relaxed) != number {
            self.listening.lost();
        }
    }

    fn votes(&self, life: usize) -> Result<(), NodeError> {
        let (now, scenario) = (self.clock.now(), &self.shared.scenario);
        let network = self.shared.network();
        let abstains = network.abstains(scenario, self.client, self.node, life, now);
        match abstains {
            Some(left) => Err(NodeError::Abstains(Duration::from_millis(left))),
            None => Ok(()),
        }
    }

    async fn ask(&self, question: Question, limit: &Limit) -> Answered {
        let (now, scenario) = (self.clock.now(), &self.shared.scenario);
        let mut answer =
            self.shared
                .network()
                .send(scenario, self.client, self.node, now, question);
        until(limit, |context| {
            std::pin::Pin::new(&mut answer)
                .poll(context)
                .map(|heard| heard.unwrap_or_else(|_| Err("the world has ended".into())))
        })
        .await
    }

    /// Asks something that is only good for the connection that there is.
    async fn tell(&self, question: impl FnOnce(u64) -> Question) -> Result<(), RedisError> {
        let forever = Limit::within(Duration::MAX);
        let told = async {
            self.connected(&forever).await?;
            let number = self.number.load(Ordering::Relaxed);
            self.ask(question(number), &forever).await?;
            let same = self.number.load(Ordering::Relaxed) == number;
            same.then_some(())
                .ok_or_else(|| NodeError::from("another connection"))
        };
        let patience = Duration::from_millis(4 * NODE_TIMEOUT);
        let failed = || (ErrorKind::Io, "no answer").into();
        match timeout(patience, told).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(failed()),
        }
    }
}

impl Subscriptions for Connection {
    async fn subscribe(&self, channels: &[Arc<str>]) -> Result<(), RedisError> {
        let keys = channels.to_vec();
        self.tell(|number| Question::Subscribe(keys, number)).await
    }

    async fn unsubscribe(&self, channels: &[Arc<str>]) -> Result<(), RedisError> {
        let keys = channels.to_vec();
        self.tell(|number| Question::Unsubscribe(keys, number))
            .await
    }
}

/// Waits until the limit is over.
async fn until<T>(
    limit: &Limit,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<T, NodeError>>,
) -> Result<T, NodeError> {
    poll_fn(|context| match poll(context) {
        Poll::Pending if limit.is_over() => Poll::Ready(Err("no answer".into())),
        polled => polled,
    })
    .await
}

fn acquired(answer: Answer) -> Result<Acquired, NodeError> {
    match answer {
        Answer::Acquired(acquired) => Ok(acquired),
        answer => Err(unexpected(&answer)),
    }
}

fn unexpected(answer: &Answer) -> NodeError {
    unreachable!("a server answers what it was asked: {answer:?}")
}

impl Node for SimulatedNode {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn acquire(self: Arc<Self>, ask: Arc<Ask>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let life = self.connection.connected(&ask.limit).await?;
            self.connection.votes(life)?;
            if !ask.commit(position) {
                return Err("decided without it".into());
            }
            let question = Question::Acquire(Arc::clone(&ask));
            acquired(self.connection.ask(question, &ask.limit).await?).map(
                |acquired| match acquired {
                    Acquired::Held(owner) => Acquired::found(&owner.0, &ask.token),
                    granted @ Acquired::Granted(_) => granted,
                },
            )
        })
    }

    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let life = self.connection.connected(&extension.limit).await?;
            if !extension.commit(position) {
                return Err("the lease has ended".into());
            }
            let question = Question::Extend(Arc::clone(&extension));
            let answer = self.connection.ask(question, &extension.limit).await?;
            self.connection.votes(life)?;
            acquired(answer)
        })
    }

    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64> {
        Box::pin(async move {
            self.connection.connected(&raise.limit).await?;
            let question = Question::Raise(Arc::clone(&raise));
            match self.connection.ask(question, &raise.limit).await? {
                Answer::Raised(stored) => Ok(stored),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        Box::pin(async move {
            self.connection.connected(&give_back.limit).await?;
            let question = Question::Release(Arc::clone(&give_back));
            match self.connection.ask(question, &give_back.limit).await? {
                Answer::Released(released) => Ok(released),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn look(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Option<Holder>> {
        Box::pin(async move {
            let life = self.connection.connected(&limit).await?;
            self.connection.votes(life)?;
            match self.connection.ask(Question::Look(key), &limit).await? {
                Answer::Holder(holder) => Ok(holder),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn listen(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Listener> {
        Box::pin(async move {
            self.connection.connected(&limit).await?;
            let mut listener = self.connection.listening.join(&key);
            {
                let mut subscribed = pin!(listener.subscribed());
                let poll = |context: &mut Context<'_>| subscribed.as_mut().poll(context).map(Ok);
                until(&limit, poll).await?.map_err(NodeError::from)?;
            }
            Ok(listener)
        })
    }

    fn ping(self: Arc<Self>, limit: Limit) -> Reply<()> {
        Box::pin(async move {
            self.connection.connected(&limit).await?;
            self.connection.ask(Question::Ping, &limit).await.map(drop)
        })
    }

    fn standing(self: Arc<Self>, limit: Limit) -> Reply<Standing> {
        Box::pin(async move {
            let life = self.connection.connected(&limit).await?;
            if self.connection.votes(life).is_ok() {
                return Ok(Standing::Votes);
            }
            let remembers = match self.connection.ask(Question::Standing, &limit).await? {
                Answer::Remembers(life) => life,
                answer => return Err(unexpected(&answer)),
            };
            let in_this_life = remembers == Some(life);
            if in_this_life {
                let mut network = self.connection.shared.network();
                network.admit(self.connection.client, self.connection.node, life);
            }
            match self.connection.votes(life) {
                Err(NodeError::Abstains(for_another)) if !in_this_life => Ok(Standing::Abstains {
                    for_another,
                    unknown: remembers.is_none().then(|| life.to_string().into()),
                }),
                _ => Ok(Standing::Votes),
            }
        })
    }

    /// No client of the simulation asks this.
    fn inspect(self: Arc<Self>, _: Arc<str>, _: Limit) -> Reply<Kept> {
        Box::pin(ready(Err("not asked for".into())))
    }

    fn seize(self: Arc<Self>, seizure: Arc<Seizure>) -> Reply<Option<Holder>> {
        Box::pin(async move {
            self.connection.connected(&seizure.limit).await?;
            let question = Question::Seize(Arc::clone(&seizure));
            match self.connection.ask(question, &seizure.limit).await? {
                Answer::Holder(holder) => Ok(holder),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    /// No client of the simulation asks.
    fn examine(self: Arc<Self>, _limit: Limit) -> Reply<Vec<Server>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn admit(self: Arc<Self>, known: Arc<str>, limit: Limit) -> Reply<()> {
        Box::pin(async move {
            let life = self.connection.connected(&limit).await?;
            if *known != *life.to_string() {
                return Err("it restarted meanwhile".into());
            }
            self.connection.ask(Question::Admit, &limit).await?;
            let mut network = self.connection.shared.network();
            network.admit(self.connection.client, self.connection.node, life);
            Ok(())
        })
    }
}
