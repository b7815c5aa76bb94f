//! A cluster of two servers that say what the test has them say.

use std::sync::OnceLock;

use futures_util::poll;
use redis::RedisConnectionInfo;

use super::*;
use crate::node::redis::RedisNode;
use crate::node::redis::tests::{Server, bulk, node, target};
use crate::node::{Acquired, Ask, Extension, Ledger, Node, Released, Return, Token};

const KEY: &str = "order:1";

struct Pair {
    servers: [Server; 2],
    /// As redirects name them.
    names: [String; 2],
    node: Arc<RedisNode>,
}

impl Pair {
    /// Both say that the first has all slots.
    fn new() -> Self {
        let servers = [Server::default(), Server::default()];
        let addresses = servers.each_ref().map(Server::address);
        let Address::Tcp(host, port) = &addresses[0] else {
            unreachable!("on a port");
        };
        let first = format!("*2\r\n{}:{port}\r\n", bulk(host));
        let slots = format!("*1\r\n*3\r\n:0\r\n:16383\r\n{first}");
        let names = addresses.each_ref().map(ToString::to_string);
        let place = Place::Cluster(addresses.to_vec());
        let pair = Self {
            servers,
            names,
            node: node(place, RedisConnectionInfo::default()),
        };
        for of in 0..2 {
            let slots = slots.clone();
            pair.script(of, move |command| {
                (command.join(" ") == "CLUSTER SLOTS").then(|| slots.clone())
            });
        }
        pair
    }

    /// What one of them says from now on, after what it said before.
    fn script(
        &self,
        of: usize,
        mut script: impl FnMut(&[String]) -> Option<String> + Send + 'static,
    ) {
        self.servers[of].knows(|state| {
            let mut before = state.script.take();
            state.script = Some(Box::new(move |command| {
                let said = before.as_mut().and_then(|before| before(command));
                said.or_else(|| script(command))
            }));
        });
    }

    /// One of them answers requests for locks with this.
    fn answers(&self, of: usize, answer: &str) {
        let answer = answer.to_owned();
        self.script(of, move |command| {
            is_request(command).then(|| answer.clone())
        });
    }

    /// The first does not answer the next request for a lock, and nothing that comes behind it, until it is told how.
    fn hold(&self) -> impl FnOnce(&str) {
        let behind: Arc<Mutex<Option<String>>> = Arc::default();
        let held = Arc::clone(&behind);
        let server = self.servers[0].clone();
        server.knows(|state| {
            let mut before = state.script.take();
            state.script = Some(Box::new(move |command| {
                let said = before.as_mut().and_then(|before| before(command));
                match &mut *lock(&held) {
                    Some(behind) => behind.push_str(&said.unwrap_or("+OK\r\n".to_owned())),
                    nothing if is_request(command) => *nothing = Some(String::new()),
                    _ => return said,
                }
                Some(String::new())
            }));
        });
        move |answer| {
            let behind = lock(&behind).take().expect("it was asked");
            server.say(&format!("{answer}{behind}"));
        }
    }

    /// What came to one of them for a lock.
    fn seen(&self, of: usize) -> Vec<String> {
        let seen = self.servers[of].knows(|state| state.seen.clone());
        let words = seen.iter().map(|seen| seen.split(' ').collect::<Vec<_>>());
        let requests = words.filter(|words| {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            words[0] == "ASKING" || is_request(&words)
        });
        requests.map(|words| words[0].to_owned()).collect()
    }
}

fn is_request(command: &[String]) -> bool {
    command[0] == "SET" || (command[0] == "EVALSHA" && command[2] != "0")
}

fn limit() -> Limit {
    Limit::within(Duration::from_secs(5))
}

fn ask(ledger: &Arc<Ledger>) -> Arc<Ask> {
    Arc::new(Ask {
        key: KEY.into(),
        token: Token::fresh(None).expect("random"),
        ttl: Duration::from_secs(30),
        fence: None,
        limit: limit(),
        ledger: Arc::clone(ledger),
        command: OnceLock::new(),
    })
}

async fn take(pair: &Pair) -> Result<Acquired, NodeError> {
    Arc::clone(&pair.node)
        .acquire(ask(&Arc::default()), 0)
        .await
}

async fn give_back(pair: &Pair) -> Result<Released, NodeError> {
    let give_back = Return {
        key: KEY.into(),
        token: Token::fresh(None).expect("random"),
        keep: None,
        aloud: None,
        again: false,
        limit: limit(),
        command: OnceLock::new(),
    };
    Arc::clone(&pair.node).release(Arc::new(give_back)).await
}

fn moved(pair: &Pair, to: usize) -> String {
    format!("-MOVED 1 {}\r\n", pair.names[to])
}

/// Also where both still say that all is where it was.
#[tokio::test]
async fn a_release_is_sent_on_as_its_acquire_was() {
    let pair = Pair::new();
    pair.answers(0, &moved(&pair, 1));
    pair.servers[1].knows(|state| state.released = [1, 1].into());
    for _ in 0..2 {
        assert_eq!(take(&pair).await, Ok(Acquired::Granted(0)));
        assert_eq!(give_back(&pair).await, Ok(Released::Done { told: 0 }));
    }
    assert_eq!(pair.seen(1), ["SET", "EVALSHA", "SET", "EVALSHA"]);
    assert!(pair.seen(0).len() <= 4, "{:?}", pair.seen(0));
}

/// Its release was handed over meanwhile, and may have been there already.
#[tokio::test]
async fn an_acquire_is_not_sent_on_behind_its_release() {
    let pair = Pair::new();
    let answer = pair.hold();
    let ledger = Arc::default();
    let mut taking = Arc::clone(&pair.node).acquire(ask(&ledger), 0);
    while pair.seen(0).is_empty() {
        assert!(poll!(&mut taking).is_pending());
        tokio::task::yield_now().await;
    }
    ledger.close();
    answer(&moved(&pair, 1));
    assert_eq!(
        taking.await,
        Err(NodeError::not_asked("decided without it"))
    );
    assert_eq!(pair.seen(0), ["SET"]);
    assert!(pair.seen(1).is_empty());
}

#[tokio::test]
async fn a_renewal_is_not_sent_on_after_the_end_of_its_lease() {
    let pair = Pair::new();
    assert_eq!(take(&pair).await, Ok(Acquired::Granted(0)));
    let answer = pair.hold();
    let until = Instant::now() + Duration::from_secs(2);
    let extension = Extension {
        key: KEY.into(),
        token: Token::fresh(None).expect("random"),
        ttl: Duration::from_secs(30),
        fence: None,
        until,
        limit: limit(),
        ledger: Arc::default(),
        command: OnceLock::new(),
    };
    let mut renewing = Arc::clone(&pair.node).extend(Arc::new(extension), 0);
    while pair.seen(0).len() < 2 {
        assert!(Instant::now() < until, "the machine is too slow to tell");
        assert!(poll!(&mut renewing).is_pending());
        tokio::task::yield_now().await;
    }
    tokio::time::sleep_until(until).await;
    answer(&moved(&pair, 1));
    assert_eq!(
        renewing.await,
        Err(NodeError::not_asked("the lease has ended"))
    );
    assert!(pair.seen(1).is_empty());
}

#[tokio::test]
async fn who_is_sent_there_for_once_says_so_and_comes_back() {
    let pair = Pair::new();
    pair.answers(0, &format!("-ASK 1 {}\r\n", pair.names[1]));
    assert_eq!(take(&pair).await, Ok(Acquired::Granted(0)));
    assert_eq!(take(&pair).await, Ok(Acquired::Granted(0)));
    assert_eq!(pair.seen(0), ["SET", "SET"]);
    assert_eq!(pair.seen(1), ["ASKING", "SET", "ASKING", "SET"]);
}

/// And a request that is sent to and fro ends.
#[tokio::test]
async fn servers_that_send_to_one_another_are_an_outage() {
    let pair = Pair::new();
    pair.answers(0, &moved(&pair, 1));
    pair.answers(1, &moved(&pair, 0));
    let Err(NodeError::Failed(_, reason)) = take(&pair).await else {
        panic!("nobody has the slot");
    };
    assert!(reason.starts_with("MOVED 1 "), "{reason}");
    assert_eq!(pair.seen(0).len() + pair.seen(1).len(), 6);
}

/// Nobody has all of the keys: it is given up when time runs short, in the words of the server.
#[tokio::test]
async fn keys_that_are_on_their_way_are_asked_for_until_the_time_is_over() {
    let pair = Pair::new();
    let mut left = 3;
    pair.script(0, move |command| {
        let is_early = is_request(command) && left > 0;
        left -= u32::from(is_early);
        is_early.then(|| "-TRYAGAIN Multiple keys\r\n".to_owned())
    });
    assert_eq!(take(&pair).await, Ok(Acquired::Granted(0)));
    assert_eq!(pair.seen(0).len(), 4);

    pair.answers(0, "-TRYAGAIN Multiple keys\r\n");
    let asked = Instant::now();
    let Err(NodeError::Failed(_, reason)) = take(&pair).await else {
        panic!("nobody has them");
    };
    assert_eq!(&*reason, "TRYAGAIN Multiple keys");
    assert!(asked.elapsed() < Duration::from_secs(6));
}

/// So many servers with a slot each, at ports from this one on.
fn many(first: u16, count: u16) -> Topology {
    let text = |text: &str| redis::Value::BulkString(text.as_bytes().to_vec());
    let range = |index: u16| {
        let port = i64::from(first + index);
        let server = vec![text("10.0.0.1"), redis::Value::Int(port)];
        let slot = redis::Value::Int(index.into());
        redis::Value::Array(vec![slot.clone(), slot, redis::Value::Array(server)])
    };
    let slots = redis::Value::Array((0..count).map(range).collect());
    Topology::read(&slots, &Address::Tcp("10.0.0.1".to_owned(), 1)).expect("a topology")
}

/// One that was set up anew has no server that it had before.
#[tokio::test]
async fn a_cluster_of_many_servers_may_change_as_a_whole_and_of_too_many_it_is_said() {
    let target = target(
        0,
        Place::Cluster(Vec::new()),
        RedisConnectionInfo::default(),
    );
    // Nobody is connected.
    let (cluster, _work) = Cluster::new(target, Vec::new(), 1);
    for first in [1_000, 2_000, 3_000] {
        cluster.learn(many(first, 800)).expect("not too many");
        assert_eq!(cluster.members().len(), 800);
    }
    for port in 0..200 {
        let address = Address::Tcp("10.0.0.2".to_owned(), 10_000 + port);
        cluster.sent_on(&address, 0).expect("there is room");
    }
    let address = Address::Tcp("10.0.0.2".to_owned(), 20_000);
    assert!(cluster.sent_on(&address, 0).is_none(), "there is none");
    cluster.learn(many(4_000, 800)).expect("just so many");
    let trouble = cluster.learn(many(5_000, 801)).expect_err("too many");
    assert_eq!(
        &*trouble.reason,
        "its servers are too many: 801 have slots, and requests were sent on to 200 others, where 1000 are the most"
    );
    let map = cluster.known.borrow().map.clone().expect("the one before");
    assert_eq!(map.topology, many(4_000, 800));
}
