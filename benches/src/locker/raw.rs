//! The commands of a lock and nothing else, over the `redis` crate's multiplexed connections: what is to be had at best.
//! Nothing is kept track of, so what it decides without is left behind.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use super::{Held, Locker, Reply, TTL, pause};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

/// A connection to each node.
#[derive(Clone)]
pub(super) struct Raw {
    nodes: Arc<[MultiplexedConnection]>,
    hash: Arc<str>,
    /// How many answers are waited for.
    answers: usize,
}

impl Raw {
    /// Goes on at a majority.
    pub(super) async fn connect(urls: &[String]) -> Self {
        let script = redis::Script::new(RELEASE);
        let nodes = urls.iter().map(|url| async {
            let client = redis::Client::open(url.as_str()).expect("a URL");
            let connection = client.get_multiplexed_async_connection().await;
            let mut connection = connection.expect("a connection");
            script.load_async(&mut connection).await.expect("a script");
            connection
        });
        Self {
            nodes: join_all(nodes).await.into(),
            hash: script.get_hash().into(),
            answers: urls.len() / 2 + 1,
        }
    }

    pub(super) fn waiting_for_all(self) -> Self {
        Self {
            answers: self.nodes.len(),
            ..self
        }
    }

    /// Sends to all nodes, and counts who says yes until enough have said something.
    async fn all(&self, command: redis::Cmd, yes: fn(&Value) -> bool) -> usize {
        let command = Arc::new(command);
        let mut replies: FuturesUnordered<_> = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                let command = Arc::clone(&command);
                async move { node.send_packed_command(&command).await }
            })
            .collect();
        let (mut agree, mut answers) = (0, 0);
        while let Some(reply) = replies.next().await {
            agree += usize::from(reply.as_ref().is_ok_and(yes));
            answers += usize::from(reply.is_ok());
            let rest = replies.len();
            let quorum = self.nodes.len() / 2 + 1;
            let decided = agree >= quorum || agree + rest < quorum;
            if answers >= self.answers && decided {
                break;
            }
        }
        agree
    }

    async fn acquire(&self, key: &str) -> Option<Token> {
        let token = Token(format!("{:032x}", fastrand::u128(..)));
        let mut acquire = redis::cmd("SET");
        acquire.arg(key).arg(&token.0).arg("NX").arg("PX");
        let ttl = u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX);
        acquire.arg(ttl).arg("GET");
        let granted = self.all(acquire, |value| *value == Value::Nil).await;
        if granted > self.nodes.len() / 2 {
            return Some(token);
        }
        self.release(key, &token).await;
        None
    }

    async fn release(&self, key: &str, token: &Token) {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.hash).arg(1).arg(key).arg(&token.0);
        self.all(release, |value| *value == Value::Int(1)).await;
    }

    fn held(self, key: String, token: Token) -> Held {
        Held::new(|| async move {
            self.release(&key, &token).await;
            Ok(())
        })
    }
}

struct Token(String);

impl Locker for Raw {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        let raw = self.clone();
        Box::pin(async move {
            let token = raw.acquire(&key).await;
            Ok(token.map(|token| raw.held(key, token)))
        })
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let raw = self.clone();
        Box::pin(async move {
            loop {
                if let Some(token) = raw.acquire(&key).await {
                    return Ok(raw.held(key, token));
                }
                tokio::time::sleep(pause()).await;
            }
        })
    }
}

/// One task of the process at a time. For one key, as there is one queue.
pub(super) struct Queued {
    raw: Raw,
    queue: Arc<Mutex<()>>,
}

impl Queued {
    pub(super) async fn connect(urls: &[String]) -> Self {
        Self {
            raw: Raw::connect(urls).await.waiting_for_all(),
            queue: Arc::default(),
        }
    }
}

impl Locker for Queued {
    fn ask(&self, key: String) -> Reply<Option<Held>> {
        self.raw.ask(key)
    }

    fn wait(&self, key: String) -> Reply<Held> {
        let (raw, queue) = (self.raw.clone(), Arc::clone(&self.queue));
        Box::pin(async move {
            let turn = queue.lock_owned().await;
            let held = raw.wait(key).await?;
            Ok(Held::new(|| async move {
                let released = held.release().await;
                drop(turn);
                released
            }))
        })
    }
}
