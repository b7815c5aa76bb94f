//! A connection to a server, and the doubt whether it still answers.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::barrier::{self, Barrier};
use super::life::Life;
use super::listening::Subscriptions;
use super::registry::Presence;
use super::sentinel::Mandate;
use super::target::Target;
use super::trouble::Trouble;
use super::words::{NOT_REDIS, words};
use super::{Limit, NodeError, Standing};
use crate::backoff::Backoff;

/// How often a server that remembers nothing is asked whether another client has admitted it. Whoever needs its vote asks at
/// once; without being needed it would have none for this client until it is old.
const ADMITTED: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// A connection to the server that was asked who it is.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// `SET` takes `NX` and `GET` together (Redis 7.0 and later).
    pub(super) set_nx_get: bool,
    /// Whether it tells what is published, and if not, why.
    pub(super) hears: Result<(), Arc<str>>,
    /// Whether the user may publish, as far as is known.
    publishes: AtomicBool,
    /// It is a server of a cluster, and says how many listen to it.
    pub(super) counts_listeners: bool,
    life: Life,
    /// While there is this, no other node has the server.
    _presence: Option<Presence>,
    /// What its votes need besides, where it is the primary of a group.
    mandate: Option<Mandate>,
    barrier: Option<Barrier>,
    /// It is no primary any more.
    demoted: Notify,
    /// Since when it owes an answer that should have come.
    doubted: Mutex<Option<Instant>>,
    doubt: Notify,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// What the handshake has found out.
pub(super) struct Known {
    pub(super) set_nx_get: bool,
    pub(super) hears: Result<(), Arc<str>>,
    pub(super) publishes: bool,
    pub(super) counts_listeners: bool,
    pub(super) presence: Option<Presence>,
    pub(super) life: Life,
    pub(super) mandate: Option<Mandate>,
}

impl Link {
    pub(super) fn new(connection: MultiplexedConnection, known: Known, replicas: usize) -> Self {
        Self {
            connection,
            set_nx_get: known.set_nx_get,
            hears: known.hears,
            publishes: AtomicBool::new(known.publishes),
            counts_listeners: known.counts_listeners,
            _presence: known.presence,
            life: known.life,
            mandate: known.mandate,
            barrier: Barrier::new(replicas),
            demoted: Notify::new(),
            doubted: Mutex::new(None),
            doubt: Notify::new(),
        }
    }

    /// Whether the server has a vote.
    ///
    /// # Errors
    ///
    /// [`NodeError::Abstains`], and others where its sentinels do not confirm that it is the primary.
    pub(super) fn votes(&self) -> Result<(), NodeError> {
        self.has_mandate()?;
        self.life.votes()
    }

    /// Whether the server would vote for a lock now, and is connected to as many replicas as have to have it too. One that is
    /// silent is found when there is something for it to confirm.
    pub(super) async fn ping(&self, limit: &Limit) -> Result<(), NodeError> {
        self.votes()?;
        self.send(&redis::cmd("PING"), limit).await?;
        self.replicated(limit).await
    }

    fn has_mandate(&self) -> Result<(), NodeError> {
        let mandate = self.mandate();
        mandate.map_err(|trouble| trouble.reason.into())
    }

    /// Whether the sentinels of its group confirm that it is the primary, where they have to.
    pub(super) fn mandate(&self) -> Result<(), Trouble> {
        self.mandate.as_ref().map_or(Ok(()), Mandate::holds)
    }

    /// The same, looked up anew: another client may have admitted the server.
    pub(super) async fn ask_standing(
        &self,
        target: &Target,
        limit: &Limit,
    ) -> Result<Standing, NodeError> {
        let Some(marker) = target.marker() else {
            return Ok(Standing::Votes);
        };
        self.has_mandate()?;
        if let Ok(()) = self.life.votes() {
            return Ok(Standing::Votes);
        }
        let known = self.send(redis::cmd("GET").arg(marker), limit).await?;
        Ok(self.life.note(&known))
    }

    /// Gives the server its vote in this life. In another one it may have lost what it granted meanwhile.
    pub(super) async fn admit(
        &self,
        life: &str,
        target: &Target,
        limit: &Limit,
    ) -> Result<(), NodeError> {
        if !self.life.is(life) {
            return Err("it restarted meanwhile".into());
        }
        if let Some(admission) = self.life.admission(target) {
            self.send(&admission, limit).await?;
            self.life.admit();
        }
        Ok(())
    }

    /// Has the server remember that it votes, from when it does, again and again. Never returns.
    pub(super) async fn remind(&self, target: &Target) {
        const PAUSE: Duration = Duration::from_secs(3600);
        let Some(marker) = target.marker().filter(|_| self.life.is_known()) else {
            return std::future::pending().await;
        };
        let question = redis::cmd("GET").arg(marker).take();
        if let Some(introduction) = self.life.introduce(target) {
            self.tell(&introduction, target).await;
        }
        let (least, most) = ADMITTED;
        let mut backoff = Backoff::new(least, most);
        loop {
            match self.life.standing() {
                Standing::Abstains {
                    for_another,
                    unknown: Some(_),
                } => {
                    sleep(backoff.next().min(for_another)).await;
                    if let Some(known) = self.tell(&question, target).await {
                        self.life.note(&known);
                    }
                }
                Standing::Abstains { for_another, .. } => sleep(for_another).await,
                Standing::Votes => {
                    // It may remember more than is known here, which is not to be forgotten.
                    if let Some(known) = self.tell(&question, target).await {
                        self.life.note(&known);
                    }
                    // A server that does not take it is told again; what it cannot remember only makes it wait longer.
                    if let Some(reminder) = self.life.reminder(target) {
                        self.tell(&reminder, target).await;
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Sends what no call waits for.
    async fn tell(&self, command: &Cmd, target: &Target) -> Option<Value> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(command);
        let answer = timeout(target.patience(), answer).await.ok()?.ok()?;
        // A server that loads, say, has not said what it remembers.
        answer.extract_error().ok()
    }

    pub(super) fn doubted_since(&self) -> Option<Instant> {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_doubted(&self, since: Option<Instant>) {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        *doubted = match (*doubted, since) {
            (Some(first), Some(_)) => Some(first),
            _ => since,
        };
    }

    /// Sends a command and waits for the answer. The first poll hands it to the connection, in order.
    pub(super) async fn send(&self, command: &Cmd, limit: &Limit) -> Result<Value, NodeError> {
        let mut connection = self.connection.clone();
        let answer = pin!(connection.send_packed_command(command));
        self.answered(answer, limit)
            .await?
            .extract_error()
            .map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &RedisError) -> NodeError {
        let refused = NodeError::from(words(error));
        if refused.is_readonly() {
            self.demoted.notify_one();
        }
        refused
    }

    /// Returns when the server has said that it is a replica.
    pub(super) async fn demoted(&self) {
        self.demoted.notified().await;
    }

    /// Whether what is written has to be on replicas too.
    pub(super) fn asks_replicas(&self) -> bool {
        self.barrier.is_some()
    }

    /// Waits until as many replicas as are asked for have what was written before.
    ///
    /// # Errors
    ///
    /// Fewer have it, or it is not known.
    pub(super) async fn replicated(&self, limit: &Limit) -> Result<(), NodeError> {
        let Some(barrier) = &self.barrier else {
            return Ok(());
        };
        let mut said = barrier.join();
        let said = poll_fn(|context| match Pin::new(&mut said).poll(context) {
            Poll::Ready(said) => Poll::Ready(Some(said)),
            Poll::Pending if limit.is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        match said.await {
            Some(Ok(said)) => barrier.judge(said),
            Some(Err(_)) => Err(NodeError::unreachable("connection closed")),
            // Not the server's silence: it may be waiting for its replicas.
            None => Err(NodeError::silent(format!(
                "its replicas have not answered in {:.0?}",
                limit.allowed()
            ))),
        }
    }

    /// Asks the server what its replicas have, for all who want to know. Never returns.
    pub(super) async fn keep_asking_replicas(&self, target: &Target) {
        let Some(barrier) = &self.barrier else {
            return std::future::pending().await;
        };
        let time = barrier::time(target.node_timeout);
        let wait = async |replicas| {
            let mut wait = redis::cmd("WAIT");
            wait.arg(replicas).arg(time);
            let mut connection = self.connection.clone();
            let answer = connection.send_packed_command(&wait);
            let Ok(answer) = timeout(target.patience(), answer).await else {
                // It is probed, and given up if it does not answer to that either.
                self.set_doubted(Some(Instant::now()));
                self.doubt.notify_one();
                return Err("it does not answer how many replicas have it".into());
            };
            let answer = answer.and_then(Value::extract_error);
            match answer {
                Ok(Value::Int(count)) => Ok(u64::try_from(count).unwrap_or(0)),
                Ok(_) => Err(NOT_REDIS.into()),
                Err(error) => Err(words(&error)),
            }
        };
        barrier.keep_asking(wait).await;
    }

    /// The same for several commands; an error among their answers is the error of all.
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        limit: &Limit,
    ) -> Result<Vec<Value>, NodeError> {
        let answers = self.send_each(commands, limit).await?;
        answers.into_iter().collect()
    }

    /// The same for several commands, each with an answer of its own, or what the server has against it.
    pub(super) async fn send_each(
        &self,
        commands: &Pipeline,
        limit: &Limit,
    ) -> Result<Vec<Result<Value, NodeError>>, NodeError> {
        let mut connection = self.connection.clone();
        let count = commands.len();
        let answers = pin!(connection.send_packed_commands(commands, 0, count));
        let answers = self.answered(answers, limit).await?.into_iter();
        Ok(answers
            .map(|answer| answer.extract_error().map_err(|error| self.refused(&error)))
            .collect())
    }

    /// The answer is pinned by whoever waits for it: it is large, and would have a place here too, and be moved there.
    pub(super) async fn answered<T>(
        &self,
        mut answer: Pin<&mut impl Future<Output = Result<T, RedisError>>>,
        limit: &Limit,
    ) -> Result<T, NodeError> {
        let answer = poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if limit.is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let asked = Instant::now();
        if let Some(answer) = answer.await {
            return answer.map_err(|error| NodeError::unreachable(words(&error)));
        }
        // A request that had to wait for its connection says little about the server.
        if asked.elapsed() >= limit.allowed() / 2 {
            self.set_doubted(Some(Instant::now()));
            self.doubt.notify_one();
        }
        Err(NodeError::silent(format!(
            "no answer in {:.0?}",
            limit.allowed()
        )))
    }

    pub(super) fn publishes(&self) -> bool {
        self.publishes.load(Ordering::Relaxed)
    }

    /// Not permitted: each further try would be in the server's log.
    pub(super) fn publish_no_more(&self, node: &str) {
        if self.publishes.swap(false, Ordering::Relaxed) {
            tracing::warn!(%node, "lock node does not permit to publish on the channel of a lock");
        }
    }

    /// Asks when there is doubt, and when it has been a while: a connection that something on the way has forgotten is
    /// found before a request needs it, and so is a server that has lost its place. Returns when the connection is to be given
    /// up: why.
    pub(super) async fn probe(&self, target: &Target, trusted_again: impl Fn()) -> &'static str {
        const A_WHILE: Duration = Duration::from_secs(5);
        let asks_for_life = target.max_ttl.is_some() && self.life.is_known();
        let mut question = redis::cmd(if asks_for_life { "INFO" } else { "PING" });
        if asks_for_life {
            question.arg("replication");
        }
        loop {
            // Either is a reason to ask.
            let _ = timeout(A_WHILE, self.doubt.notified()).await;
            let mut connection = self.connection.clone();
            let answer = connection.send_packed_command(&question);
            let Ok(Ok(answer)) = timeout(target.patience(), answer).await else {
                return "no answer for too long";
            };
            let info = redis::from_redis_value::<String>(answer);
            if asks_for_life && info.is_ok_and(|info| self.life.is_over(&info)) {
                return "it is a replica, or has been one";
            }
            if self.doubted_since().is_some() {
                self.set_doubted(None);
                trusted_again();
            }
        }
    }
}

impl Subscriptions for Link {
    async fn subscribe(&self, channels: &[Arc<str>]) -> Result<(), RedisError> {
        let names: Vec<&str> = channels.iter().map(AsRef::as_ref).collect();
        self.connection.clone().subscribe(names).await
    }

    async fn unsubscribe(&self, channels: &[Arc<str>]) -> Result<(), RedisError> {
        let names: Vec<&str> = channels.iter().map(AsRef::as_ref).collect();
        self.connection.clone().unsubscribe(names).await
    }
}
