//! A node as one client sees it: over a connection that breaks, delays and loses.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::sleep_until;

use super::clock::Clock;
use super::network::{Answered, Shared};
use super::server::{Answer, Question};
use crate::node::{
    Acquired, Ask, Extension, Holder, Limit, Listener, Node, NodeError, Raise, Released, Reply,
    Return, Standing,
};

/// See the [module](self).
pub(super) struct SimulatedNode {
    name: Arc<str>,
    client: usize,
    node: usize,
    clock: Clock,
    shared: Arc<Shared>,
}

impl fmt::Debug for SimulatedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl SimulatedNode {
    pub(super) fn new(client: usize, node: usize, clock: Clock, shared: &Arc<Shared>) -> Self {
        Self {
            name: format!("node-{node}").into(),
            client,
            node,
            clock,
            shared: Arc::clone(shared),
        }
    }

    /// Waits for a connection, and says to which life of the server it leads.
    async fn connected(&self, limit: &Limit) -> Result<usize, NodeError> {
        loop {
            let (now, scenario) = (self.clock.now(), &self.shared.scenario);
            let connection = self
                .shared
                .network()
                .connect(scenario, self.client, self.node, now);
            match connection {
                Ok(reached) => return reached.ok_or_else(|| "connection refused".into()),
                Err(at) => {
                    let mut waits = pin!(sleep_until(self.clock.at(at)));
                    let wait =
                        |context: &mut Context<'_>| waits.as_mut().poll(context).map(|()| Ok(()));
                    until(limit, wait).await?;
                }
            }
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
            let life = self.connected(&ask.limit).await?;
            self.votes(life)?;
            if !ask.commit(position) {
                return Err("decided without it".into());
            }
            let question = Question::Acquire(Arc::clone(&ask));
            acquired(self.ask(question, &ask.limit).await?).map(|acquired| match acquired {
                Acquired::Held(owner) => Acquired::found(&owner.0, ask.token),
                granted @ Acquired::Granted(_) => granted,
            })
        })
    }

    fn extend(self: Arc<Self>, extension: Arc<Extension>, position: usize) -> Reply<Acquired> {
        Box::pin(async move {
            let life = self.connected(&extension.limit).await?;
            if !extension.commit(position) {
                return Err("the lease has ended".into());
            }
            let question = Question::Extend(Arc::clone(&extension));
            let answer = self.ask(question, &extension.limit).await?;
            self.votes(life)?;
            acquired(answer)
        })
    }

    fn raise(self: Arc<Self>, raise: Arc<Raise>) -> Reply<u64> {
        Box::pin(async move {
            self.connected(&raise.limit).await?;
            let question = Question::Raise(Arc::clone(&raise));
            match self.ask(question, &raise.limit).await? {
                Answer::Raised(stored) => Ok(stored),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn release(self: Arc<Self>, give_back: Arc<Return>) -> Reply<Released> {
        Box::pin(async move {
            self.connected(&give_back.limit).await?;
            let question = Question::Release(Arc::clone(&give_back));
            match self.ask(question, &give_back.limit).await? {
                Answer::Released(released) => Ok(released),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn look(self: Arc<Self>, key: Arc<str>, limit: Limit) -> Reply<Option<Holder>> {
        Box::pin(async move {
            let life = self.connected(&limit).await?;
            self.votes(life)?;
            match self.ask(Question::Look(key), &limit).await? {
                Answer::Holder(holder) => Ok(holder),
                answer => Err(unexpected(&answer)),
            }
        })
    }

    fn listen(self: Arc<Self>, _key: Arc<str>, _limit: Limit) -> Reply<Listener> {
        Box::pin(async { Err("cannot be listened to: nothing is published here".into()) })
    }

    fn ping(self: Arc<Self>, limit: Limit) -> Reply<()> {
        Box::pin(async move {
            self.connected(&limit).await?;
            self.ask(Question::Ping, &limit).await.map(drop)
        })
    }

    fn standing(self: Arc<Self>, limit: Limit) -> Reply<Standing> {
        Box::pin(async move {
            let life = self.connected(&limit).await?;
            if self.votes(life).is_ok() {
                return Ok(Standing::Votes);
            }
            let remembers = match self.ask(Question::Standing, &limit).await? {
                Answer::Remembers(life) => life,
                answer => return Err(unexpected(&answer)),
            };
            let in_this_life = remembers == Some(life);
            if in_this_life {
                let mut network = self.shared.network();
                network.admit(self.client, self.node, life);
            }
            match self.votes(life) {
                Err(NodeError::Abstains(for_another)) if !in_this_life => Ok(Standing::Abstains {
                    for_another,
                    unknown: remembers.is_none().then(|| life.to_string().into()),
                }),
                _ => Ok(Standing::Votes),
            }
        })
    }

    fn admit(self: Arc<Self>, known: Arc<str>, limit: Limit) -> Reply<()> {
        Box::pin(async move {
            let life = self.connected(&limit).await?;
            if *known != *life.to_string() {
                return Err("it restarted meanwhile".into());
            }
            self.ask(Question::Admit, &limit).await?;
            let mut network = self.shared.network();
            network.admit(self.client, self.node, life);
            Ok(())
        })
    }
}
