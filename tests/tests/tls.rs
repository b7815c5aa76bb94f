//! Nodes behind TLS: the same promises, and what is at the port is told when it is something else.

use lock_runtime::{LockManager, LockManagerBuilder, NodeSpec, Tls};
use lock_tests::{
    Authority, DEADLINE, Disk, Fleet, Mode, RedisServer, cycle, eventually, eventually_async, ready,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{HandshakeKind, ServerConfig};
use tokio_rustls::server::TlsStream;

const TTL: Duration = Duration::from_secs(60);

/// A wait that nothing ends sooner is asked about again at the latest after this.
const POLL: Duration = Duration::from_millis(250);

/// A machine that is busy is not an outage.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

fn behind_tls(nodes: usize) -> Fleet {
    let authority = Authority::default();
    Fleet::of((0..nodes).map(|_| RedisServer::options().behind_tls(&authority.certificate())))
}

/// What a manager with this one node says of it.
async fn what_is_wrong_with(node: impl Into<NodeSpec>, node_timeout: Duration) -> String {
    let locks = LockManager::builder().node(node).node_timeout(node_timeout);
    let locks = locks.build().expect("nothing is wrong with its URL");
    let error = locks.lock("k").ttl(TTL).acquire().await;
    error.expect_err("it cannot be used").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_nodes_exclude_renew_fence_and_wake() {
    let fleet = behind_tls(5);
    fleet.found().await;
    let (ours, theirs) = (fleet.patient_manager().await, fleet.patient_manager().await);

    let request = ours.lock("k").ttl(TTL).fenced(true);
    let lease = request.acquire().await.expect("free");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 5).await;
    let busy = theirs.lock("k").ttl(TTL).acquire().await;
    assert!(busy.expect_err("held").is_busy());
    lease.extend().await.expect("renewed");
    let fence = lease.fence();
    lease.release().await.expect("released");
    let request = theirs.lock("k").ttl(TTL).fenced(true);
    let lease = request.acquire().await.expect("free again");
    assert!(lease.fence() > fence);
    lease.release().await.expect("released");

    // Longer than two TTLs.
    let ttl = Duration::from_secs(2);
    let held = ours.lock("k").ttl(ttl).run(|lease| async move {
        tokio::time::sleep(ttl * 5 / 2).await;
        !lease.is_lost()
    });
    assert!(held.await.expect("free"), "it was renewed");

    let median = fleet.median_wake(&ours, &theirs, 20).await;
    assert!(median < POLL / 4, "woken by nobody: {median:?}");
    fleet.assert_no_keys("k*").await;
}

#[tokio::test]
async fn a_password_is_for_the_server_and_nobody_else() {
    let authority = Authority::default();
    let options = RedisServer::options().behind_tls(&authority.certificate());
    let server = options.password("hunter2").start();
    let locks = LockManager::builder().node(server.url());
    let locks = locks.node_timeout(NODE_TIMEOUT).build().unwrap();
    cycle(&locks, "k", TTL).await;

    let wrong = server.url().replace("hunter2", "hunter3");
    let said = what_is_wrong_with(&wrong, NODE_TIMEOUT).await;
    assert!(said.contains("WRONGPASS"), "{said}");
    let untrusted = wrong.replacen("rediss://", "redis://", 1);
    let (untrusted, _) = untrusted.split_once('?').expect("files");
    let another = NodeSpec::from(untrusted.replacen("redis://", "rediss://", 1))
        .tls(Tls::new().ca_pem(Authority::new("another").pem()));
    server.reset_command_stats();
    let refused = what_is_wrong_with(another, NODE_TIMEOUT).await;
    assert!(refused.contains("not trusted"), "{refused}");
    assert_eq!(server.command_stats().get("auth"), None, "nobody logged in");
    for said in [said, refused] {
        assert!(!said.contains("hunter"), "{said}");
    }
}

#[tokio::test]
async fn some_nodes_may_be_behind_tls_and_others_not() {
    let authority = Authority::default();
    let plain = RedisServer::options;
    let tls = || RedisServer::options().behind_tls(&authority.certificate());
    let fleet = Fleet::of([plain(), tls(), plain(), tls(), plain()]);
    fleet.found().await;
    // As the environment of a service has it.
    let locks = LockManager::builder().nodes(&fleet.lock_nodes());
    let locks = locks.node_timeout(NODE_TIMEOUT).build().unwrap();
    ready(&locks).await;
    let lease = locks.lock("k").ttl(TTL).acquire().await.expect("free");
    eventually(DEADLINE, "all nodes have it", || fleet.nodes_with("k") == 5).await;
    for server in &fleet.servers()[..2] {
        server.kill();
    }
    lease.extend().await.expect("three of five");
    lease.release().await.expect("three of five");
    cycle(&locks, "k", TTL).await;
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_node_that_dies_and_comes_back_is_used_again() {
    let fleet = behind_tls(3);
    fleet.found().await;
    let max_ttl = Duration::from_secs(2);
    let locks = fleet.builder().max_ttl(max_ttl).build().unwrap();
    ready(&locks).await;
    let used_by_all = async || {
        eventually_async(DEADLINE, "all nodes are used", || async {
            let request = locks.lock("k").ttl(max_ttl).wait(DEADLINE);
            let lease = request.acquire().await.map_err(|error| error.to_string())?;
            let nodes = fleet.nodes_with("k");
            lease.release().await.map_err(|error| error.to_string())?;
            if nodes == 3 {
                Ok(())
            } else {
                Err(format!("{nodes} of 3"))
            }
        })
        .await;
    };
    used_by_all().await;
    for server in fleet.servers() {
        server.kill();
        cycle(&locks, "while it is down", max_ttl).await;
        server.restart(Disk::Lose).await;
        used_by_all().await;
    }
    fleet.assert_no_keys("*").await;
}

/// Requests that were given up are neither carried out late nor left behind.
#[tokio::test]
async fn nothing_is_left_where_the_network_was_silent() {
    let fleet = behind_tls(3).behind_proxies();
    fleet.found().await;
    let locks = fleet.builder().node_timeout(Duration::from_millis(100));
    let locks = locks.build().unwrap();
    ready(&locks).await;
    for mode in [Mode::Blackhole, Mode::HoldAnswers, Mode::DropAnswers] {
        for proxy in fleet.proxies() {
            proxy.set(mode.clone());
        }
        let error = locks.lock("k").ttl(TTL).acquire().await;
        assert!(error.expect_err("nobody answers").is_outage());
        for proxy in fleet.proxies() {
            proxy.set(Mode::Pass);
        }
        cycle(&locks, "k", TTL).await;
        fleet.assert_no_keys("*").await;
    }
}

/// The handshake of TLS has an end too, and the other nodes do not wait for it.
#[tokio::test]
async fn a_server_that_is_silent_when_greeted_is_decided_without() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    let (taken, mut connections) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            taken.send(connection).expect("the test runs");
        }
    });
    let fleet = behind_tls(2);
    let ca = Tls::new().ca_pem(Authority::default().pem());
    let silent = NodeSpec::from(format!("rediss://{silent}")).tls(ca);

    // Servers are as young as this, and the silent one keeps them from being taken for a new deployment.
    let builder = fleet.builder().max_ttl(Duration::from_secs(1));
    let builder = builder.node_timeout(Duration::from_millis(100));
    let locks = builder.node(silent.clone()).build().unwrap();
    eventually_async(DEADLINE, "two of three decide", || async {
        let lease = locks.lock("k").ttl(Duration::from_secs(1)).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        lease.release().await.map_err(|error| error.to_string())
    })
    .await;

    // Four times the node's timeout, and not less than 500 ms: it is given up, told in words, and tried again.
    let locks = LockManager::builder().node(silent);
    let locks = locks
        .node_timeout(Duration::from_millis(100))
        .build()
        .unwrap();
    eventually_async(DEADLINE, "the handshake is given up", || async {
        let error = locks.lock("k").ttl(TTL).acquire().await;
        let said = error.expect_err("it is silent").to_string();
        if said.contains("no answer to the TLS handshake in 500ms") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    let mut given_up = 0;
    while let Ok(mut connection) = connections.try_recv() {
        given_up += 1;
        let mut hello = Vec::new();
        let whole = tokio::time::timeout(DEADLINE, connection.read_to_end(&mut hello)).await;
        whole.expect("the client hangs up").ok();
        assert_eq!(hello.first(), Some(&0x16), "it was greeted in TLS");
    }
    assert!(given_up > 1);
}

#[tokio::test]
async fn a_port_for_something_else_is_called_so() {
    let authority = Authority::default();
    let fleet = Fleet::of([
        RedisServer::options(),
        RedisServer::options().behind_tls(&authority.certificate()),
    ]);
    let [plain, tls] = fleet.servers() else {
        panic!("not two servers")
    };
    let trusting = || Tls::new().ca_pem(authority.pem());

    let greeted = NodeSpec::from(format!("rediss://:hunter2@{}", plain.name())).tls(trusting());
    let locks = LockManager::builder().node(greeted);
    let locks = locks.node_timeout(Duration::from_millis(100)).build();
    let locks = locks.unwrap();
    // Redis answers a greeting only where a line ends in it, which is by chance.
    eventually_async(DEADLINE, "it is said what is wrong", || async {
        let error = locks.lock("k").ttl(TTL).acquire().await;
        let said = error.expect_err("it cannot be used").to_string();
        if said.contains("the port is one without TLS") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;

    let said = what_is_wrong_with(format!("redis://:hunter2@{}", tls.name()), NODE_TIMEOUT).await;
    assert!(said.contains("as by a port for TLS (rediss://)"), "{said}");

    let web = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = web.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = web.accept().await {
            connection
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .ok();
        }
    });
    let web = NodeSpec::from(format!("rediss://:hunter2@{address}")).tls(trusting());
    let said = what_is_wrong_with(web, NODE_TIMEOUT).await;
    assert!(said.contains("the port is one without TLS"), "{said}");
}

/// Something that speaks TLS, and behind it whatever the test wants.
async fn tls_server<F: Future<Output = ()> + Send>(
    authority: &Authority,
    serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
) -> NodeSpec {
    let shown = authority.certificate();
    let certificate = CertificateDer::from_pem_slice(shown.pem.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).expect("PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(connection).await {
                serve(stream).await;
            }
        }
    });
    NodeSpec::from(format!("rediss://{address}")).tls(Tls::new().ca_pem(authority.pem()))
}

#[tokio::test]
async fn what_is_behind_tls_and_is_not_redis_is_hung_up_on() {
    const MUCH: usize = 1 << 26;
    let authority = Authority::default();
    let web = tls_server(&authority, async |mut stream| {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .ok();
        // Until the client has read it.
        stream.read_to_end(&mut Vec::new()).await.ok();
    })
    .await;
    let said = what_is_wrong_with(web, NODE_TIMEOUT).await;
    assert!(said.contains("what answers there is not Redis"), "{said}");

    let (told, mut said_much) = tokio::sync::mpsc::unbounded_channel();
    let endless = tls_server(&authority, move |mut stream| {
        let told = told.clone();
        async move {
            let mut said = 0;
            stream.write_all(b"+").await.ok();
            let text = vec![b'a'; 1 << 16];
            while said < MUCH && stream.write_all(&text).await.is_ok() {
                said += text.len();
            }
            told.send(said).ok();
        }
    })
    .await;
    let said = what_is_wrong_with(endless, NODE_TIMEOUT * 2).await;
    assert!(said.contains("what answers there is not Redis"), "{said}");
    let said = said_much.recv().await.expect("it talked");
    assert!(said < MUCH, "{said} bytes were read");
}

/// What goes on where an earlier connection was would be as good as the certificates of that time.
#[tokio::test]
async fn certificates_are_looked_at_for_every_connection() {
    let (told, mut handshakes) = tokio::sync::mpsc::unbounded_channel();
    let node = tls_server(&Authority::default(), move |mut stream| {
        let told = told.clone();
        async move {
            // With what the client would need to go on from here.
            stream.write_all(b"-ERR not Redis\r\n").await.ok();
            told.send(stream.get_ref().1.handshake_kind()).ok();
            stream.shutdown().await.ok();
            stream.read_to_end(&mut Vec::new()).await.ok();
        }
    })
    .await;
    let locks = LockManager::builder().node(node);
    let _locks = locks.node_timeout(NODE_TIMEOUT).build().unwrap();
    for connection in 0..4 {
        let handshake = tokio::time::timeout(DEADLINE, handshakes.recv()).await;
        let handshake = handshake.expect("it connects again").expect("it serves");
        assert_eq!(handshake, Some(HandshakeKind::Full), "{connection}");
    }
}

/// What was written and not delivered must never arrive, so a connection that is silent is reset, and not closed.
#[tokio::test]
async fn a_silent_connection_is_reset() {
    let authority = Authority::default();
    let server = RedisServer::start();
    let address = server.address();
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let silence = Arc::new(tokio::sync::watch::Sender::new(false));
    let silent = Arc::clone(&silence);
    // In front of Redis, until it is silent: then it reads, and delivers no answer.
    let node = tls_server(&authority, move |stream| {
        let (told, mut silent) = (told.clone(), silent.subscribe());
        async move {
            let (mut requests, mut answers) = tokio::io::split(stream);
            let redis = TcpStream::connect(address).await.expect("it runs");
            let (mut from_redis, mut to_redis) = redis.into_split();
            let answering = tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy(&mut from_redis, &mut answers) => {}
                    _ = silent.wait_for(|silent| *silent) => {}
                }
                (from_redis, answers)
            });
            let end = tokio::io::copy(&mut requests, &mut to_redis).await;
            told.send(end.map_err(|error| error.kind())).ok();
            drop(answering);
        }
    })
    .await;
    let locks = LockManager::builder().node(node);
    let locks = locks
        .node_timeout(Duration::from_millis(500))
        .build()
        .unwrap();
    cycle(&locks, "k", TTL).await;
    silence.send_replace(true);
    let error = locks.lock("k").ttl(TTL).acquire().await;
    assert!(error.expect_err("it is silent").is_outage());
    let end = tokio::time::timeout(DEADLINE, ends.recv()).await;
    let end = end.expect("it is given up").expect("the server runs");
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn the_system_says_whom_to_trust_where_nothing_else_does() {
    let authority = Authority::default();
    let certificate = authority.certificate();
    let fleet = Fleet::of((0..3).map(|_| RedisServer::options().behind_tls(&certificate)));
    fleet.found().await;
    let urls = fleet
        .servers()
        .iter()
        .map(|server| format!("rediss://{}{}", lock_tests::acl::login(), server.name()));
    let urls: Vec<_> = urls.collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let system = directory.path().join("system.pem");
    std::fs::write(&system, authority.pem()).expect("the directory is ours");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lock_child"));
    command
        .args(["hold", "k"])
        .env("LOCK_NODES", urls.join(","))
        .env("SSL_CERT_FILE", &system);
    let mut peer = lock_tests::processes::Peer::start(command);
    peer.expect("held").await;
    assert!(fleet.nodes_with("k") >= 2);
    peer.say("go on");
    peer.expect("released").await;

    // The system that the tests run on trusts somebody else, if anybody.
    let locks = urls
        .iter()
        .fold(LockManager::builder(), LockManagerBuilder::node);
    match locks.node_timeout(NODE_TIMEOUT).build() {
        Ok(locks) => {
            let error = locks.lock("k").ttl(TTL).acquire().await;
            let said = error.expect_err("not trusted").to_string();
            assert!(
                said.contains("is of an authority that is not trusted"),
                "{said}"
            );
        }
        Err(error) => assert!(error.to_string().contains("ca-certificates"), "{error}"),
    }
}
