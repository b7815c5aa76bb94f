//! Nodes that cannot be used: each for one reason, and what is said is to be changed is about that.

use super::*;
use lock_runtime::{DownCause, Tls};
use lock_tests::certificates::{ClientFiles, Validity};
use lock_tests::version::is_before_7;
use lock_tests::{Authority, Cluster, Watched};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// A machine that is busy is not an outage, but silence has to have an end.
const PATIENCE: Duration = Duration::from_millis(200);

fn manager(nodes: impl IntoIterator<Item = impl Into<NodeSpec>>) -> LockManager {
    let builder = LockManager::builder().node_timeout(PATIENCE);
    let builder = nodes.into_iter().fold(builder, LockManagerBuilder::node);
    builder.build().expect("these are nodes")
}

/// Waits until the one node is found to be down for this reason, in this state; what is said of it.
async fn is_down(
    node: impl Into<NodeSpec>,
    expected: DownCause,
    state: ServerState,
    change: &str,
) -> String {
    let locks = manager([node]);
    eventually_async(DEADLINE, change, || async {
        let report = check(&locks).await;
        let down = report.findings().iter().find(|finding| {
            matches!(finding.kind(), FindingKind::Down { cause, .. } if *cause == expected)
        });
        let is_there = report
            .servers()
            .iter()
            .all(|server| *server.state() == state);
        match down.filter(|down| is_there && down.change().contains(change)) {
            Some(down) => Ok(down.to_string()),
            None => Err(report),
        }
    })
    .await
}

async fn down(node: impl Into<NodeSpec>, expected: DownCause, change: &str) -> String {
    is_down(node, expected, ServerState::Down, change).await
}

#[tokio::test]
async fn who_is_not_there() {
    let server = RedisServer::start();
    let name = server.name();
    server.pause();
    down(server.url(), DownCause::Silent, "a firewall").await;
    server.resume();
    server.kill();
    let listening = "have it listen there";
    let said = down(server.url(), DownCause::NotListening, listening).await;
    assert!(
        said.contains(&format!("{name}: it cannot be used: no connection: ")),
        "{said}"
    );
    assert!(said.contains("risk:   nobody gets a lock"), "{said}");
    let unknown = "redis://no-such-host.invalid:6379";
    down(unknown, DownCause::UnknownHost, "DNS").await;
    let socket = "redis+unix:///no-such-directory/socket";
    down(socket, DownCause::NotListening, listening).await;
}

#[tokio::test]
async fn who_does_not_let_us_in() {
    let server = RedisServer::options().password("hunter2").start();
    let at = server.name();
    for login in ["", ":hunter3@", "nobody:hunter2@"] {
        let said = down(
            format!("redis://{login}{at}"),
            DownCause::Login,
            "user and password",
        )
        .await;
        assert!(!said.contains("hunter"), "{said}");
    }
    let open = RedisServer::start();
    let needless = format!("redis://:hunter2@{}", open.name());
    down(needless, DownCause::Login, "none where it has none").await;
    server.command::<()>(&["ACL", "SETUSER", "few", "on", ">pw", "~*", "+ping", "+info"]);
    let few = format!("redis://few:pw@{at}");
    let said = down(few, DownCause::NotPermitted, "ACL rule").await;
    assert!(said.contains("NOPERM"), "{said}");
}

#[tokio::test]
async fn what_is_something_else() {
    let watched = Watched::options().replicas(0).start().await;
    let (sentinel, server) = (&watched.sentinels()[0], &watched.group().servers()[0]);
    let as_server = format!("redis://{}", sentinel.name());
    let said = is_down(
        as_server,
        DownCause::IsSentinel,
        ServerState::Refused,
        "redis+sentinel://",
    )
    .await;
    assert!(said.contains("it is a Sentinel"), "{said}");

    let as_cluster = server.url().replacen("redis://", "redis+cluster://", 1);
    let said = is_down(
        as_cluster,
        DownCause::NotInCluster,
        ServerState::Refused,
        "redis://",
    )
    .await;
    assert_eq!(said.matches(&server.name()).count(), 1, "{said}");
    let another = RedisServer::start();
    let both = format!(
        "redis+cluster://{},{}",
        server.url().trim_start_matches("redis://"),
        another.name()
    );
    let said = is_down(
        both,
        DownCause::NotInCluster,
        ServerState::Refused,
        "redis://",
    )
    .await;
    assert!(
        said.contains("2 servers were asked, and each: it is not a server of a"),
        "{said}"
    );

    let as_sentinel = watched.url_by(&[server.name()], watched.group());
    down(as_sentinel, DownCause::NotSentinel, "26379").await;

    let web = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = web.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = web.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            connection.write_all(answer).await.ok();
        }
    });
    down(
        format!("redis://{address}"),
        DownCause::NotRedis,
        "something else listens",
    )
    .await;
}

#[tokio::test]
async fn what_is_wrong_with_tls() {
    let (authority, stranger) = (Authority::default(), Authority::new("another"));
    let plain = RedisServer::start();
    let tls = RedisServer::options()
        .behind_tls(&authority.certificate())
        .start();
    let trusting = |at: String, trusted: &Authority| {
        NodeSpec::from(format!("rediss://{at}")).tls(Tls::new().ca_pem(trusted.pem()))
    };
    let to_plain = trusting(plain.name(), &authority);
    down(to_plain, DownCause::PortIsPlain, "redis:// in its URL").await;
    let to_tls = format!("redis://{}", tls.name());
    down(to_tls, DownCause::PortIsTls, "rediss:// in its URL").await;
    let untrusted = trusting(tls.name(), &stranger);
    down(untrusted, DownCause::Certificate, "ca= in its URL").await;
    let elsewhere = authority.certificate_for(&["elsewhere.example"], Validity::Now);
    let elsewhere = RedisServer::options().behind_tls(&elsewhere).start();
    let said = down(
        trusting(elsewhere.name(), &authority),
        DownCause::Certificate,
        "subject alternative name",
    )
    .await;
    assert!(said.contains("elsewhere.example"), "{said}");

    let demanding = RedisServer::options().behind_tls(&authority.certificate());
    let demanding = demanding.demanding_certificates_of(&authority).start();
    let none = trusting(demanding.name(), &authority);
    down(none, DownCause::ClientCertificate, "cert= and key=").await;
    let shown = ClientFiles::new(&authority, &stranger.certificate());
    let other = format!("rediss://{}?{}", demanding.name(), shown.options());
    down(other, DownCause::ClientCertificate, "tls-ca-cert-file").await;
}

#[tokio::test]
async fn groups_that_are_not_found() {
    let watched = Watched::options().replicas(0).sentinel_login("locks", "pw");
    let watched = watched.start().await;
    let url = watched.url(watched.group());
    let unknown = url.replace("/group-0", "/group-x");
    down(unknown.clone(), DownCause::UnknownGroup, "SENTINEL MASTERS").await;
    let wrong = url.replace("sentinel_password=pw", "sentinel_password=hunter2");
    let said = down(wrong, DownCause::SentinelLogin, "sentinel_password=").await;
    assert!(!said.contains("hunter2"), "{said}");
    let (without, _) = url.split_once('?').expect("a login");
    down(without, DownCause::SentinelLogin, "sentinel_user=").await;
    let [dead, rest @ ..] = watched.sentinels() else {
        panic!("sentinels")
    };
    dead.kill();
    down(unknown, DownCause::UnknownGroup, "SENTINEL MASTERS").await;
    rest.iter().for_each(RedisServer::kill);
    down(url, DownCause::NotListening, "have it listen there").await;
}

/// In a quorum, a majority of all of them has to confirm the primary, also of those that nobody has named.
#[tokio::test]
async fn sentinels_that_are_not_named() {
    let watched = Watched::options().also_permitted(LOOKS_AT);
    let watched = watched.replicas(0).groups(3).start().await;
    let names: Vec<_> = watched.sentinels().iter().map(RedisServer::name).collect();
    let urls = |sentinels: &[String]| -> Vec<_> {
        let groups = watched.groups().iter();
        groups
            .map(|group| watched.url_by(sentinels, group))
            .collect()
    };
    let found = async |nodes: Vec<String>, what: &dyn Fn(&FindingKind) -> bool| {
        let locks = manager(nodes);
        eventually_async(DEADLINE, "it is found", || async {
            let report = check(&locks).await;
            let mut findings = report.findings().iter();
            let found = findings.find(|finding| what(finding.kind()));
            found.cloned().ok_or(report)
        })
        .await
    };
    let not_named = |expected: usize| move |kind: &FindingKind| matches!(kind, FindingKind::SentinelsNotNamed { named, known: 3, .. } if *named == expected);
    let warned = found(urls(&names[1..]), &not_named(2)).await;
    assert_eq!(warned.severity(), Severity::Warning);
    assert_eq!(warned.nodes().len(), 3);
    assert!(warned.risk().contains("fewer of them may fail"), "{warned}");
    assert!(warned.change().contains("SENTINEL SENTINELS"), "{warned}");
    let alone = found(urls(&names[..1])[..1].to_vec(), &not_named(1)).await;
    assert!(
        alone.risk().contains("a failover is not followed"),
        "{alone}"
    );

    let unconfirmed = |kind: &FindingKind| {
        matches!(kind, FindingKind::Down { cause: DownCause::Sentinels, reason, .. }
            if reason.contains("1 of 3 sentinels confirms that"))
    };
    let down = found(urls(&names[..1]), &unconfirmed).await;
    assert_eq!(down.severity(), Severity::Problem);
    assert!(down.change().contains("all of its sentinels"), "{down}");

    let locks = manager(urls(&names));
    ready(&locks).await;
    let report = check(&locks).await;
    let too_few = |kind: &FindingKind| matches!(kind, FindingKind::SentinelsNotNamed { .. });
    assert!(
        !report
            .findings()
            .iter()
            .any(|finding| too_few(finding.kind())),
        "{report}"
    );
}

/// The servers of one group, or of one cluster, are one node, and it is said how that is written.
#[tokio::test]
async fn servers_that_are_one_node_and_named_as_several() {
    let watched = Watched::options().also_permitted(LOOKS_AT);
    let watched = watched.replicas(2).start().await;
    let servers = watched.group().servers();
    let locks = manager(servers.iter().map(RedisServer::url));
    let of_group = eventually_async(DEADLINE, "both replicas are refused", || async {
        let report = check(&locks).await;
        let replica = |kind: &FindingKind| matches!(kind, FindingKind::Replica { node: Some(node), .. } if **node == servers[0].name());
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| replica(finding.kind()) && finding.nodes().len() == 2);
        found.cloned().ok_or(report)
    })
    .await;
    assert_eq!(of_group.severity(), Severity::Problem);
    assert!(
        of_group.change().contains("redis+sentinel://host:26379"),
        "{of_group}"
    );

    let cluster = Cluster::start().await;
    let locks = manager(cluster.servers().iter().map(RedisServer::url));
    let of_cluster = eventually_async(DEADLINE, "all are refused", || async {
        let report = check(&locks).await;
        let member = |kind: &FindingKind| matches!(kind, FindingKind::InCluster { .. });
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| member(finding.kind()));
        let all = found.filter(|found| found.nodes().len() == cluster.servers().len());
        all.cloned().ok_or(report)
    })
    .await;
    assert!(
        of_cluster.change().contains("redis+cluster://host:6379"),
        "{of_cluster}"
    );
}

/// Before 7.0 it answers nobody meanwhile.
#[tokio::test]
async fn a_server_that_reads_its_data() {
    let options = RedisServer::options().also_permitted(LOOKS_AT);
    let server = if is_before_7() {
        options.start()
    } else {
        options.argument("--enable-debug-command", "yes").start()
    };
    let fill = "for i = 1, 10000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end";
    server.command::<()>(&["EVAL", fill, "0"]);
    if !is_before_7() {
        server.set_config("loading-process-events-interval-bytes", "1024");
    }
    server.set_config("key-load-delay", "5000");
    let client = redis::Client::open(server.questions_url()).expect("a URL");
    let mut connection = client.get_connection().expect("it answers");
    // It answers only when all is read, which takes a minute.
    let reload = redis::cmd("DEBUG").arg("RELOAD").get_packed_command();
    connection.send_packed_command(&reload).expect("sent");
    if is_before_7() {
        down(server.url(), DownCause::Silent, "a server that hangs").await;
        return;
    }
    let locks = manager([server.url()]);
    let found = eventually_async(DEADLINE, "it is found to be loading", || async {
        let report = check(&locks).await;
        let loading = |kind: &FindingKind| matches!(kind, FindingKind::RefusesWrites { reason, .. } if reason.starts_with("LOADING"));
        let mut findings = report.findings().iter();
        let found = findings.find(|finding| loading(finding.kind()));
        found.cloned().ok_or(report)
    })
    .await;
    assert!(found.change().contains("once its data is read"), "{found}");
}
