//! A node before a server that says what the test has it say.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use redis::RedisConnectionInfo;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::*;
use crate::node::registry::Seat;
use crate::node::{Ledger, Listening, Token};

mod replicas;

const KEY: &str = "shop:order:1";
const CHANNEL: &str = "{shop:order:1}:released";

fn listening(node: &RedisNode) -> &Listening {
    match &*node.servers {
        Servers::One(slots, _) => &slots[0].listening,
        Servers::Cluster(_) => panic!("a server by itself"),
    }
}

/// As much of a server as these tests need, and those of a cluster.
#[derive(Clone, Default)]
pub(in crate::node) struct Server(Arc<Mutex<State>>);

/// What a server says to a command before it does what it would do.
pub(in crate::node) type Script = dyn FnMut(&[String]) -> Option<String> + Send;

#[derive(Default)]
pub(in crate::node) struct State {
    pub(in crate::node) script: Option<Box<Script>>,
    /// Commands that are not known, or not answered.
    unknown: Vec<&'static str>,
    silent: Vec<&'static str>,
    /// The lock is there already, as that of whoever asks for it.
    has_granted: bool,
    is_replica: bool,
    /// How many replicas have everything.
    replicas: u64,
    /// What is answered to releases.
    pub(in crate::node) released: VecDeque<i64>,
    /// Commands as they came.
    pub(in crate::node) seen: Vec<String>,
    subscribed: BTreeSet<String>,
    connection: Option<TcpStream>,
}

impl Server {
    pub(in crate::node) fn knows<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().expect("no panic"))
    }

    /// Where it listens from now on.
    pub(in crate::node) fn address(&self) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                server.serve(stream);
            }
        });
        Address::Tcp("127.0.0.1".into(), port)
    }

    fn node(&self, login: RedisConnectionInfo) -> Arc<RedisNode> {
        node(Place::Server(self.address()), login)
    }

    /// One connection at a time, until either side ends it.
    fn serve(&self, stream: TcpStream) {
        let mut from = BufReader::new(stream.try_clone().expect("open"));
        self.knows(|state| {
            state.subscribed.clear();
            state.connection = Some(stream);
        });
        while let Some(command) = read(&mut from) {
            let answer = self.answer(&command);
            self.say(&answer);
        }
    }

    /// What a client that is gone is told is lost.
    pub(in crate::node) fn say(&self, said: &str) {
        self.knows(|state| {
            if let Some(stream) = &mut state.connection {
                let _ = stream.write_all(said.as_bytes());
            }
        });
    }

    fn answer(&self, command: &[String]) -> String {
        let name = command[0].as_str();
        self.knows(|state| {
            state.seen.push(command.join(" "));
            let said = state.script.as_mut().and_then(|script| script(command));
            if let Some(said) = said {
                return said;
            }
            if state.silent.contains(&name) {
                return String::new();
            }
            if state.unknown.contains(&name) {
                let arguments = command[1..].join("' '");
                return format!(
                    "-ERR unknown command '{name}', with args beginning with: '{arguments}' \r\n"
                );
            }
            let mut pushed = String::new();
            for channel in &command[1..] {
                match name {
                    "SUBSCRIBE" => state.subscribed.insert(channel.clone()),
                    "UNSUBSCRIBE" => state.subscribed.remove(channel),
                    _ => break,
                };
                let (kind, left) = (name.to_lowercase(), state.subscribed.len());
                write!(pushed, ">3\r\n+{kind}\r\n{}:{left}\r\n", bulk(channel)).expect("memory");
            }
            match name {
                "SUBSCRIBE" | "UNSUBSCRIBE" => pushed,
                "HELLO" => "%1\r\n+proto\r\n:3\r\n".to_owned(),
                "INFO" => {
                    let said = "txt:# Server\r\nredis_version:7.0.15\r\n";
                    format!("={}\r\n{said}\r\n", said.len())
                }
                "SET" if state.is_replica => {
                    "-READONLY You can't write against a read only replica.\r\n".to_owned()
                }
                "SET" if state.has_granted => bulk(&command[2]),
                "GET" | "SET" => "_\r\n".to_owned(),
                "WAIT" => format!(":{}\r\n", state.replicas),
                "EVALSHA" if command[2] != "0" => {
                    format!(":{}\r\n", state.released.pop_front().unwrap_or(0))
                }
                "PUBLISH" => ":0\r\n".to_owned(),
                _ => "+OK\r\n".to_owned(),
            }
        })
    }

    fn publish(&self, channel: &str) {
        self.say(&format!(">3\r\n+message\r\n{}$0\r\n\r\n", bulk(channel)));
    }

    fn break_connection(&self) {
        self.knows(|state| {
            let stream = state.connection.take().expect("connected");
            stream.shutdown(Shutdown::Both).expect("open");
        });
    }

    pub(in crate::node) async fn eventually(&self, what: &str, is: impl Fn(&mut State) -> bool) {
        let waiting = async {
            while !self.knows(&is) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), waiting).await.expect(what);
    }

    pub(in crate::node) fn has_seen(&self, command: &str) -> bool {
        self.knows(|state| state.seen.iter().any(|seen| seen.starts_with(command)))
    }
}

/// A node at a place, that is connected in the background.
pub(in crate::node) fn node(place: Place, login: RedisConnectionInfo) -> Arc<RedisNode> {
    node_with(0, place, login)
}

/// A node whose server must have so many replicas.
fn node_with(replicas: usize, place: Place, login: RedisConnectionInfo) -> Arc<RedisNode> {
    let (node, work) = RedisNode::new(target(replicas, place, login), 1);
    for work in work {
        tokio::spawn(work);
    }
    Arc::new(node)
}

pub(in crate::node) fn target(replicas: usize, place: Place, login: RedisConnectionInfo) -> Target {
    Target {
        name: "fake".into(),
        place,
        login,
        tls: None,
        node_timeout: Duration::from_secs(5),
        replicas,
        max_ttl: None,
        marker: marker("shop:"),
        seat: Seat::new(&Arc::default(), &"fake".into()),
        names: Arc::default(),
        member: None,
    }
}

pub(in crate::node) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A command as clients send it. `None`: there are no more.
fn read(from: &mut impl BufRead) -> Option<Vec<String>> {
    let mut part = |first: char| {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let number = line.trim().strip_prefix(first)?.parse::<usize>().ok()?;
        let mut text = vec![0; if first == '$' { number + 2 } else { 0 }];
        from.read_exact(&mut text).ok()?;
        text.truncate(number);
        Some((number, String::from_utf8(text).ok()?))
    };
    let (count, _) = part('*')?;
    (0..count).map(|_| Some(part('$')?.1)).collect()
}

fn limit() -> Limit {
    Limit::within(Duration::from_secs(5))
}

fn listen(node: &Arc<RedisNode>, key: &str) -> Reply<Listener> {
    Arc::clone(node).listen(key.into(), limit())
}

async fn release(node: &Arc<RedisNode>, keep: Option<Duration>) -> Result<Released, NodeError> {
    let give_back = Return {
        key: KEY.into(),
        token: Token::fresh(None).expect("random"),
        keep,
        aloud: keep.is_none().then_some(Duration::from_millis(70)),
        again: false,
        limit: limit(),
        command: OnceLock::new(),
    };
    Arc::clone(node).release(Arc::new(give_back)).await
}

async fn take(node: &Arc<RedisNode>) -> Result<Acquired, NodeError> {
    let ask = Ask {
        key: KEY.into(),
        token: Token::fresh(None).expect("random"),
        ttl: Duration::from_secs(30),
        fence: None,
        limit: limit(),
        ledger: Arc::new(Ledger::default()),
        command: OnceLock::new(),
    };
    Arc::clone(node).acquire(Arc::new(ask), 0).await
}

async fn hears(listener: &mut Listener) {
    let heard = timeout(Duration::from_secs(20), listener.heard());
    heard.await.expect("something to hear");
}

fn reason<T>(answer: Result<T, NodeError>) -> Arc<str> {
    match answer {
        Err(NodeError::Failed(_, reason)) => reason,
        Err(NodeError::Abstains(_)) | Ok(_) => panic!("not refused"),
    }
}

/// The client library would greet before the login, and give the connection up where that is refused.
#[tokio::test]
async fn nothing_is_sent_before_the_login() {
    let server = Server::default();
    let login = RedisConnectionInfo::default().set_username("locks");
    let node = server.node(login.set_password("hunter2"));
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    let seen = server.knows(|state| state.seen.clone());
    assert_eq!(seen[..2], ["AUTH locks hunter2", "HELLO 3"]);
    assert_eq!(seen.iter().filter(|seen| seen.contains("HELLO")).count(), 1);
}

#[tokio::test]
async fn a_server_without_resp3_is_locked_at_and_not_listened_to() {
    let server = Server::default();
    server.knows(|state| state.unknown = vec!["HELLO"]);
    server.knows(|state| state.released = [0, 1].into());
    let node = server.node(RedisConnectionInfo::default());
    let said = reason(listen(&node, KEY).await);
    assert_eq!(&*said, "cannot be listened to: ERR unknown command 'HELLO'");
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    assert_eq!(release(&node, None).await, Ok(Released::NotOurs));
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 0 }));
    assert!(!server.has_seen("SUBSCRIBE") && !server.has_seen("UNSUBSCRIBE"));
}

/// To subscribe would make the connection good for nothing else.
#[tokio::test]
async fn a_server_that_comes_back_without_resp3_is_not_subscribed_at() {
    let server = Server::default();
    let node = server.node(RedisConnectionInfo::default());
    let mut listener = listen(&node, KEY).await.expect("subscribed");
    server.knows(|state| {
        state.unknown = vec!["HELLO"];
        state.seen.clear();
    });
    server.break_connection();
    hears(&mut listener).await;
    while take(&node).await.is_err() {
        yield_now().await;
    }
    reason(listen(&node, KEY).await);
    for _ in 0..20 {
        assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    }
    assert!(!server.has_seen("SUBSCRIBE") && !server.has_seen("UNSUBSCRIBE"));

    server.knows(|state| state.unknown.clear());
    server.break_connection();
    server
        .eventually("subscribed again", |state| {
            state.subscribed.contains(CHANNEL)
        })
        .await;
}

#[tokio::test]
async fn who_is_told_of_a_release_is_counted_without_ourselves() {
    let server = Server::default();
    let node = server.node(RedisConnectionInfo::default());
    let listener = listen(&node, "shop:order:2").await.expect("subscribed");
    server.knows(|state| state.released = [i64::MIN, 0, 1, 3, 3, 1, -1, 1].into());
    assert!(release(&node, None).await.is_err(), "no server says that");
    assert_eq!(release(&node, None).await, Ok(Released::NotOurs));
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 0 }));
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 2 }));
    let ours = listen(&node, KEY).await.expect("subscribed");
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 1 }));
    assert!(server.has_seen(&format!("EVALSHA {} 1 {KEY}", RELEASE_ALOUD.hash())));
    assert!(!server.has_seen(&format!("EVALSHA {}", RELEASE.hash())));

    // Kept, so nobody is told; and where it is not permitted it is tried once.
    let keep = Some(Duration::from_secs(1));
    assert_eq!(release(&node, keep).await, Ok(Released::Done { told: 0 }));
    assert!(server.has_seen(&format!("EVALSHA {}", RELEASE.hash())));
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 0 }));
    server.knows(|state| state.seen.clear());
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 0 }));
    assert!(!server.has_seen(&format!("EVALSHA {}", RELEASE_ALOUD.hash())));
    drop((ours, listener));
}

#[tokio::test]
async fn who_may_not_publish_releases_quietly() {
    let server = Server::default();
    server.knows(|state| state.unknown = vec!["PUBLISH"]);
    server.knows(|state| state.released = [1].into());
    let node = server.node(RedisConnectionInfo::default());
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    assert_eq!(release(&node, None).await, Ok(Released::Done { told: 0 }));
    assert!(!server.has_seen(&format!("EVALSHA {}", RELEASE_ALOUD.hash())));
}

#[tokio::test]
async fn what_is_published_is_heard_between_answers() {
    let server = Server::default();
    let node = server.node(RedisConnectionInfo::default());
    let mut listener = listen(&node, KEY).await.expect("subscribed");
    assert_eq!(listener.heard().now_or_never(), None);
    server.publish("{shop:order:2}:released");
    server.publish(CHANNEL);
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    hears(&mut listener).await;

    server.break_connection();
    hears(&mut listener).await;
    server
        .eventually("subscribed again", |state| {
            state.subscribed.contains(CHANNEL)
        })
        .await;
    hears(&mut listener).await;
    server.publish(CHANNEL);
    hears(&mut listener).await;
}

/// Also when it is dropped between the command and its confirmation.
#[tokio::test]
async fn nothing_is_left_of_who_stops_listening_at_any_poll() {
    let server = Server::default();
    let node = server.node(RedisConnectionInfo::default());
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    let stays = listen(&node, "shop:order:2").await.expect("subscribed");
    let mut confirmed = 0;
    for polls in 0..300 {
        let mut listening = listen(&node, KEY);
        for _ in 0..polls % 30 {
            if poll!(&mut listening).is_ready() {
                confirmed += 1;
                break;
            }
            yield_now().await;
        }
    }
    assert!((1..300).contains(&confirmed), "{confirmed}");
    server
        .eventually("unsubscribed", |state| {
            state.subscribed.iter().eq(["{shop:order:2}:released"])
        })
        .await;
    drop(stays);
    server
        .eventually("unsubscribed", |state| state.subscribed.is_empty())
        .await;
    while !listening(&node).is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn to_listen_ends_when_its_limit_does() {
    let server = Server::default();
    let node = server.node(RedisConnectionInfo::default());
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    server.knows(|state| state.silent = vec!["SUBSCRIBE"]);
    let limit = limit();
    let mut listening = Arc::clone(&node).listen(KEY.into(), limit.clone());
    assert!(poll!(&mut listening).is_pending());
    server
        .eventually("asked", |state| {
            state.seen.iter().any(|seen| seen.starts_with("SUBSCRIBE"))
        })
        .await;
    assert!(poll!(&mut listening).is_pending());
    limit.end();
    assert_eq!(&*reason(listening.await), "no answer in 5s");
}

/// What was refused is not tried for each who wants to listen.
#[tokio::test]
async fn a_refused_subscription_is_refused_with_the_words_of_the_server() {
    let server = Server::default();
    server.knows(|state| state.unknown = vec!["SUBSCRIBE"]);
    let node = server.node(RedisConnectionInfo::default());
    for key in [KEY, "shop:order:2", "shop:order:3"] {
        let said = reason(listen(&node, key).await);
        assert_eq!(
            &*said,
            "cannot be listened to: ERR unknown command 'SUBSCRIBE'"
        );
    }
    let tried = |state: &mut State| {
        let tried = state.seen.iter();
        tried.filter(|seen| seen.starts_with("SUBSCRIBE")).count()
    };
    assert_eq!(server.knows(tried), 1);
    assert!(listening(&node).is_empty());
}
