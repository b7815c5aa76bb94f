//! Odd keys, templates and nodes: used like any other, or refused with a word on what is wrong. Never a panic, and never one
//! thing taken for another.

use lock_runtime::{
    ConfigError, LockError, LockKey, LockManager, LockManagerBuilder, distributed_lock, memory,
};
use lock_tests::{DEADLINE, Fleet, RedisServer, eventually_async};
use std::time::{Duration, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(60);

mod keys {
    use super::*;

    const PREFIXES: [&str; 7] = ["", "shop:", "{shop}:", "{", "}", "{}", "}{"];

    fn odd() -> Vec<String> {
        let mut odd: Vec<String> = [
            "{}",
            "}{",
            "{",
            "}",
            "{a}{b}",
            "{}{a}",
            "a{}b",
            "a{b",
            "a}b",
            "{{a}}",
            "{ }",
            "{a",
            " a ",
            "a b",
            "\u{200b}",
            "ключ",
            "🔒",
            "a\u{301}",
            "\0",
            "a\0b",
            "a\nb",
            "a\r\nSET x y\r\n",
            "*",
            "a?[b-c]",
            "\\",
            "\"'`",
            "%s%n",
            "../..",
            "-1",
        ]
        .map(str::to_owned)
        .into();
        odd.extend(["x", "{", "}"].map(|text| text.repeat(LockKey::MAX_LEN)));
        odd.push("ключ".repeat(LockKey::MAX_LEN / 8));
        odd
    }

    /// One server that is a whole cluster, as it refuses scripts whose keys are in different slots.
    async fn cluster() -> RedisServer {
        let server = RedisServer::options().in_cluster().start();
        // A command that names a range is not known to servers before 7.0.
        let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
        let mut command = vec!["CLUSTER", "ADDSLOTS"];
        command.extend(slots.iter().map(String::as_str));
        server.command::<()>(&command);
        eventually_async(DEADLINE, "the cluster is whole", || async {
            let info: String = server.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok")
        })
        .await;
        let refused = server.try_command::<()>(&["EVAL", "return 1", "2", "a", "b"]);
        let refused = refused.expect_err("two slots");
        assert_eq!(refused.code(), Some("CROSSSLOT"), "{refused}");
        server
    }

    fn slot(server: &RedisServer, key: &str) -> u16 {
        server.command(&["CLUSTER", "KEYSLOT", key])
    }

    #[tokio::test]
    async fn of_any_text_are_locked_renewed_and_released_with_their_fence_in_one_slot() {
        let server = cluster().await;
        for prefix in PREFIXES {
            let builder = || {
                let patient = LockManager::builder().node_timeout(Duration::from_secs(1));
                let url = server.url().replacen("redis://", "redis+cluster://", 1);
                patient.node(url).prefix(prefix)
            };
            let ours = builder().build().unwrap();
            // So far behind that its fencing tokens take the second round.
            let theirs = builder().wall_clock(|| UNIX_EPOCH).build().unwrap();
            for key in odd() {
                let wire = format!("{prefix}{key}");
                let ask = |locks: &LockManager| locks.lock(&key).ttl(TTL).fenced(true);
                let lease = ask(&ours).wait(DEADLINE).acquire().await;
                let lease = lease.unwrap_or_else(|error| panic!("{wire:?}: {error}"));

                let there = server.keys("*");
                let [fence] = &there.iter().filter(|key| **key != wire).collect::<Vec<_>>()[..]
                else {
                    panic!("{wire:?} and its fence: {there:?}");
                };
                assert_eq!(there.len(), 2, "{wire:?} and its fence: {there:?}");
                assert_eq!(slot(&server, fence), slot(&server, &wire), "{wire:?}");

                server.command::<()>(&["PEXPIRE", &wire, "30000"]);
                lease.extend().await.expect("renewed");
                assert!(server.pttl(&wire) > 30_000, "{wire:?}");
                let busy = ask(&theirs).wait(Duration::ZERO).acquire().await;
                let busy = busy.expect_err("it is held");
                assert!(busy.is_busy(), "{wire:?}: {busy}");
                assert_eq!(busy.key(), Some(&*key));

                let before = lease.fence();
                lease.release().await.expect("released");
                assert!(!server.exists(&wire), "{wire:?}");
                let next = ask(&theirs).wait(DEADLINE).acquire().await;
                let next = next.unwrap_or_else(|error| panic!("{wire:?}: {error}"));
                assert!(next.fence() > before, "{wire:?}");
                next.release().await.expect("released");
                server.flush();
            }
        }
    }

    #[tokio::test]
    async fn that_are_alike_are_different_locks() {
        let locks = LockManager::in_memory();
        let mut leases = Vec::new();
        for key in odd() {
            let lease = locks.lock(&key).ttl(TTL).acquire().await;
            leases.push(lease.unwrap_or_else(|error| panic!("{key:?}: {error}")));
        }
        // Neither upper and lower case are the same nor what looks the same.
        for key in [
            "KEY", "key", "Key", "e\u{301}", "\u{e9}", "key ", " key", "key\0",
        ] {
            let lease = locks.lock(key).ttl(TTL).acquire().await;
            leases.push(lease.unwrap_or_else(|error| panic!("{key:?}: {error}")));
        }
    }

    /// Busy for a day, or an error of a script, would look like a rival or an outage.
    #[tokio::test]
    async fn of_what_nodes_keep_besides_locks_are_refused() {
        for (prefix, key) in [
            ("", "lock-runtime:votes"),
            ("shop:", "lock-runtime:votes"),
            ("shop:", "lock-runtime:check"),
            ("", "{lock-runtime:votes}:fence"),
            ("", "{order:1}:fence"),
            ("", "{shop}order:1:fence"),
            ("{shop}:", "order:1:fence"),
            ("", "a}b:fence:1963"),
        ] {
            let builder = LockManager::builder().node(memory()).prefix(prefix);
            let locks = builder.build().unwrap();
            for request in [locks.lock(key), locks.lock_all(["good", key])] {
                let error = request.ttl(TTL).acquire().await.expect_err(key);
                assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
                assert_eq!(error.key(), Some(key));
            }
        }
        let locks = LockManager::in_memory();
        for key in [
            "shop:lock-runtime:votes",
            "fence",
            ":fence",
            "order:1:fence",
            "order:1:fence:7",
            "a}b:fence:1964",
        ] {
            let lease = locks.lock(key).ttl(TTL).acquire().await;
            drop(lease.unwrap_or_else(|error| panic!("{key}: {error}")));
        }
    }

    #[tokio::test]
    async fn that_cannot_be_locked_are_refused_in_few_words_and_nothing_is_asked() {
        let fleet = Fleet::start(1);
        let locks = fleet.manager();
        lock_tests::ready(&locks).await;
        for key in [
            String::new(),
            " ".to_owned(),
            "\t\r\n\u{a0}\u{2003}".to_owned(),
            "x".repeat(LockKey::MAX_LEN + 1),
            "ключ".repeat(LockKey::MAX_LEN / 8 + 1),
            "x".repeat(1 << 20),
            "\n".repeat(1 << 20),
        ] {
            for request in [locks.lock(&key), locks.lock_all(["good", &key])] {
                let error = request.ttl(TTL).acquire().await.expect_err("no key");
                assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
                assert!(error.to_string().len() < 500, "{error}");
            }
        }
        let stats = fleet.servers()[0].command_stats();
        assert!(!stats.contains_key("set"), "{stats:?}");
    }
}

mod templates {
    use super::*;
    use std::collections::HashSet;

    #[distributed_lock(key = "{a}:{b}", ttl = TTL, lease = lease, manager = locks)]
    async fn joined(locks: &LockManager, a: &str, b: &str) -> Result<String, LockError> {
        Ok(lease.key().to_owned())
    }

    #[distributed_lock(key = "{a:?}:{b:?}", ttl = TTL, lease = lease, manager = locks)]
    async fn quoted(locks: &LockManager, a: &str, b: &str) -> Result<String, LockError> {
        Ok(lease.key().to_owned())
    }

    #[distributed_lock(key = "{a}:{b}", ttl = TTL, lease = lease, manager = locks)]
    async fn numbered(locks: &LockManager, a: i64, b: &str) -> Result<String, LockError> {
        Ok(lease.key().to_owned())
    }

    /// All texts of at most two of these characters.
    fn texts() -> Vec<String> {
        let characters = [":", "a", "\"", "\\", "\0"];
        let mut texts = vec![String::new()];
        for one in characters {
            texts.push(one.to_owned());
            texts.extend(characters.map(|other| format!("{one}{other}")));
        }
        texts
    }

    #[tokio::test]
    async fn whose_arguments_have_the_separator_share_a_key() {
        let locks = LockManager::in_memory();
        let _lease = locks.lock("a:b:c").ttl(TTL).acquire().await.expect("free");
        for (a, b) in [("a:b", "c"), ("a", "b:c")] {
            let error = joined(&locks, a, b).await.expect_err("held");
            assert_eq!((error.is_busy(), error.key()), (true, Some("a:b:c")));
        }
        assert_eq!(joined(&locks, "a:b:c", "").await.unwrap(), "a:b:c:");
        assert_eq!(joined(&locks, "", "a:b:c").await.unwrap(), ":a:b:c");
    }

    #[tokio::test]
    async fn that_quote_keep_all_arguments_apart() {
        let locks = LockManager::in_memory();
        let _lease = locks.lock(r#""a:b":"c""#).ttl(TTL).acquire().await;
        let held = quoted(&locks, "a:b", "c").await.expect_err("held");
        assert!(held.is_busy(), "{held}");
        assert_eq!(quoted(&locks, "a", "b:c").await.unwrap(), r#""a":"b:c""#);

        let locks = LockManager::in_memory();
        let (mut plain, mut apart, mut pairs) = (HashSet::new(), HashSet::new(), 0);
        for a in texts() {
            for b in texts() {
                pairs += 1;
                plain.insert(joined(&locks, &a, &b).await.expect("free"));
                apart.insert(quoted(&locks, &a, &b).await.expect("free"));
            }
        }
        assert_eq!(apart.len(), pairs, "each pair has a key of its own");
        assert!(plain.len() < pairs, "{} of {pairs}", plain.len());
    }

    /// What cannot hold the separator needs no quotes, and what comes last cannot be taken for anything else.
    #[tokio::test]
    async fn with_one_text_at_the_end_keep_all_arguments_apart() {
        let locks = LockManager::in_memory();
        let (mut apart, mut pairs) = (HashSet::new(), 0);
        for a in [i64::MIN, -1, 0, 1, 10, i64::MAX] {
            for b in texts() {
                pairs += 1;
                apart.insert(numbered(&locks, a, &b).await.expect("free"));
            }
        }
        assert_eq!(apart.len(), pairs);
    }
}

mod nodes {
    use super::*;
    use std::sync::{Arc, Mutex, PoisonError};
    use tracing_subscriber::fmt::MakeWriter;

    #[test]
    fn that_are_listed_are_named_where_they_are_wrong() {
        let build = |list: &str| LockManager::builder().nodes(list).build().map(drop);
        for empty in ["", " ", ",", " , ,, "] {
            assert_eq!(build(empty), Err(ConfigError::NoNodes), "{empty:?}");
        }
        build("redis://127.0.0.1:1 , redis://127.0.0.1:2,\nredis://127.0.0.1:3,").expect("a list");
        for (list, said) in [
            (
                "redis://a:1,redis://b:1,redis://A:1",
                "node 3 (`a:1`) is listed twice: its vote would count twice",
            ),
            (
                "redis://a:1,redis://:hunter2/@b:1",
                "node 2 (`redis://…`): an @ comes after a /, ? or #, which are written %2F, %3F and %23 in a password",
            ),
            (
                "redis://a:1,redis://:x,hunter2@b:1",
                "node 2 (`redis://…`): it cannot be read: redis://[[user]:password@]host[:port][/database] is how a server is \
                 written; in a password / ? # % , are written %2F %3F %23 %25 %2C",
            ),
            (
                "redis://a:1;redis://b:1",
                "node 1 (`redis://…`): nodes, and the hosts of one node, are separated by commas",
            ),
            (
                "redis://:hunter2@a:1 redis://:hunter2@b:1",
                "node 1 (`redis://…`): nodes, and the hosts of one node, are separated by commas",
            ),
            (
                "redis+sentinel://:hunter2@a:1;b:1/group",
                "node 1 (`redis+sentinel://…`): nodes, and the hosts of one node, are separated by commas",
            ),
            (
                "redis://a:1,rediss://:hunter2@b:1?cert=/file",
                "node 2 (`rediss://…`): cert and key, a certificate and its key, come together",
            ),
            (
                "redis://a:1,hunter2@b:1",
                "node 2 (`…`): not a node URL, such as redis://host:6379, redis+unix:///path, \
                 redis+sentinel://host:26379,host:26379/group or redis+cluster://host:6379,host:6379",
            ),
            (
                "redis://a:1,redis://hunter2@b:1",
                "node 2 (`redis://…`): it names a user and no password: a password of the default user is written \
                 :password@host",
            ),
        ] {
            let error = build(list).expect_err(list);
            assert_eq!(error.to_string(), said);
        }
    }

    /// Where lines of a log go.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn of(work: impl FnOnce()) -> String {
            let log = Self::default();
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(false)
                .with_writer(log.clone())
                .finish();
            tracing::subscriber::with_default(subscriber, work);
            let bytes = log.0.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Log {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn embedded(nodes: usize) -> LockManagerBuilder {
        (0..nodes).fold(LockManager::builder(), |builder, _| builder.node(memory()))
    }

    #[test]
    fn of_an_even_number_are_warned_of_once_with_what_to_use_instead() {
        for nodes in 1..=7 {
            let log = Log::of(|| {
                let locks = embedded(nodes).build().expect("a good number");
                drop(locks.clone());
            });
            if nodes % 2 == 1 {
                assert_eq!(log, "", "{nodes} nodes");
                continue;
            }
            let lines: Vec<_> = log.lines().collect();
            let [line] = lines[..] else {
                panic!("{nodes} nodes: {log}")
            };
            let may_fail = nodes / 2 - 1;
            for word in [
                "WARN",
                "an even number of lock nodes tolerates no more failures than one node less",
                "use 3, of which one may fail, or 5, of which two may",
                &format!("nodes={nodes} may_fail={may_fail}"),
            ] {
                assert!(line.contains(word), "{word}: {line}");
            }
        }
    }

    /// Two replicas, the nodes of both the same.
    async fn exclude(ours: &LockManager, theirs: &LockManager) {
        let ask = |locks: &LockManager| locks.lock("k").ttl(TTL).fenced(true);
        let mut before = 0;
        for (holder, other) in [(ours, theirs), (theirs, ours)] {
            let lease = ask(holder).wait(DEADLINE).acquire().await.expect("free");
            assert!(lease.fence() > before);
            before = lease.fence();
            let busy = ask(other).acquire().await.expect_err("held");
            assert!(busy.is_busy(), "{busy}");
            lease.extend().await.expect("renewed");
            lease.release().await.expect("released");
        }
    }

    #[tokio::test]
    async fn of_any_number_that_can_be_counted_exclude() {
        for nodes in [1, 2, 3, 4, 5, 15, 50, 63] {
            let nodes: Vec<_> = (0..nodes).map(|_| memory()).collect();
            let replica = || {
                let nodes = nodes.iter().cloned();
                let builder = nodes.fold(LockManager::builder(), LockManagerBuilder::node);
                builder.build().expect("a good number")
            };
            exclude(&replica(), &replica()).await;
        }
    }

    mod heavy {
        use super::*;

        /// Twenty-four of them may fail.
        #[tokio::test]
        async fn of_fifty_servers_exclude() {
            let fleet = Fleet::start(50);
            fleet.found().await;
            exclude(&fleet.manager(), &fleet.manager()).await;
            fleet.assert_no_keys("k").await;
            for server in &fleet.servers()[..24] {
                server.kill();
            }
            exclude(&fleet.manager(), &fleet.manager()).await;
            fleet.servers()[24].kill();
            let error = fleet.manager().lock("k").ttl(TTL).acquire().await;
            assert!(error.expect_err("25 of 50 are no majority").is_outage());
        }
    }
}
