//! Asking one sentinel, over and over, on a connection that is kept.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::time::{Instant, timeout};

use super::weigh::Said;
use super::{SOUGHT, Watcher};
use crate::backoff::Backoff;
use crate::node::address::Address;
use crate::node::target::Sentinels;
use crate::node::trouble::{DownCause, Trouble};
use crate::node::wire::{Driver, Wire};
use crate::node::words::{Clues, NOT_REDIS};

/// Each step of connecting, and each answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Never returns.
pub(super) async fn keep_asking(
    watcher: &Watcher,
    sentinels: &Sentinels,
    index: usize,
    host: &Address,
) {
    let (least, most) = SOUGHT;
    let mut backoff = Backoff::new(least, most);
    loop {
        let asked = Instant::now();
        let trouble = match Wire::connect(host, &watcher.target, PATIENCE).await {
            Ok(wire) => {
                let clues = Clues::of(&wire, watcher.target.tls.is_some());
                let asking = Asking {
                    watcher,
                    sentinels,
                    index,
                    clues,
                };
                let trouble = match open(wire).await {
                    Ok((connection, driver)) => {
                        let talk = pin!(asking.talk(connection, &mut backoff));
                        match select(talk, driver).await {
                            Either::Left((trouble, _)) => trouble,
                            Either::Right(((), talk)) => talk.now_or_never().flatten(),
                        }
                    }
                    Err(error) => Some(asking.explain(&error)),
                };
                trouble.unwrap_or_else(|| "connection closed".into())
            }
            Err(trouble) => trouble,
        };
        watcher.note(index, asked, Err(trouble));
        watcher.pause(&mut backoff).await;
    }
}

/// Nothing is said by the client library itself: the login is ours, for its errors.
async fn open(wire: Wire) -> Result<(MultiplexedConnection, Driver), RedisError> {
    wire.greeting().end();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let nothing_sent = RedisConnectionInfo::default().set_skip_set_lib_name();
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&nothing_sent, wire, config).await?;
    Ok((connection, Box::pin(driver)))
}

fn login(login: &RedisConnectionInfo) -> Option<Pipeline> {
    let password = login.password()?;
    let mut pipeline = redis::pipe();
    pipeline.cmd("AUTH");
    if let Some(user) = login.username() {
        pipeline.arg(user);
    }
    pipeline.arg(password);
    Some(pipeline)
}

/// One sentinel, over one connection.
struct Asking<'a> {
    watcher: &'a Watcher,
    sentinels: &'a Sentinels,
    index: usize,
    clues: Clues,
}

impl Asking<'_> {
    /// Asks until the connection is of no use any more: why.
    async fn talk(
        &self,
        connection: MultiplexedConnection,
        backoff: &mut Backoff,
    ) -> Option<Trouble> {
        let Self { watcher, index, .. } = *self;
        if let Some(login) = login(&self.sentinels.login)
            && let Err(trouble) = self
                .ask(&connection, &login)
                .await
                .and_then(|answers| answers.map(drop))
        {
            return Some(trouble);
        }
        // The address is asked for between two looks at the number of the configuration that it belongs to.
        let mut questions = redis::pipe();
        for question in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "MASTER"] {
            let question = questions.cmd("SENTINEL").arg(question);
            question.arg(&self.sentinels.group);
        }
        loop {
            let asked = Instant::now();
            match self.ask(&connection, &questions).await {
                Ok(Ok(answers)) => match read(&answers) {
                    Some(Answer::Said { said, others }) => {
                        self.clues.trust.trust();
                        watcher.note(index, asked, Ok((said, others)));
                    }
                    Some(Answer::Changing) => {}
                    None => return Some(DownCause::NotRedis.because(NOT_REDIS)),
                },
                Ok(Err(refused)) => watcher.note(index, asked, Err(of_sentinel(refused))),
                Err(trouble) => return Some(trouble),
            }
            watcher.pause(backoff).await;
        }
    }

    /// The answers, or the error that is among them; or else what is wrong with the connection.
    async fn ask(
        &self,
        connection: &MultiplexedConnection,
        questions: &Pipeline,
    ) -> Result<Result<Vec<Value>, Trouble>, Trouble> {
        let mut connection = connection.clone();
        let answers = connection.send_packed_commands(questions, 0, questions.len());
        let answers = match timeout(PATIENCE, answers).await {
            Ok(Ok(answers)) => answers.into_iter().map(Value::extract_error).collect(),
            Ok(Err(error)) => return Err(self.explain(&error)),
            Err(_) => {
                return Err(DownCause::Silent.because(format!("no answer in {PATIENCE:.0?}")));
            }
        };
        let answers: Result<_, RedisError> = answers;
        Ok(answers.map_err(|error| self.explain(&error)))
    }

    fn explain(&self, error: &RedisError) -> Trouble {
        let trouble = self.clues.explain(error, &self.sentinels.login);
        match trouble.cause {
            DownCause::Login | DownCause::NotPermitted => {
                DownCause::SentinelLogin.because(trouble.reason)
            }
            _ => trouble,
        }
    }
}

/// What is to be mended where this is the answer to our questions.
fn of_sentinel(refused: Trouble) -> Trouble {
    if refused.reason.starts_with("ERR No such master") {
        DownCause::UnknownGroup.because(refused.reason)
    } else if refused.reason.starts_with("ERR unknown command") {
        DownCause::NotSentinel.because(refused.reason)
    } else {
        refused
    }
}

/// What a sentinel answered.
enum Answer {
    Said {
        said: Said,
        others: usize,
    },
    /// Just then it took over another configuration.
    Changing,
}

fn read(answers: &[Value]) -> Option<Answer> {
    let [before, address, after] = answers else {
        return None;
    };
    let epoch = field(before, "config-epoch")?.parse().ok()?;
    if field(after, "config-epoch")?.parse() != Ok(epoch) {
        return Some(Answer::Changing);
    }
    let Value::Array(address) = address else {
        return None;
    };
    let [host, port] = &**address else {
        return None;
    };
    let (host, port) = (text(host)?, text(port)?.parse().ok()?);
    let others = field(before, "num-other-sentinels").and_then(|count| count.parse().ok());
    Some(Answer::Said {
        said: Said {
            epoch,
            primary: Address::Tcp(host.to_ascii_lowercase(), port),
        },
        others: others.unwrap_or(0),
    })
}

/// Of a list of names and values.
fn field<'a>(fields: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Array(fields) = fields else {
        return None;
    };
    let mut pairs = fields.chunks_exact(2);
    let pair = pairs.find(|pair| text(&pair[0]) == Some(name))?;
    text(&pair[1])
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(fields: &[&str]) -> Value {
        let bulk = |field: &&str| Value::BulkString(field.as_bytes().to_vec());
        Value::Array(fields.iter().map(bulk).collect())
    }

    fn group(epoch: &str) -> Value {
        array(&[
            "name",
            "config-epoch",
            "config-epoch",
            epoch,
            "num-other-sentinels",
            "2",
        ])
    }

    #[test]
    fn an_address_belongs_to_the_configuration_that_was_there_before_and_after() {
        let address = || array(&["Redis-1.example", "7000"]);
        let Some(Answer::Said { said, others }) = read(&[group("3"), address(), group("3")]) else {
            panic!("a good answer")
        };
        assert_eq!((said.epoch, others), (3, 2));
        assert_eq!(said.primary.to_string(), "redis-1.example:7000");
        let changing = read(&[group("3"), address(), group("4")]);
        assert!(matches!(changing, Some(Answer::Changing)));
        for stranger in [
            [group("3"), Value::Nil, group("3")],
            [group("x"), address(), group("x")],
            [group("3"), array(&["host"]), group("3")],
            [group("3"), array(&["host", "port"]), group("3")],
            [array(&["config-epoch"]), address(), group("3")],
            [Value::Okay, address(), Value::Okay],
        ] {
            assert!(read(&stranger).is_none(), "{stranger:?}");
        }
        assert!(read(&[]).is_none());
    }
}
