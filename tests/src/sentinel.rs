//! Groups of a primary and its replicas, and the Sentinels that watch over all of them.
//!
//! Everybody is told of everybody else from the start, so that nothing has to be found out before a test begins.

use crate::certificates::Certificate;
use crate::server::{Options, RedisServer};
use crate::wait::{eventually, eventually_async};
use redis::RedisResult;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Sentinels look every second, elect a leader, and try again after a while if they cannot agree; a machine that is busy
/// has them take longer for each.
pub const FAILOVER: Duration = Duration::from_secs(60);

/// After so long without an answer a server is down.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// Several groups, and the Sentinels that watch over them.
#[derive(Debug)]
pub struct Watched {
    sentinels: Vec<RedisServer>,
    groups: Vec<Group>,
    login: Option<(String, String)>,
}

/// A primary and its replicas.
#[derive(Debug)]
pub struct Group {
    name: String,
    servers: Vec<RedisServer>,
}

/// How they are started; see [`Watched::options`].
#[derive(Clone, Debug)]
pub struct Setting {
    groups: usize,
    replicas: usize,
    sentinels: usize,
    server: Options,
    sentinel: String,
    sentinel_server: Options,
    password: Option<String>,
    login: Option<(String, String)>,
}

impl Setting {
    /// So many groups.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// So many replicas in each.
    #[must_use]
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// So many Sentinels.
    #[must_use]
    pub fn sentinels(mut self, sentinels: usize) -> Self {
        self.sentinels = sentinels;
        self
    }

    /// A setting of all servers.
    #[must_use]
    pub fn argument(mut self, name: &str, value: &str) -> Self {
        self.server = self.server.argument(name, value);
        self
    }

    /// What clients may do at servers besides what the README says.
    #[must_use]
    pub fn also_permitted(mut self, rule: &str) -> Self {
        self.server = self.server.also_permitted(rule);
        self
    }

    /// Servers and Sentinels are reached over TLS and in no other way, by one another too.
    #[must_use]
    pub fn behind_tls(mut self, servers: &Certificate, sentinels: &Certificate) -> Self {
        self.server = self.server.behind_tls(servers);
        self.sentinel_server = self.sentinel_server.behind_tls(sentinels);
        self
    }

    /// Servers want this password of everybody.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.server = self
            .server
            .password(password)
            .argument("--masterauth", password);
        self.password = Some(password.to_owned());
        self
    }

    /// Sentinels want this login of clients, who may do no more than this library needs.
    #[must_use]
    pub fn sentinel_login(mut self, user: &str, password: &str) -> Self {
        let may =
            "resetchannels -@all +hello +ping +sentinel|master +sentinel|get-master-addr-by-name";
        writeln!(self.sentinel, "user {user} on >{password} {may}").expect("memory");
        // The harness and the other Sentinels.
        writeln!(
            self.sentinel,
            "requirepass {HARNESS}\nsentinel sentinel-pass {HARNESS}"
        )
        .expect("memory");
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Starts everything, and waits until all Sentinels know all.
    pub async fn start(self) -> Watched {
        let options = || {
            self.server
                .clone()
                .argument("--repl-diskless-sync-delay", "0")
        };
        let primaries = RedisServer::start_all((0..self.groups).map(|_| options()));
        let replicas: Vec<_> = primaries
            .iter()
            .flat_map(|primary| (0..self.replicas).map(|_| options().replica_of(primary)))
            .collect();
        let mut replicas = RedisServer::start_all(replicas).into_iter();
        let groups = primaries.into_iter().enumerate();
        let groups: Vec<_> = groups
            .map(|(index, primary)| {
                let mut servers = vec![primary];
                servers.extend(replicas.by_ref().take(self.replicas));
                let name = format!("group-{index}");
                Group { name, servers }
            })
            .collect();
        let configuration = self.configuration(&groups);
        let sentinels = (0..self.sentinels).map(|index| {
            let own = format!("sentinel myid {:040x}\n", index + 1);
            let sentinel = self.sentinel_server.clone();
            let sentinel = sentinel.sentinel(own + &configuration);
            if self.login.is_some() {
                sentinel.asked_with(HARNESS)
            } else {
                sentinel
            }
        });
        let sentinels = RedisServer::start_all(sentinels);
        let watched = Watched {
            sentinels,
            groups,
            login: self.login,
        };
        watched.know_all(self.replicas).await;
        watched
    }

    fn configuration(&self, groups: &[Group]) -> String {
        let majority = self.sentinels / 2 + 1;
        let mut all = self.sentinel.clone();
        for Group { name, servers } in groups {
            let port = servers[0].port();
            writeln!(all, "sentinel monitor {name} 127.0.0.1 {port} {majority}").expect("memory");
            let down = DOWN_AFTER.as_millis();
            writeln!(all, "sentinel down-after-milliseconds {name} {down}").expect("memory");
            writeln!(all, "sentinel failover-timeout {name} 3000").expect("memory");
            if let Some(password) = &self.password {
                writeln!(all, "sentinel auth-pass {name} {password}").expect("memory");
            }
            for replica in &servers[1..] {
                let port = replica.port();
                writeln!(all, "sentinel known-replica {name} 127.0.0.1 {port}").expect("memory");
            }
        }
        all
    }
}

/// The password of the default user of Sentinels that want one.
const HARNESS: &str = "harness";

impl Watched {
    /// One group of a primary and a replica, and three Sentinels, unless told otherwise.
    pub fn options() -> Setting {
        Setting {
            groups: 1,
            replicas: 1,
            sentinels: 3,
            server: RedisServer::options(),
            sentinel: String::new(),
            sentinel_server: RedisServer::options(),
            password: None,
            login: None,
        }
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The one group that there is.
    pub fn group(&self) -> &Group {
        assert_eq!(self.groups.len(), 1, "which group?");
        &self.groups[0]
    }

    /// The Sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// What a client is given that knows all Sentinels.
    pub fn url(&self, group: &Group) -> String {
        let sentinels: Vec<_> = self.sentinels.iter().map(RedisServer::name).collect();
        self.url_by(&sentinels, group)
    }

    /// What a client is given that knows Sentinels by these addresses.
    pub fn url_by(&self, sentinels: &[String], group: &Group) -> String {
        let hosts = sentinels.join(",");
        let login = group.servers[0].login();
        let at_sentinels = self
            .login
            .as_ref()
            .map(|(user, password)| format!("sentinel_user={user}&sentinel_password={password}"));
        let for_tls = group.servers[0].tls_options();
        let scheme = if for_tls.is_some() { "rediss" } else { "redis" };
        let options: Vec<_> = at_sentinels.into_iter().chain(for_tls).collect();
        let url = format!("{scheme}+sentinel://{login}{hosts}/{}", group.name);
        if options.is_empty() {
            url
        } else {
            format!("{url}?{}", options.join("&"))
        }
    }

    /// Has the Sentinels make another server the primary, as an operator does.
    pub async fn fail_over(&self, group: &Group) {
        let what = format!("a failover of {} begins", group.name);
        eventually(FAILOVER, &what, || {
            // Refused while the Sentinel does not know how the replica is.
            self.sentinels[0].try_command::<()>(&["SENTINEL", "FAILOVER", &group.name])
        })
        .await;
    }

    /// Waits until most Sentinels that answer say that another server than this is the primary, and that one agrees: the
    /// new primary.
    pub async fn moved_from<'a>(&self, group: &'a Group, old: &RedisServer) -> &'a RedisServer {
        let what = format!("{} has another primary than {}", group.name, old.name());
        eventually(FAILOVER, &what, || {
            let said: Vec<_> = self
                .sentinels
                .iter()
                .map(|sentinel| primary(sentinel, group))
                .collect();
            let new = group.servers.iter().find(|server| {
                let agree = said.iter().filter(|said| **said == Some(server.port()));
                agree.count() > self.sentinels.len() / 2
            });
            match new {
                Some(new) if new.port() != old.port() && new.is_primary() => Ok(new),
                _ => Err(format!("they say {said:?}")),
            }
        })
        .await
    }

    async fn know_all(&self, replicas: usize) {
        for sentinel in &self.sentinels {
            // Otherwise they tell one another every two seconds, and wait for some of these before they make an old primary a
            // replica. Before 7.0 that is so.
            let often = [
                "SENTINEL",
                "DEBUG",
                "PUBLISH-PERIOD",
                "250",
                "INFO-PERIOD",
                "1000",
            ];
            let _ = sentinel.try_command::<()>(&often);
        }
        for (group, sentinel) in self
            .groups
            .iter()
            .flat_map(|group| self.sentinels.iter().map(move |sentinel| (group, sentinel)))
        {
            let what = format!("{} knows all of {}", sentinel.name(), group.name);
            eventually_async(FAILOVER, &what, || async {
                let said: RedisResult<BTreeMap<String, String>> =
                    sentinel.try_command(&["SENTINEL", "MASTER", &group.name]);
                let said = said.map_err(|error| error.to_string())?;
                let known = |what: &str| said.get(what).and_then(|count| count.parse().ok());
                let others = known("num-other-sentinels");
                let usable = sentinel.try_command::<String>(&["SENTINEL", "CKQUORUM", &group.name]);
                let flags = said.get("flags").map(String::as_str);
                if others == Some(self.sentinels.len() - 1)
                    && known("num-slaves") == Some(replicas)
                    && usable.is_ok()
                    && flags == Some("master")
                {
                    Ok(())
                } else {
                    Err(format!("{usable:?} {said:?}"))
                }
            })
            .await;
        }
        for group in &self.groups {
            for replica in &group.servers[1..] {
                replica.follows(&group.servers[0]).await;
            }
        }
    }
}

impl Group {
    /// What Sentinels call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All servers, the first primary first.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }
}

/// The port of the server that a Sentinel says is the primary.
fn primary(sentinel: &RedisServer, group: &Group) -> Option<u16> {
    if !sentinel.is_running() {
        return None;
    }
    let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &group.name];
    let said: RedisResult<(String, u16)> = sentinel.try_command(&question);
    said.ok().map(|(_, port)| port)
}

impl RedisServer {
    fn replication(&self) -> RedisResult<redis::InfoDict> {
        self.try_command(&["INFO", "replication"])
    }

    /// Whether it says that it is a primary.
    pub fn is_primary(&self) -> bool {
        let says = self.replication().ok();
        says.and_then(|info| info.get("role")) == Some("master".to_owned())
    }

    /// Waits until it has what the primary has, and is told of everything new.
    #[track_caller]
    pub fn follows(&self, primary: &RedisServer) -> impl Future<Output = ()> {
        let what = format!("{} is a replica of {}", self.name(), primary.name());
        eventually(FAILOVER, &what, || {
            let info = self.replication().map_err(|error| error.to_string())?;
            let said = |what: &str| info.get::<String>(what).unwrap_or_default();
            let (port, link) = (said("master_port"), said("master_link_status"));
            let synced = link == "up" && port == primary.port().to_string();
            // The other side has to know, too, and sends nothing before it was told what is there.
            let replicas: String = primary
                .try_command(&["INFO", "replication"])
                .map_err(|error| error.to_string())?;
            let mut lines = replicas.lines();
            let sent = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
            let there = format!(
                "port={},state=online,offset={},",
                self.port(),
                sent.unwrap_or_default()
            );
            if sent == Some("0") {
                // Something to send, which leaves nothing.
                let _ = primary.try_command::<u64>(&["PUBLISH", "nobody listens", ""]);
            } else if synced && replicas.contains(&there) {
                return Ok(());
            }
            Err(format!("{link} with {port}; {replicas}"))
        })
    }
}
