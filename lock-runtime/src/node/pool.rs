//! The connections to one server: made in the background, questioned before they carry a request, given up when they no
//! longer answer, and made anew. Nothing else reconnects.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, Value,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::NodeError;
use super::wire::{Abandon, Address, Wire};
use crate::backoff::Backoff;

/// How often a server that refuses is tried. The upper bound is what a restarted server waits at the most before it is
/// used again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// A connection that lived this long was a good one: the next try need not wait.
const LIVED: Duration = Duration::from_secs(1);

/// Requests that may wait for the socket of one connection before their senders wait too.
const SEND_QUEUE: usize = 1024;

/// How a server is reached.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) address: Address,
    pub(crate) login: RedisConnectionInfo,
    pub(crate) node_timeout: Duration,
}

impl Target {
    /// How long making a connection may take, and how long one may be silent before it is given up.
    fn patience(&self) -> Duration {
        self.node_timeout
            .saturating_mul(4)
            .max(Duration::from_millis(500))
    }
}

/// One connection, or the lack of it.
#[derive(Debug)]
pub(super) struct Slot {
    state: watch::Receiver<State>,
}

#[derive(Clone, Debug)]
enum State {
    /// Not known yet: it is being connected for the first time, or again after it was good.
    Connecting,
    Ready(Arc<Link>),
    /// The last try failed. Tried again in the background.
    Down(Arc<str>),
}

impl State {
    fn link(&self) -> Option<Arc<Link>> {
        match self {
            Self::Ready(link) => Some(Arc::clone(link)),
            Self::Connecting | Self::Down(_) => None,
        }
    }
}

impl Slot {
    /// A slot, and the work that keeps it connected until the slot is dropped.
    pub(super) fn new(target: Arc<Target>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, state) = watch::channel(State::Connecting);
        (Self { state }, keep_connected(target, sender))
    }

    /// A connection that may be expected to answer. A doubt is waited out, but only once: a server that has been silent
    /// for the time that it is allowed costs nothing more.
    pub(super) async fn trusted(&self, deadline: Instant) -> Result<Arc<Link>, NodeError> {
        let link = self.any(deadline).await?;
        let Some(since) = link.doubted_since() else {
            return Ok(link);
        };
        let allowed = deadline.saturating_duration_since(Instant::now());
        let patience = since.checked_add(allowed).unwrap_or(since).min(deadline);
        let trusted = |state: &State| match state {
            State::Ready(link) => link.doubted_since().is_none(),
            State::Connecting | State::Down(_) => false,
        };
        let mut state = self.state.clone();
        let link = match timeout_at(patience, state.wait_for(trusted)).await {
            Ok(Ok(state)) => state.link(),
            Ok(Err(_)) | Err(_) => None,
        };
        link.ok_or_else(|| {
            NodeError::from("no answer to an earlier request, and none to a probe yet")
        })
    }

    /// A connection, also one that owes an answer: what is sent over it is executed after what was sent before. Waits for
    /// one where it is not known yet whether there will be one.
    pub(super) async fn any(&self, deadline: Instant) -> Result<Arc<Link>, NodeError> {
        let mut known = self.state.borrow().clone();
        if matches!(known, State::Connecting) {
            let mut state = self.state.clone();
            let settled = |state: &State| !matches!(state, State::Connecting);
            known = match timeout_at(deadline, state.wait_for(settled)).await {
                Ok(Ok(state)) => state.clone(),
                Ok(Err(_)) => return Err("the lock manager has ended".into()),
                Err(_) => State::Connecting,
            };
        }
        match known {
            State::Ready(link) => Ok(link),
            State::Down(reason) => Err(NodeError(reason)),
            State::Connecting => Err("not connected yet".into()),
        }
    }
}

/// A connection to the server that was asked who it is.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// `SET` takes `NX` and `GET` together (Redis 7.0 and later).
    pub(super) set_nx_get: bool,
    /// Since when it owes an answer that should have come.
    doubted: Mutex<Option<Instant>>,
    doubt: Notify,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    fn doubted_since(&self) -> Option<Instant> {
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
    pub(super) async fn send(&self, command: &Cmd, deadline: Instant) -> Result<Value, NodeError> {
        let mut connection = self.connection.clone();
        let answer = self
            .answered(connection.send_packed_command(command), deadline)
            .await?;
        answer
            .extract_error()
            .map_err(|error| NodeError(words(&error)))
    }

    /// The same for several commands; an error among their answers is the error of all.
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, NodeError> {
        let mut connection = self.connection.clone();
        let count = commands.len();
        self.answered(
            connection.send_packed_commands(commands, 0, count),
            deadline,
        )
        .await?
        .into_iter()
        .map(|answer| {
            answer
                .extract_error()
                .map_err(|error| NodeError(words(&error)))
        })
        .collect()
    }

    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, RedisError>>,
        deadline: Instant,
    ) -> Result<T, NodeError> {
        let asked = Instant::now();
        if let Ok(answer) = timeout_at(deadline, answer).await {
            return answer.map_err(|error| NodeError(words(&error)));
        }
        self.set_doubted(Some(Instant::now()));
        self.doubt.notify_one();
        Err(NodeError::no_answer(asked.elapsed()))
    }

    /// Waits for doubt, and asks. Returns when the connection is to be given up.
    async fn probe(&self, patience: Duration, trusted_again: impl Fn()) {
        loop {
            self.doubt.notified().await;
            let mut connection = self.connection.clone();
            let ping = redis::cmd("PING");
            match timeout(patience, connection.send_packed_command(&ping)).await {
                Ok(Ok(_)) => {
                    self.set_doubted(None);
                    trusted_again();
                }
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

async fn keep_connected(target: Arc<Target>, state: watch::Sender<State>) {
    let (least, most) = RECONNECT;
    let mut backoff = Backoff::new(least, most);
    while !state.is_closed() {
        match open(&target).await {
            Ok(opened) => {
                let since = Instant::now();
                tracing::debug!(node = %target.name, "connected");
                serve(&target, opened, &state).await;
                if since.elapsed() >= LIVED {
                    backoff = Backoff::new(least, most);
                    continue;
                }
            }
            Err(reason) => {
                let changed = !matches!(&*state.borrow(), State::Down(known) if *known == reason);
                if changed {
                    tracing::warn!(node = %target.name, %reason, "lock node is not reachable");
                }
                state.send_replace(State::Down(reason));
            }
        }
        sleep(backoff.next()).await;
    }
}

/// Lends the connection out until it breaks, is given up, or nobody is left who could use it.
async fn serve(target: &Target, opened: Opened, state: &watch::Sender<State>) {
    let Opened {
        link,
        driver,
        abandon,
    } = opened;
    let link = Arc::new(link);
    state.send_replace(State::Ready(Arc::clone(&link)));

    let probe = pin!(link.probe(target.patience(), || {
        state.send_modify(|_| {});
    }));
    let unused = pin!(state.closed());
    let reason = match select(select(driver, probe), unused).await {
        Either::Left((Either::Left(_), _)) => "connection closed",
        Either::Left((Either::Right(_), _)) => {
            abandon.abandon();
            "no answer for too long"
        }
        Either::Right(_) => return,
    };
    tracing::warn!(node = %target.name, reason, "lock node lost");
    state.send_replace(State::Connecting);
}

/// Moves bytes for a connection, until it is closed.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Opened {
    link: Link,
    driver: Driver,
    abandon: Abandon,
}

async fn open(target: &Target) -> Result<Opened, Arc<str>> {
    let patience = target.patience();
    let wire = match timeout(patience, Wire::connect(&target.address)).await {
        Ok(Ok(wire)) => wire,
        Ok(Err(error)) => return Err(format!("no connection: {error}").into()),
        Err(_) => return Err(format!("no connection in {patience:.0?}").into()),
    };
    let abandon = wire.abandon_handle();
    match timeout(patience, greet(wire, &target.login)).await {
        Ok(Ok((link, driver))) => Ok(Opened {
            link,
            driver,
            abandon,
        }),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("no answer to the handshake in {patience:.0?}").into()),
    }
}

/// Logs in, asks which server it is, and leaves the script there that every release calls.
async fn greet(wire: Wire, login: &RedisConnectionInfo) -> Result<(Link, Driver), RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(SEND_QUEUE);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(login, wire, config).await?;
    let mut driver: Driver = Box::pin(driver);

    let mut questions = redis::pipe();
    questions.cmd("INFO").arg("server");
    questions
        .cmd("SCRIPT")
        .arg("LOAD")
        .arg(super::redis::RELEASE.source);
    let answers = {
        let asking = pin!(connection.send_packed_commands(&questions, 0, 2));
        match select(asking, &mut driver).await {
            Either::Left((answers, _)) => answers?,
            Either::Right(_) => {
                return Err((ErrorKind::Io, "connection closed during the handshake").into());
            }
        }
    };
    let info = answers.into_iter().next().unwrap_or(Value::Nil);
    let link = Link {
        connection,
        set_nx_get: sets_nx_get(info)?,
        doubted: Mutex::new(None),
        doubt: Notify::new(),
    };
    Ok((link, driver))
}

/// A user without permission for `INFO` gets the way that works on every version.
fn sets_nx_get(info: Value) -> Result<bool, RedisError> {
    let info: String = match info.extract_error() {
        Ok(info) => redis::from_redis_value(info)?,
        Err(error) if error.code() == Some("NOPERM") => return Ok(false),
        Err(error) => return Err(error),
    };
    let major = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"))
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    Ok(major.is_some_and(|major| major >= 7))
}

/// An error in the words of the server where it is the server's, for an operator who knows Redis.
fn words(error: &RedisError) -> Arc<str> {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}").into(),
        (Some(code), None) => code.into(),
        (None, _) if error.is_connection_dropped() => "connection closed".into(),
        (None, _) => error.to_string().into(),
    }
}
