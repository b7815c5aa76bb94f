use super::*;
use crate::error::ConfigError;
use crate::manager::LockManager;

fn build(nodes: &[&str]) -> Result<LockManager, ConfigError> {
    nodes
        .iter()
        .fold(LockManager::builder(), |builder, &node| builder.node(node))
        .build()
}

#[test]
fn passwords_are_shown_nowhere_whatever_stands_around_them() {
    let odd = [
        "", "/", "//", "?", "#", "@", ":", "%", "[", "]", "\\", " ", "\n", "\0", ",", ";", "&",
        "=", "%40", "%3A", "%2F", "%ff", "п",
    ];
    for (first, second, third) in odd
        .iter()
        .flat_map(|first| odd.iter().map(move |second| (first, second)))
        .flat_map(|(first, second)| odd.iter().map(move |third| (first, second, third)))
    {
        let url = format!("redis://{first}user:{second}hunter2{third}@host:1");
        assert!(!without_login(&url).contains("hunter2"), "{url}");
        if let Ok(server) = read(&url) {
            assert_eq!(&*server.name, "host:1", "{url}");
            assert!(server.login.password().is_some(), "{url}");
        }
    }
}

#[test]
fn a_password_may_be_anything_that_is_written_as_urls_write_it() {
    for (written, meant) in [
        ("hunter2", "hunter2"),
        ("a@b:c@d", "a@b:c@d"),
        ("%40%2F%3F%23%25%2C%5B", "@/?#%,["),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("a[b]{c}|d\\e^f g", "a[b]{c}|d\\e^f g"),
        ("%D0%BF", "п"),
        ("п", "п"),
    ] {
        let server = read(&format!("redis://user:{written}@host:1/2"));
        let server = server.unwrap_or_else(|reason| panic!("{written}: {reason}"));
        assert_eq!(server.login.password(), Some(meant), "{written}");
        assert_eq!(server.login.username(), Some("user"));
        assert_eq!(server.login.db(), 2);
        assert_eq!(&*server.name, "host:1");
    }
    let server = read("redis+unix:///run/redis.sock?user=me&pass=a@b&db=3").expect("a path");
    assert_eq!(server.login.password(), Some("a@b"));
    assert_eq!(&*server.name, "/run/redis.sock");
}

#[test]
fn hosts_are_names_and_addresses() {
    for (url, name) in [
        ("redis://host", "host:6379"),
        (
            "redis://Node-1.example_x.org.:7000/",
            "node-1.example_x.org.:7000",
        ),
        ("valkey://10.0.0.1:7000", "10.0.0.1:7000"),
        ("REDIS://[2001:DB8::1]:7000", "[2001:db8::1]:7000"),
        ("redis://[::1]", "[::1]:6379"),
        ("unix:///path", "/path"),
    ] {
        let read = read(url).unwrap_or_else(|reason| panic!("{url}: {reason}"));
        assert_eq!(&*read.name, name, "{url}");
    }
    for url in [
        "",
        "redis",
        "redis:",
        "redis:/",
        "redis://",
        "redis:///0",
        "redis://:6379",
        "redis://@",
        "redis://0.0.0.0:1",
        "redis://[::]:1",
        "redis://[::1",
        "redis://::1",
        "redis://[x]:1",
        "redis://h{}:1",
        "redis://h,i:1",
        "redis://h%41:1",
        "redis://ключ:1",
        "redis://host:-1",
        "redis://host:65536",
        "redis://host:1:2",
        "redis://host:0",
        "redis://host:1/x",
        "redis://host:1/1/2",
        "redis://host:1#x",
        "redis://user@host:1",
        "redis+unix://",
        "redis+unix://host/path",
        "redis-sentinel://host:1/name",
        "http://host:1",
        "tcp://host:1",
        "memory",
        "memory(",
    ] {
        let refused = build(&["redis://127.0.0.1:1", url]).map(drop);
        let named = matches!(&refused, Err(ConfigError::Node { position: 2, .. }));
        assert!(named, "{url}: {refused:?}");
    }
}

#[test]
fn a_group_and_a_cluster_have_several_hosts() {
    let server = read("redis+sentinel://me:p%2Cw@A,[::1]:7,10.0.0.1:8/my-group.1/3?sentinel_user=s&sentinel_password=a%26%40b")
        .expect("a group");
    assert_eq!(&*server.name, "a:26379/my-group.1");
    assert_eq!(server.login.username(), Some("me"));
    assert_eq!(server.login.password(), Some("p,w"));
    assert_eq!(server.login.db(), 3);
    let Whereabouts::Sentinels(sentinels) = server.whereabouts else {
        panic!("{:?}", server.whereabouts)
    };
    assert_eq!(sentinels.group, "my-group.1");
    let hosts: Vec<_> = sentinels.hosts.iter().map(Address::to_string).collect();
    assert_eq!(hosts, ["a:26379", "[::1]:7", "10.0.0.1:8"]);
    assert_eq!(sentinels.login.username(), Some("s"));
    assert_eq!(sentinels.login.password(), Some("a&@b"));

    let server = read("valkeys+cluster://:pw@a:1,b,[::1]/0?ca=/etc/ca%20x.pem").expect("a cluster");
    assert_eq!(&*server.name, "a:1");
    assert_eq!(server.login.password(), Some("pw"));
    let Whereabouts::Cluster(hosts) = server.whereabouts else {
        panic!("{:?}", server.whereabouts)
    };
    let hosts: Vec<_> = hosts.iter().map(Address::to_string).collect();
    assert_eq!(hosts, ["a:1", "b:6379", "[::1]:6379"]);
    let ca = Some("/etc/ca x.pem".into());
    assert_eq!(server.tls, Some(TlsFiles { ca, identity: None }));
}

#[test]
fn options_are_known_and_fit_together() {
    let server = read("rediss://h?replicas=2&ca=/a&cert=/b&key=/c").expect("all of them");
    assert_eq!(server.replicas, 2);
    let files = TlsFiles {
        ca: Some("/a".into()),
        identity: Some(("/b".into(), "/c".into())),
    };
    assert_eq!(server.tls, Some(files));
    assert_eq!(read("redis://h").expect("plain").tls, None);
    for url in [
        "redis://h?replica=1",
        "redis://h?protocol=resp3",
        "redis://h?replicas",
        "redis://h?replicas=-1",
        "redis://h?replicas=1&replicas=1",
        "redis://h?user=x",
        "redis://h?ca=/a",
        "redis+cluster://h?key=/a",
        "rediss://h?cert=/a",
        "rediss://h?key=/a",
        "rediss+unix:///path",
        "redis://h?sentinel_password=x",
        "redis+sentinel://h/g?sentinel_user=x",
        "redis+sentinel://h/g?ca=%ff",
        "redis+sentinel://h",
        "redis+sentinel://h/",
        "redis+sentinel://h/g h",
        "redis+sentinel://h/g/x",
        "redis+sentinel://h,/g",
        "redis+sentinel://,h/g",
        "redis+sentinel://h,h:26379/g",
        "redis+sentinel://u@h/g",
        "redis+cluster://",
        "redis+cluster://h/1",
        "redis+cluster://h,H",
        "redis+cluster://h:0",
        "redis+cluster+unix://h",
    ] {
        assert!(read(url).is_err(), "{url}");
    }
}
