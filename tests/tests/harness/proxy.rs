//! Every fault of the proxy, as a client on one side and the server on the other see it.

use crate::client::Client;
use lock_tests::{DEADLINE, Mode, Proxy, RedisServer, eventually_blocking};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

fn proxied() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    (server, proxy)
}

#[test]
fn passes_and_counts() {
    let (server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    assert_eq!(client.ask(&["SET", "a", "1"]).expect("an answer"), "+OK");
    assert_eq!(server.get("a").as_deref(), Some("1"));
    let request = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    assert_eq!(proxy.bytes_to_server(), request.len() as u64);
    eventually_blocking(DEADLINE, "the answer is counted", || {
        proxy.bytes_to_client() == 5
    });
    assert_eq!((proxy.connections(), proxy.open_connections()), (1, 1));
    drop(client);
    eventually_blocking(DEADLINE, "the closed connection is gone", || {
        proxy.open_connections() == 0
    });
}

#[test]
fn refuses_and_listens_again_on_its_port() {
    let (_server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    for _ in 0..3 {
        proxy.set(Mode::Refuse);
        let refused = Client::connect(proxy.port())
            .err()
            .map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
        proxy.set(Mode::Pass);
        assert_eq!(
            Client::to(&proxy).ask(&["PING"]).expect("an answer"),
            "+PONG"
        );
    }
    assert!(client.is_reset());
}

#[test]
fn blackhole_swallows_until_it_is_lifted() {
    let (server, proxy) = proxied();
    let mut early = Client::to(&proxy);
    assert_eq!(early.ask(&["PING"]).expect("an answer"), "+PONG");
    proxy.set(Mode::Blackhole);
    let mut late = Client::to(&proxy);
    late.send(&["SET", "late", "1"]);
    early.send(&["SET", "early", "1"]);
    assert!(early.is_silent() && late.is_silent());
    assert_eq!(server.keys("*"), Vec::<String>::new());
    proxy.set(Mode::Pass);
    assert_eq!(early.answer().expect("a late answer"), "+OK");
    assert_eq!(late.answer().expect("a late answer"), "+OK");
    assert_eq!(server.keys("*"), ["early", "late"]);
}

#[test]
fn holds_answers_and_delivers_them_later() {
    let (server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    proxy.set(Mode::HoldAnswers);
    client.send(&["SET", "a", "1"]);
    eventually_blocking(DEADLINE, "the request is carried out", || {
        server.exists("a")
    });
    assert!(client.is_silent());
    proxy.set(Mode::Pass);
    assert_eq!(client.answer().expect("a late answer"), "+OK");
}

#[test]
fn drops_answers_for_good() {
    let (server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    proxy.set(Mode::DropAnswers);
    client.send(&["SET", "a", "1"]);
    eventually_blocking(DEADLINE, "the request is carried out", || {
        server.exists("a")
    });
    assert!(client.is_silent());
    proxy.set(Mode::Pass);
    assert!(client.is_reset());
    assert_eq!(
        Client::to(&proxy)
            .ask(&["GET", "nothing"])
            .expect("an answer"),
        "$-1"
    );
}

#[test]
fn delays_each_way_in_order_and_without_limiting_the_rate() {
    let (_server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    let (requests, answers) = (Duration::from_millis(60), Duration::from_millis(40));
    proxy.set(Mode::Delay { requests, answers });
    let start = Instant::now();
    // One after the other, so that each is a chunk of its own.
    for _ in 0..100 {
        client.send(&["INCR", "n"]);
    }
    for n in 1..=100 {
        assert_eq!(client.answer().expect("an answer"), format!(":{n}"));
    }
    let elapsed = start.elapsed();
    assert!(elapsed >= requests + answers, "{elapsed:?}");
    assert!(
        elapsed < 30 * (requests + answers),
        "{elapsed:?}: one delay, not a hundred"
    );
}

#[test]
fn cuts_after_a_request_that_is_carried_out() {
    let (server, proxy) = proxied();
    proxy.set(Mode::CutAfter {
        word: "SET".to_owned(),
        times: 1,
    });
    let mut client = Client::to(&proxy);
    assert!(
        client
            .ask(&["CLIENT", "SETNAME", "SETS"])
            .expect("another command passes")
            .starts_with('+')
    );
    client.send(&["set", "a", "1"]);
    assert!(client.is_reset());
    assert_eq!((server.get("a").as_deref(), proxy.cuts()), (Some("1"), 1));
    assert_eq!(
        Client::to(&proxy)
            .ask(&["SET", "a", "2"])
            .expect("only once"),
        "+OK"
    );

    proxy.set(Mode::CutAfter {
        word: "my key".to_owned(),
        times: usize::MAX,
    });
    for count in 2..5 {
        let mut client = Client::to(&proxy);
        client.send(&["INCR", "my key"]);
        assert!(client.is_reset());
        assert_eq!(proxy.cuts(), count);
    }
    assert_eq!(server.get("my key").as_deref(), Some("3"));
}

#[test]
fn resets_what_is_open() {
    let (_server, proxy) = proxied();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::to(&proxy)).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    }
    proxy.reset();
    assert_eq!(proxy.open_connections(), 0);
    assert!(clients.iter_mut().all(Client::is_reset));
    assert_eq!(
        Client::to(&proxy).ask(&["PING"]).expect("an answer"),
        "+PONG"
    );
}

#[test]
fn forgets_what_is_open_without_telling() {
    let (server, proxy) = proxied();
    let mut forgotten = Client::to(&proxy);
    assert_eq!(forgotten.ask(&["PING"]).expect("an answer"), "+PONG");
    proxy.forget();
    forgotten.send(&["SET", "a", "1"]);
    assert!(forgotten.is_silent());
    let mut client = Client::to(&proxy);
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    assert!(forgotten.is_silent() && !server.exists("a"));
    assert_eq!(proxy.open_connections(), 2);
    drop(forgotten);
    eventually_blocking(DEADLINE, "its end is noticed", || {
        proxy.open_connections() == 1
    });
    proxy.forget();
    proxy.reset();
    assert!(client.is_reset());
}

#[test]
fn leads_elsewhere_and_back() {
    let (server, proxy) = proxied();
    let other = RedisServer::start();
    let mut client = Client::to(&proxy);
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    for (to, value) in [(&other, "1"), (&server, "2")] {
        proxy.lead_to(to.address());
        assert!(client.is_reset());
        client = Client::to(&proxy);
        assert_eq!(client.ask(&["SET", "a", value]).expect("an answer"), "+OK");
        assert_eq!(to.get("a").as_deref(), Some(value));
    }
}

#[test]
fn shows_the_end_of_its_server() {
    let (server, proxy) = proxied();
    let mut client = Client::to(&proxy);
    assert_eq!(client.ask(&["PING"]).expect("an answer"), "+PONG");
    server.kill();
    assert!(client.answer().is_err());
    assert!(Client::to(&proxy).is_reset());
}
