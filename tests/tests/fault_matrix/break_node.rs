//! How a node is broken, and mended again.

use crate::fault::{Means, Phase};
use crate::stub::Stub;
use lock_tests::version::is_before_7;
use lock_tests::{DEADLINE, Disk, Mode, Proxy, RedisServer, eventually};
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A node that can be broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) server: &'a RedisServer,
    pub(crate) proxy: &'a Proxy,
}

/// A node that is broken, and what keeps it so.
pub(crate) struct Broken<'a> {
    node: Node<'a>,
    means: Means,
    script: Option<redis::Connection>,
    stub: Option<Stub>,
    full: Option<FullListener>,
}

/// A listener that has accepted nobody, and as many connections as it can have: the kernel drops who else comes.
struct FullListener {
    _connections: Vec<Socket>,
    _listener: Socket,
}

impl FullListener {
    fn on(address: SocketAddr) -> std::io::Result<Self> {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None);
        let listener = socket()?;
        listener.set_reuse_address(true)?;
        listener.bind(&address.into())?;
        listener.listen(0)?;
        let mut connections = Vec::new();
        for _ in 0..4 {
            let connection = socket()?;
            connection.set_nonblocking(true)?;
            // Begun, and finished by the kernel where there is room.
            connection.connect(&address.into()).err();
            connections.push(connection);
        }
        Ok(Self {
            _connections: connections,
            _listener: listener,
        })
    }
}

/// Who has the key of [`Means::Overwritten`] and whom a waiter waits for.
pub(crate) const SOMEBODY: &str = "somebody else";

/// Longer than any test takes.
pub(crate) const FOR_LONG: &str = "60000";

/// How many keys [`Means::Load`] has to load, at half a second for a hundred.
const LOADED: usize = 2000;

/// Who has not answered by then is silent.
const A_MOMENT: Duration = Duration::from_millis(100);

impl<'a> Node<'a> {
    /// Breaks it. When this returns, the fault is there, and has been noticed where connections were closed.
    pub(crate) async fn break_by(self, means: Means, phase: Phase, key: &str) -> Broken<'a> {
        let Self { server, proxy } = self;
        let mut broken = Broken {
            node: self,
            means,
            script: None,
            stub: None,
            full: None,
        };
        let before = proxy.connections();
        match means {
            Means::Network(mode) => proxy.set(mode(phase)),
            Means::Reset => proxy.reset(),
            Means::Forget => proxy.forget(),
            Means::DropPackets => {
                proxy.set(Mode::Refuse);
                let address = SocketAddr::from(([127, 0, 0, 1], proxy.port()));
                let full = eventually(DEADLINE, "the port is free", || FullListener::on(address));
                broken.full = Some(full.await);
            }
            Means::KillClients => self.kill_clients(),
            Means::Kill => server.kill(),
            Means::Restart => server.restart(Disk::Lose).await,
            Means::Stop => server.pause(),
            Means::PauseWrites => server.command(&["CLIENT", "PAUSE", FOR_LONG, "WRITE"]),
            Means::Load => self.load().await,
            Means::EndlessScript => broken.script = Some(self.run_endless_script().await),
            Means::FailingSave => self.fail_to_save().await,
            Means::FullMemory => server.set_config("maxmemory", "1"),
            Means::Replica => server.command(&["REPLICAOF", "127.0.0.1", "1"]),
            Means::PasswordWanted => {
                server.command::<()>(&["ACL", "SETUSER", "default", "resetpass"]);
                self.kill_clients();
            }
            Means::PasswordChanged => {
                self.permit(&["resetpass", ">another"]);
                self.kill_clients();
            }
            Means::Permissions(rules) => self.permit(rules),
            Means::FullOfClients => {
                server.set_config("maxclients", "1");
                self.kill_clients();
            }
            Means::ForeignType => {
                let _: u64 = server.command(&["DEL", key]);
                let _: u64 = server.command(&["RPUSH", key, "an application's own"]);
                let _: u64 = server.command(&["PEXPIRE", key, FOR_LONG]);
            }
            Means::Overwritten => server.command(&["SET", key, SOMEBODY, "PX", FOR_LONG]),
            Means::Deleted => server.command(&["DEL", key]),
            Means::ScriptFlush => server.command(&["SCRIPT", "FLUSH"]),
            Means::FlushAll => server.flush(),
            Means::Evict => self.evict().await,
            Means::TlsPort => proxy.lead_to(server.tls_address().expect("its options say so")),
            Means::Stub(manner) => {
                let stub = broken.stub.insert(Stub::start(manner));
                proxy.lead_to(stub.address());
            }
            Means::UnknownName | Means::TlsUrl => {}
        }
        let reconnects = matches!(
            means,
            Means::Reset
                | Means::KillClients
                | Means::Kill
                | Means::Restart
                | Means::PasswordWanted
                | Means::PasswordChanged
                | Means::FullOfClients
                | Means::TlsPort
                | Means::Stub(_)
        );
        if reconnects && phase != Phase::Connecting {
            eventually(DEADLINE, "the manager has noticed", || {
                proxy.connections() > before
            })
            .await;
        }
        broken
    }

    fn permit(self, rules: &[&str]) {
        let user = ["ACL", "SETUSER", crate::cell::USER];
        self.server.command::<()>(&[&user, rules].concat());
    }

    fn kill_clients(self) {
        // A connection over which somebody listens is of another type.
        for kind in ["normal", "pubsub"] {
            let _: u64 = self.server.command(&["CLIENT", "KILL", "TYPE", kind]);
        }
    }

    async fn load(self) {
        let server = self.server;
        server.command::<()>(&["DEBUG", "POPULATE", &LOADED.to_string(), "filler", "100"]);
        if !is_before_7() {
            server.set_config("loading-process-events-interval-bytes", "1024");
        }
        server.set_config("key-load-delay", "5000");
        let mut asking = self.connection();
        asking.set_read_timeout(Some(A_MOMENT)).expect("a timeout");
        // It answers only when it has loaded, so it is not waited for.
        let mut connection = self.connection();
        let reload = redis::cmd("DEBUG").arg("RELOAD").get_packed_command();
        connection.send_packed_command(&reload).expect("sent");
        if is_before_7() {
            // It looks up only after every 2 MiB that it has loaded.
            let ping = redis::cmd("PING");
            eventually(DEADLINE, "it is silent", || {
                ping.query::<String>(&mut asking).is_err()
            })
            .await;
        } else {
            self.until_it_says("LOADING").await;
        }
    }

    async fn run_endless_script(self) -> redis::Connection {
        self.server.set_config("lua-time-limit", "10");
        let mut connection = self.connection();
        let script = redis::cmd("EVAL")
            .arg("while true do end")
            .arg(0)
            .get_packed_command();
        connection.send_packed_command(&script).expect("sent");
        self.until_it_says("BUSY").await;
        connection
    }

    async fn fail_to_save(self) {
        // It writes to a file of another name and then cannot rename it.
        if self.dump().is_file() {
            std::fs::remove_file(self.dump()).expect("a file of our own");
        }
        std::fs::create_dir_all(self.dump().join("in the way")).expect("a directory of our own");
        self.server.set_config("save", "3600 1000000");
        self.save("err").await;
    }

    async fn save(self, status: &str) {
        let line = format!("rdb_last_bgsave_status:{status}");
        self.server.command::<redis::Value>(&["BGSAVE"]);
        eventually(DEADLINE, "the background save has ended", || {
            let info: String = self.server.command(&["INFO", "persistence"]);
            info.lines().any(|found| found.trim() == line)
        })
        .await;
    }

    fn dump(self) -> PathBuf {
        PathBuf::from(self.server.config("dir")).join(self.server.config("dbfilename"))
    }

    async fn evict(self) {
        let server = self.server;
        let evicted = |server: &RedisServer| -> u64 {
            let info: redis::InfoDict = server.command(&["INFO", "stats"]);
            info.get("evicted_keys").expect("it counts them")
        };
        let (before, keys) = (evicted(server), server.keys("*").len());
        server.set_config("maxmemory-policy", "allkeys-lru");
        server.set_config("maxmemory", "1");
        eventually(DEADLINE, "all keys are evicted", || {
            server.keys("*").is_empty()
        })
        .await;
        assert!(evicted(server) >= before + keys as u64);
        server.set_config("maxmemory", "0");
    }

    fn connection(self) -> redis::Connection {
        let client = redis::Client::open(self.server.questions_url()).expect("a URL");
        client.get_connection().expect("the server listens")
    }

    async fn until_it_says(self, word: &str) {
        eventually(DEADLINE, word, || {
            match self.server.try_command::<String>(&["PING"]) {
                Err(error) if error.code() == Some(word) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    async fn until_it_answers(self) {
        eventually(DEADLINE, "it answers again", || {
            self.server.try_command::<String>(&["PING"])
        })
        .await;
    }
}

impl Broken<'_> {
    /// Ends the fault.
    pub(crate) async fn mend(self, key: &str) {
        let node @ Node { server, proxy } = self.node;
        match self.means {
            Means::DropPackets => {
                drop(self.full);
                proxy.set(Mode::Pass);
            }
            Means::Network(_) => proxy.set(Mode::Pass),
            Means::Kill => server.restart(Disk::Lose).await,
            Means::Stop => server.resume(),
            Means::PauseWrites => server.command(&["CLIENT", "UNPAUSE"]),
            Means::Load => {
                if !is_before_7() {
                    server.set_config("key-load-delay", "0");
                }
                node.until_it_answers().await;
                let fillers = server.keys("filler:*");
                assert_eq!(fillers.len(), LOADED);
                let unlink = std::iter::once("UNLINK").chain(fillers.iter().map(String::as_str));
                let _: u64 = server.command(&unlink.collect::<Vec<_>>());
            }
            Means::EndlessScript => {
                server.command::<()>(&["SCRIPT", "KILL"]);
                node.until_it_answers().await;
            }
            Means::FailingSave => {
                std::fs::remove_dir_all(node.dump()).expect("a directory of our own");
                node.save("ok").await;
                server.set_config("save", "");
            }
            Means::FullMemory => server.set_config("maxmemory", "0"),
            Means::Replica => server.command(&["REPLICAOF", "NO", "ONE"]),
            Means::PasswordWanted => {
                server.command::<()>(&["ACL", "SETUSER", "default", "nopass"]);
            }
            Means::PasswordChanged => {
                let right = format!(">{}", crate::logs::PASSWORD);
                node.permit(&["resetpass", &right]);
            }
            Means::Permissions(_) => {
                let rules = lock_tests::acl::permissions(lock_tests::acl::USER);
                let rules: Vec<_> = rules.iter().map(String::as_str).collect();
                node.permit(&rules);
            }
            Means::FullOfClients => server.set_config("maxclients", "1000"),
            Means::ForeignType => {
                let length: u64 = server.command(&["LLEN", key]);
                assert_eq!(length, 1, "an application's own stays as it was");
                let _: u64 = server.command(&["DEL", key]);
            }
            Means::Overwritten => {
                assert_eq!(server.get(key).as_deref(), Some(SOMEBODY));
            }
            Means::TlsPort | Means::Stub(_) => proxy.lead_to(server.address()),
            Means::Reset
            | Means::Forget
            | Means::KillClients
            | Means::Restart
            | Means::Deleted
            | Means::ScriptFlush
            | Means::FlushAll
            | Means::Evict
            | Means::UnknownName
            | Means::TlsUrl => {}
        }
        drop((self.script, self.stub));
    }
}
