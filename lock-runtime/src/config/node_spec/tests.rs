use super::*;
use crate::manager::LockManager;

fn build(nodes: &[&str]) -> Result<LockManager, ConfigError> {
    nodes
        .iter()
        .fold(LockManager::builder(), |builder, &node| builder.node(node))
        .build()
}

/// Also the parts of it that a mistake in writing makes a host, a port, a path or a parameter of.
#[test]
fn passwords_are_shown_nowhere() {
    let secret = "hunter2";
    for url in [
        "redis://user:hunter2@host:1/0",
        "redis://user:hunter2@host:port",
        "redis://user:hunter2@host:99999",
        "redis://user:hunter2@host:0",
        "redis://user:hunter2@host:1/database",
        "redis://user:hunter2@host:1/99999999999999999999",
        "redis://user:hunter2@host:1/-1",
        "redis://user:hunter2@",
        "redis://:hunter2@",
        "redis://hunter2@host",
        "redis://:hunter2",
        "redis:hunter2@host",
        "redis:/user:hunter2@host",
        "user:hunter2@host",
        "rediss://user:hunter2@host:1",
        "REDISS://user:hunter2@host:1",
        "valkeys://user:hunter2@host:1",
        "http://user:hunter2@host:1",
        "redis-sentinel://user:hunter2@host:1",
        "redis+sentinel://user:hunter2@host:1,host:2/group",
        "redis+sentinel://user:pw@host:1/group?sentinel_password=hunter2",
        "redis+sentinel://user:pw@host:1/group/hunter2",
        "redis+sentinel://user:pw@host:1/hunter2 x",
        "rediss+cluster://user:hunter2@host:1,host:2",
        "redis+cluster://user:hunter2,@host:1,host:2",
        "rediss://host:1?ca=/a&hunter2",
        "rediss://host:1?replicas=hunter2",
        "redis://user:hun@ter2:hunter2@host:1",
        "redis://user:@hunter2@host:1",
        "redis://user:hunter2/x@host:1",
        "redis://user:1/hunter2@host:1",
        "redis://hunter2/x@host:1",
        "redis://hunter2#x@host:1",
        "redis://hunter2?x@host:1",
        "redis://user:1#hunter2@host:1",
        "redis://user:1?hunter2@host:1",
        "redis://user:1?protocol=hunter2",
        "redis://host:1#hunter2",
        "redis://user:%hunter2@host:1",
        "redis://user:%zzhunter2@host:1",
        "redis://user:%ffhunter2@host:1",
        "redis://user%3Ahunter2%40host:1",
        "redis://user:hunter2\\@host:1",
        "redis://user:hunter2[@host:1",
        "redis://[hunter2@host:1",
        "redis://user:hunter2@[::1",
        "redis://user:hunter2@[hunter2]:1",
        "redis://user:hunter2@ho st:1",
        "redis://user:hunter2@host:1\nredis://user:hunter2@host:2",
        "redis://user:hun\tter2hunter2@host:1",
        "redis://user:hunter2\0@host:1",
        "redis://user:hunter2 {}|^`<>\"@host:1",
        "redis://user:hunter2,x@host:1",
        "redis+unix://hunter2@host/path",
        "redis+unix:///path?user=me&pass=hunter2",
        "redis+unix:///path?user=me&pass=sec@hunter2",
        "redis+unix:///path?user=me&pass=hunter2&db=x",
        "hunter2",
        "hunter2://x",
        "://hunter2",
    ] {
        let spec = format!("{:?}", NodeSpec::from(url));
        assert!(!spec.contains(secret), "{spec}");
        let builder = LockManager::builder().node(url);
        assert!(!format!("{builder:?}").contains(secret));
        match builder.build() {
            Ok(manager) => assert!(!format!("{manager:?}").contains(secret), "{url}"),
            Err(error) => {
                let said = format!("{error} {error:?}");
                assert!(!said.contains(secret) && said.contains("node 1"), "{said}");
            }
        }
    }
}

/// Around it, whatever means something in a URL, at three places at once.
#[test]
fn a_node_that_cannot_be_used_is_named_by_place_and_address() {
    let error = build(&["redis://127.0.0.1:1", "http://user:pw@host"]).expect_err("a fault");
    assert_eq!(
        error.to_string(),
        "node 2 (`http://…`): not a node URL, such as redis://host:6379, redis+unix:///path, \
         redis+sentinel://host:26379,host:26379/group or redis+cluster://host:6379,host:6379"
    );
    assert_eq!(build(&[]).expect_err("none"), ConfigError::NoNodes);
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_tls_its_feature_is_named() {
    for url in [
        "rediss://u:hunter2@host:1",
        "RedisS://host:1",
        "valkeys://host:1",
    ] {
        let (scheme, _) = url.split_once("://").expect("a URL");
        let error = build(&["redis://other:1", url])
            .expect_err("no TLS")
            .to_string();
        let scheme = scheme.to_lowercase();
        assert_eq!(
            error,
            format!(
                "node 2 (`{scheme}://host:1`): for TLS, switch on the feature `tls` of lock-runtime"
            )
        );
    }
}

#[cfg(feature = "tls")]
#[test]
fn what_is_for_tls_is_given_once_and_where_there_is_tls() {
    let tls = || Tls::new().ca_file("/nowhere/ca.pem");
    for (spec, said) in [
        (NodeSpec::from("rediss://h:1?ca=/nowhere/ca.pem"), NO_FILE),
        (
            NodeSpec::from("rediss://h:1?ca="),
            "the CA certificates cannot be read from \"\"",
        ),
        (NodeSpec::from("rediss://h:1").tls(tls()), NO_FILE),
        (
            NodeSpec::from("rediss://h:1?ca=/a").tls(tls()),
            "in its URL and also given beside it",
        ),
        (
            NodeSpec::from("redis://h:1").tls(tls()),
            "its URL is not rediss://",
        ),
        (
            NodeSpec::from("redis+unix:///path").tls(tls()),
            "its URL is not rediss://",
        ),
        (
            NodeSpec::from("rediss://1.2.3:1"),
            "no name that a certificate could have",
        ),
        (memory().tls(tls()), "not reached over TLS"),
    ] {
        let error = LockManager::builder().node(spec).build();
        let error = error.expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[cfg(feature = "tls")]
const NO_FILE: &str = "the CA certificates cannot be read from \"/nowhere/ca.pem\": No such file";

#[test]
fn the_same_server_twice_is_refused() {
    for (first, again, name) in [
        (
            "redis://127.0.0.1:1",
            "redis://u:p@127.0.0.1:1/3",
            "127.0.0.1:1",
        ),
        ("redis://host", "valkey://HOST:6379/", "host:6379"),
        ("redis://[::1]:1", "redis://[0:0::0:1]:1", "[::1]:1"),
        ("redis+unix:///a/b", "unix:///a//b?db=1", "/a//b"),
    ] {
        let error = build(&[first, "redis://another:1", again]).expect_err("twice");
        assert_eq!(
            error.to_string(),
            format!("node 3 (`{name}`) is listed twice: its vote would count twice")
        );
    }
    let node = memory();
    let twice = LockManager::builder().node(node.clone()).node(node).build();
    assert!(matches!(twice, Err(ConfigError::DuplicateNode { .. })));
    assert!(build(&["memory()", "memory()", "memory()"]).is_ok());
}

/// In a list, hosts and nodes are both separated by commas.
#[test]
fn a_list_has_urls_and_further_hosts_of_them() {
    let shown = |list: &str| -> Vec<_> {
        let nodes = NodeSpec::list(list);
        let texts = nodes.into_iter().map(|node| match node.what {
            What::Url(url) => url,
            What::Memory(_) => MEMORY.to_owned(),
        });
        texts.collect()
    };
    assert_eq!(
        shown("redis://a, redis+sentinel://b,c:1 , d/g,,memory(),redis+cluster://e,f,redis://h,i,"),
        [
            "redis://a",
            "redis+sentinel://b,c:1,d/g",
            "memory()",
            "redis+cluster://e,f",
            "redis://h",
            "i"
        ]
    );
    assert_eq!(
        shown("Redis+Cluster://a,b,REDISS+SENTINEL://c,d/g"),
        ["Redis+Cluster://a,b", "REDISS+SENTINEL://c,d/g"]
    );
    assert!(shown(" ,, ").is_empty());
}
