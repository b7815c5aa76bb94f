//! Whose certificates are taken, in which words others are refused, and what becomes of those that are renewed.

use lock_runtime::{ConfigError, LockManager, NodeSpec, Tls};
use lock_tests::certificates::{ClientFiles, Validity};
use lock_tests::logs::{keep, kept};
use lock_tests::{
    Authority, Certificate, DEADLINE, Disk, RedisServer, cycle, eventually, eventually_async, ready,
};
use std::path::Path;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(60);

/// A machine that is busy is not an outage.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

fn behind_tls(certificate: &Certificate) -> RedisServer {
    RedisServer::options().behind_tls(certificate).start()
}

fn node(host: &str, server: &RedisServer, tls: Tls) -> NodeSpec {
    NodeSpec::from(format!("rediss://{host}:{}", server.port())).tls(tls)
}

fn manager(node: impl Into<NodeSpec>) -> LockManager {
    let locks = LockManager::builder().node(node).node_timeout(NODE_TIMEOUT);
    locks.build().expect("nothing is wrong with its URL")
}

async fn refused(node: NodeSpec, words: &str) {
    let error = manager(node).lock("k").ttl(TTL).acquire().await;
    let said = error.expect_err(words).to_string();
    assert!(said.contains(words), "not {words:?}: {said}");
}

async fn taken(node: NodeSpec) {
    cycle(&manager(node), "k", TTL).await;
}

#[tokio::test]
async fn hosts_are_verified_by_name_and_by_address() {
    let authority = Authority::default();
    let trusting = || Tls::new().ca_pem(authority.pem());
    let of = |hosts: &[&str]| authority.certificate_for(hosts, Validity::Now);

    let server = behind_tls(&of(&["127.0.0.1"]));
    taken(node("127.0.0.1", &server, trusting())).await;
    let words = "the certificate of the server is not for localhost, but for 127.0.0.1";
    refused(node("localhost", &server, trusting()), words).await;

    let server = behind_tls(&of(&["LocalHost"]));
    taken(node("localhost", &server, trusting())).await;
    taken(node("LOCALHOST", &server, trusting())).await;
    let words = "the certificate of the server is not for 127.0.0.1, but for LocalHost";
    refused(node("127.0.0.1", &server, trusting()), words).await;

    let many = [
        "a.example",
        "b.example",
        "c.example",
        "d.example",
        "10.0.0.1",
    ];
    let server = behind_tls(&of(&many));
    refused(
        node("127.0.0.1", &server, trusting()),
        "not for 127.0.0.1, but for a.example, b.example, c.example, …",
    )
    .await;

    // The common name, which is no name any more.
    let server = behind_tls(&of(&[]));
    let words = "not for 127.0.0.1, but for no name at all: it has no subject alternative name";
    refused(node("127.0.0.1", &server, trusting()), words).await;
}

#[tokio::test]
async fn servers_are_taken_that_a_trusted_authority_has_signed_for_today() {
    let authority = Authority::default();
    let trusting = |authority: &Authority| Tls::new().ca_pem(authority.pem());
    let host = "127.0.0.1";

    let server = behind_tls(&authority.certificate());
    let another = Authority::new("another");
    let words = "the certificate of the server is of an authority that is not trusted";
    refused(node(host, &server, trusting(&another)), words).await;
    let of_the_same_name = Authority::default();
    let words = "the certificate of the server was not signed by the authority that it names";
    refused(node(host, &server, trusting(&of_the_same_name)), words).await;
    let both = format!("{}{}", another.pem(), authority.pem());
    taken(node(host, &server, Tls::new().ca_pem(both))).await;

    for (validity, words) in [
        (Validity::Past, "has expired, by the clock here"),
        (Validity::Future, "is not valid yet, by the clock here"),
    ] {
        let server = behind_tls(&authority.certificate_for(&[host], validity));
        let words = format!("the certificate of the server {words}");
        refused(node(host, &server, trusting(&authority)), &words).await;
    }

    let own = Certificate::self_signed_server();
    let server = behind_tls(&own);
    taken(node(host, &server, Tls::new().ca_pem(&own.pem))).await;
    let own = Certificate::self_signed_authority();
    let server = behind_tls(&own);
    let words = "the certificate of the server is that of an authority (CA:TRUE)";
    refused(node(host, &server, Tls::new().ca_pem(&own.pem)), words).await;
}

/// Of TLS 1.3, where a client has heard nothing yet when it is done, and of 1.2.
#[tokio::test]
async fn clients_show_a_certificate_where_one_is_demanded() {
    let (authority, of_clients) = (Authority::default(), Authority::new("clients"));
    let another = Authority::new("another");
    let expired = of_clients.certificate_for(&["client"], Validity::Past);
    for (version, missing) in [
        (
            "TLSv1.3",
            "the server demands a client certificate, and none is given",
        ),
        ("TLSv1.2", "it demands a client certificate, or"),
    ] {
        let server = RedisServer::options()
            .behind_tls(&authority.certificate())
            .demanding_certificates_of(&of_clients)
            .argument("--tls-protocols", version)
            .start();
        let trusting = || Tls::new().ca_pem(authority.pem());
        let showing = |shown: &Certificate| trusting().client_pem(&shown.pem, &shown.key);
        let host = "127.0.0.1";
        taken(node(host, &server, showing(&of_clients.certificate()))).await;
        taken(server.url().into()).await;
        refused(node(host, &server, trusting()), missing).await;
        let shown = another.certificate();
        let words = "the server does not trust the authority of the client certificate";
        refused(node(host, &server, showing(&shown)), words).await;
        let words = "the client certificate has expired, by the server's clock";
        refused(node(host, &server, showing(&expired)), words).await;
    }
}

/// Everything is another's after it: the server's certificate, ours, and both authorities.
#[tokio::test]
async fn certificates_are_renewed_while_the_service_runs() {
    let (authority, of_clients) = (Authority::new("old"), Authority::new("old clients"));
    let server = RedisServer::options()
        .behind_tls(&authority.certificate())
        .demanding_certificates_of(&of_clients)
        .start();
    let files = ClientFiles::new(&authority, &of_clients.certificate());
    let url = format!("rediss://{}?{}", server.name(), files.options());
    let by_files = manager(&url);
    let shown = of_clients.certificate();
    let at_hand = Tls::new().ca_pem(authority.pem());
    let at_hand = at_hand.client_pem(&shown.pem, &shown.key);
    let by_bytes = manager(node("127.0.0.1", &server, at_hand));
    cycle(&by_bytes, "k", TTL).await;
    cycle(&by_files, "k", TTL).await;
    let held = by_files.lock("held").ttl(TTL).acquire().await;
    let held = held.expect("free");

    let (authority, of_clients) = (Authority::new("new"), Authority::new("new clients"));
    server.renew_certificate(&authority.certificate());
    server.renew_demands(&of_clients);
    // The server first: whoever renews both cannot do it at the same moment.
    server.restart(Disk::Lose).await;
    eventually_async(DEADLINE, "the new server is not trusted", || async {
        let error = by_files.lock("k").ttl(TTL).acquire().await;
        let said = error.expect_err("not trusted").to_string();
        said.contains("is of an authority that is not trusted")
    })
    .await;
    files.trust(&authority.pem());
    eventually_async(DEADLINE, "the server does not trust us", || async {
        let error = by_files.lock("k").ttl(TTL).acquire().await;
        let said = error.expect_err("not trusted").to_string();
        said.contains("does not trust the authority of the client certificate")
    })
    .await;
    files.show(&of_clients.certificate());
    ready(&by_files).await;
    held.extend().await.expect("it was not over yet");
    held.release().await.expect("it is there again");
    cycle(&by_files, "k", TTL).await;
    let error = by_bytes.lock("k").ttl(TTL).acquire().await;
    let said = error.expect_err("it is not renewed").to_string();
    assert!(
        said.contains("is of an authority that is not trusted"),
        "{said}"
    );
}

/// Of a warning.
const KEPT: &str = "the last good ones stay in use";

#[tokio::test]
async fn new_certificates_that_cannot_be_used_are_warned_of_and_the_last_good_ones_are_kept() {
    keep();
    let (authority, of_clients) = (Authority::default(), Authority::new("clients"));
    let server = RedisServer::options()
        .behind_tls(&authority.certificate())
        .demanding_certificates_of(&of_clients)
        .start();
    let good = of_clients.certificate();
    let files = ClientFiles::new(&authority, &good);
    let url = format!("rediss://{}?{}", server.name(), files.options());
    let locks = manager(&url);
    cycle(&locks, "k", TTL).await;
    let connect_again = async || {
        let before: u64 = connections(&server);
        let _: u64 = server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        eventually(DEADLINE, "it is connected again", || {
            connections(&server) > before
        })
        .await;
        ready(&locks).await;
        cycle(&locks, "k", TTL).await;
    };
    let warnings = |words: &str| {
        let log = kept();
        let said = |line: &&str| line.contains("WARN") && line.contains(words);
        log.lines().filter(said).count()
    };
    // A certificate whose key is not there yet, as between two steps of whoever renews both.
    std::fs::write(files.certificate(), of_clients.certificate().pem).unwrap();
    connect_again().await;
    connect_again().await;
    assert_eq!(warnings("it is the key of another certificate"), 1);
    std::fs::write(files.ca(), "-----BEGIN CERTIFICATE-----\nhunter2").unwrap();
    connect_again().await;
    assert_eq!(warnings(KEPT), 2, "{}", kept());
    std::fs::remove_file(files.key()).unwrap();
    connect_again().await;
    files.trust(&authority.pem());
    connect_again().await;
    assert_eq!(warnings("cannot be read from"), 1, "{}", kept());
    assert_eq!(warnings(KEPT), 3, "{}", kept());

    files.show(&of_clients.certificate());
    connect_again().await;
    assert_eq!(warnings(KEPT), 3, "{}", kept());
    assert!(kept().contains("certificates were renewed"), "{}", kept());
    assert!(!kept().contains("hunter2"), "{}", kept());
}

/// How many clients the server has had.
fn connections(server: &RedisServer) -> u64 {
    let info: redis::InfoDict = server.command(&["INFO", "stats"]);
    info.get("total_connections_received").expect("a number")
}

#[test]
fn what_cannot_be_used_is_told_when_the_manager_is_built() {
    let authority = Authority::default();
    let (shown, another) = (authority.certificate(), authority.certificate());
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let ca = file("ca.pem", &authority.pem());
    let certificate = file("client.pem", &shown.pem);
    let key = file("client.key", &shown.key);
    let trusting = |path: &Path| Tls::new().ca_file(path);
    let good = || trusting(&ca);
    let node = |tls| NodeSpec::from("rediss://:hunter2@redis.example:1").tls(tls);
    let build = |tls| LockManager::builder().node(node(tls)).build();
    build(good().client_files(&certificate, &key)).expect("all is well");
    // Both may be in one file, in any order, with words between them.
    let one = format!("The key:\n{}\nAnd\n{}", shown.key, shown.pem);
    let one = file("both.pem", &one);
    build(good().client_files(&one, &one)).expect("all is well");

    let nowhere = directory.path().join("nowhere.pem");
    let empty = file("empty.pem", "");
    let garbage = file("garbage.pem", "-----BEGIN CERTIFICATE-----\nhunter2\n");
    let odd = "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n";
    let odd = file("odd.pem", odd);
    let large = file("large.pem", &authority.pem().repeat(1 << 12));
    let encrypted = shown.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let encrypted = file("encrypted.key", &encrypted);
    let another = file("another.key", &another.key);
    for (tls, words) in [
        (trusting(&nowhere), "No such file"),
        (trusting(directory.path()), "it is not a file"),
        (trusting(Path::new("/dev/zero")), "it is not a file"),
        (trusting(&empty), "there is no certificate in it"),
        (trusting(&key), "there is no certificate in it"),
        (trusting(&garbage), "it is not PEM"),
        (trusting(&odd), "not a certificate that can be used"),
        (trusting(&large), "larger than 1 MiB"),
        (
            Tls::new().ca_pem("hunter2"),
            "the CA certificates (PEM): there is no certificate in it",
        ),
        (
            good().client_files(&nowhere, &key),
            "the client certificate cannot be read from",
        ),
        (
            good().client_files(&certificate, &nowhere),
            "the key of the client certificate cannot be read from",
        ),
        (
            good().client_files(&key, &key),
            "there is no certificate in it",
        ),
        (
            good().client_files(&certificate, &certificate),
            "there is no private key in it",
        ),
        (
            good().client_files(&certificate, &encrypted),
            "not encrypted",
        ),
        (
            good().client_files(&certificate, &another),
            "it is the key of another certificate",
        ),
        (
            good().client_files(&odd, &key),
            "it is not a certificate that can be shown",
        ),
        (
            good().client_pem(&shown.pem, "hunter2"),
            "there is no private key in it",
        ),
    ] {
        let error = build(tls).expect_err(words);
        assert!(matches!(error, ConfigError::Node { position: 1, .. }));
        let said = format!("{error} {error:?}");
        assert!(said.contains(words), "not {words:?}: {said}");
        assert!(said.contains("rediss://redis.example:1"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        let secret = shown.key.lines().nth(1).expect("base64");
        assert!(!said.contains(secret), "{said}");
    }
}
