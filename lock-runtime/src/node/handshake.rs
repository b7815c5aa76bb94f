//! How a connection begins: logging in, and asking the server who it is before any lock depends on it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo,
    RedisError, Value,
};
use tokio::time::timeout;

use super::address::Address;
use super::life::{Life, Memory, Met};
use super::link::{Known, Link};
use super::listening::Listening;
use super::role::{self, info_field};
use super::script::{EXTEND, NOTHING, RELEASE, RELEASE_ALOUD, RELEASE_HEARD};
use super::sentinel::Mandate;
use super::target::Target;
use super::told::Told;
use super::trouble::{DownCause, Trouble, Unfit};
use super::wire::{Abandon, Driver, Wire};
use super::words::{Clues, without_password, words};

/// Requests that may wait for the socket of one connection before their senders wait too.
const SEND_QUEUE: usize = 1024;

/// On how many channels it is tried to publish.
const PUBLISHED: usize = 2;

/// What a server is asked of itself. One by one, as Redis 6.2 takes one at a time.
const SECTIONS: [&str; 2] = ["server", "replication"];

/// A connection that is ready for requests.
pub(super) struct Opened {
    pub(super) link: Link,
    pub(super) driver: Driver,
    pub(super) abandon: Abandon,
}

/// The server that a connection is to be made to.
#[derive(Debug)]
pub(super) struct There<'a> {
    pub(super) address: &'a Address,
    /// To vote, where it needs one.
    pub(super) mandate: Option<Mandate>,
    pub(super) met: &'a mut Met,
    pub(super) told: &'a mut Told,
}

pub(super) async fn open(
    target: &Target,
    there: There<'_>,
    listening: &Arc<Listening>,
) -> Result<Opened, Trouble> {
    let patience = target.patience();
    let wire = Wire::connect(there.address, target, patience).await?;
    let abandon = wire.abandon_handle();
    let clues = Clues::of(&wire, target.tls.is_some());
    match timeout(patience, greet(wire, target, there, listening)).await {
        Ok(Ok((link, driver))) => {
            clues.trust.trust();
            Ok(Opened {
                link,
                driver,
                abandon,
            })
        }
        Ok(Err(Refusal::Unfit(unfit))) => Err(unfit.into()),
        Ok(Err(Refusal::Error(error))) => Err(clues.explain(&error, &target.login)),
        Err(_) => {
            Err(DownCause::Silent.because(format!("no answer to the handshake in {patience:.0?}")))
        }
    }
}

/// Why a server cannot be used.
enum Refusal {
    /// It said so, or nothing.
    Error(RedisError),
    /// It would be used, and the quorum would not be safe.
    Unfit(Unfit),
}

impl From<RedisError> for Refusal {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

/// The login is ours and not the client library's, whose errors leave out what the server said.
async fn greet(
    wire: Wire,
    target: &Target,
    there: There<'_>,
    listening: &Arc<Listening>,
) -> Result<(Link, Driver), Refusal> {
    let hears = Arc::clone(listening);
    let hear = move |push: PushInfo| {
        hears.hear(&push);
        Ok::<_, Infallible>(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(SEND_QUEUE)
        .set_push_sender(hear);
    let nothing_sent = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    let greeting = wire.greeting();
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&nothing_sent, wire, config).await?;
    greeting.end();
    let mut driver: Driver = Box::pin(driver);

    let (questions, required) = questions(target);
    let answers = {
        let asking = pin!(connection.send_packed_commands(&questions, 0, questions.len()));
        match select(asking, &mut driver).await {
            Either::Left((answers, _)) => answers?,
            Either::Right(_) => {
                let closed = (ErrorKind::Io, "connection closed during the handshake");
                return Err(Refusal::Error(closed.into()));
            }
        }
    };
    let mut answers = answers.into_iter().map(Value::extract_error);
    for answer in answers.by_ref().take(required) {
        answer?;
    }
    let hears = answers.next().unwrap_or(Ok(Value::Nil));
    let hears = hears
        .map(drop)
        .map_err(|error| without_password(words(&error), &target.login));
    let tried: Vec<_> = answers.by_ref().take(PUBLISHED).collect();
    let publishes = may_publish(tried.into_iter().collect(), target, there.told);
    let counts_listeners =
        target.member.is_some() && answers.next().is_some_and(|counted| counted.is_ok());
    let sections: Vec<_> = answers.by_ref().take(SECTIONS.len()).collect();
    let info = said(sections.into_iter().collect(), target, there.told)?;
    // A server that is loading its data does not say what it remembers yet: it is asked again later.
    let mut remembered = || answers.next().and_then(Result::ok).unwrap_or(Value::Okay);
    let memory = Memory {
        voted_in: remembered(),
        met_in: remembered(),
        met_left: remembered(),
    };
    for script in answers {
        permitted(script)?;
    }
    if target.has_to_vote() {
        role::is_primary(&info)?;
    }
    role::is_member(&info, target.member.is_some())?;
    let run_id = info_field(&info, "run_id").filter(|run_id| !run_id.is_empty());
    let presence = run_id.map(|run_id| target.seat.take(run_id)).transpose();
    let known = Known {
        set_nx_get: sets_nx_get(&info),
        hears,
        publishes,
        counts_listeners,
        presence: presence?,
        life: Life::new(&info, &memory, target.rule(), there.met),
        mandate: there.mandate,
    };
    Ok((Link::new(connection, known, target.replicas), driver))
}

/// What is sent first, and how many of its commands must succeed. Then come the greeting that has the server tell what is
/// published, and whether the user may publish, and count listeners where that is asked for; `INFO` and what the server remembers; and the scripts, which are sent again
/// where they are missing, and whether they may be called.
fn questions(target: &Target) -> (Pipeline, usize) {
    let login = &target.login;
    let mut questions = redis::pipe();
    if let Some(password) = login.password() {
        questions.cmd("AUTH");
        if let Some(user) = login.username() {
            questions.arg(user);
        }
        questions.arg(password);
    }
    if login.db() != 0 {
        questions.cmd("SELECT").arg(login.db());
    }
    if target.replicas > 0 {
        // Whether it may be asked for.
        questions.cmd("WAIT").arg(0).arg(1);
    }
    let required = questions.len();
    questions.cmd("HELLO").arg(3);
    for nobody_listens in target.channels() {
        questions.cmd("PUBLISH").arg(nobody_listens).arg("");
    }
    if target.member.is_some() {
        questions.cmd("PUBSUB").arg("NUMSUB");
    }
    for section in SECTIONS {
        questions.cmd("INFO").arg(section);
    }
    questions.cmd("GET").arg(&target.marker);
    questions.cmd("GET").arg(&*target.met());
    questions.cmd("PTTL").arg(&*target.met());
    let aloud = match target.member {
        Some(_) => &RELEASE_HEARD,
        None => &RELEASE_ALOUD,
    };
    for script in [&RELEASE, aloud, &EXTEND, &NOTHING] {
        questions.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    // Whoever may load scripts need not be permitted to call them.
    questions.cmd("EVALSHA").arg(NOTHING.hash()).arg(0);
    (questions, required)
}

/// A release says nothing to those who wait where the user may not publish: each try would be in the server's log.
fn may_publish(
    published: Result<Vec<Value>, RedisError>,
    target: &Target,
    told: &mut Told,
) -> bool {
    published
        .inspect_err(|error| {
            // One that is only asked where others are, is asked again and again.
            if target.has_to_vote() && told.is_news("does not publish") {
                tracing::warn!(
                    node = %target.name,
                    reason = %without_password(words(error), &target.login),
                    "lock node does not publish releases, so those who wait ask it from time to time"
                );
            }
        })
        .is_ok()
}

/// What the server says of itself; nothing to a user who may not ask. Such a server is asked for locks in the way that works
/// on every version, votes at once after a restart, and may be a replica, or the server of another node too. A primary of a
/// group must say whether it was promoted, where that is asked for.
fn said(
    sections: Result<Vec<Value>, RedisError>,
    target: &Target,
    told: &mut Told,
) -> Result<String, RedisError> {
    let must_say = target.max_ttl.is_some() && target.sentinels().is_some();
    match sections {
        Ok(sections) => {
            let sections = sections.into_iter().map(redis::from_redis_value::<String>);
            Ok(sections.collect::<Result<String, _>>()?)
        }
        Err(error) if error.code() == Some("NOPERM") && !must_say => {
            if target.has_to_vote() && told.is_news("does not permit INFO") {
                tracing::warn!(
                    node = %target.name,
                    "lock node does not permit INFO, so it is not kept out after a restart, and may be a replica"
                );
            }
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

/// Where scripts are not permitted, a lock could be taken and neither renewed nor released.
fn permitted(script: Result<Value, RedisError>) -> Result<(), RedisError> {
    match script {
        Err(error) if error.code() == Some("NOPERM") => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn sets_nx_get(info: &str) -> bool {
    let major = info_field(info, "redis_version")
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 7)
}
