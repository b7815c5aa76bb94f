//! Starts servers and clients, does things to them, and looks at what came of it.

use crate::history::{CONTINUED, FAULTS, Findings, KILLED, examine, fault};
use crate::setting::{CLIENTS, CLIENTS_IN_TROUBLE, CLOCKS, MAX_TTL, NODES, SERVERS_IN_TROUBLE};
use lock_tests::fleet::{MARKER, voted_in};
use lock_tests::processes::Peer;
use lock_tests::recorder::Inside;
use lock_tests::{DEADLINE, Disk, Fleet, Mode, Proxy, Recorder, RedisServer, eventually};
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Of the servers, so many have an append-only file; the others come back empty.
const WITH_FILE: usize = 3;

/// What a run found.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) keys_left: Vec<String>,
}

struct Stage {
    fleet: Fleet,
    record: Recorder,
    notes: Inside,
    /// Locked while it is in trouble.
    servers: [Mutex<()>; NODES],
    clients: [Mutex<Client>; CLIENTS],
    faults: AtomicUsize,
    end: Instant,
}

struct Client {
    name: String,
    number: usize,
    life: usize,
    process: Peer,
}

/// What is done to a server or to the network in front of it, other than a restart.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Stop,
    Blackhole,
    Reset,
    HoldAnswers,
    LoseAnswers,
}

impl Trouble {
    const ALL: [Self; 5] = [
        Self::Stop,
        Self::Blackhole,
        Self::Reset,
        Self::HoldAnswers,
        Self::LoseAnswers,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Stop => "server stopped",
            Self::Blackhole => "server blackholed",
            Self::Reset => "server's connections reset",
            Self::HoldAnswers => "server's answers delayed",
            Self::LoseAnswers => "server's answers lost",
        }
    }

    /// How long it may last, in milliseconds.
    fn longest(self) -> f64 {
        match self {
            Self::Reset => 30.0,
            _ => 3000.0,
        }
    }

    fn begin(self, server: &RedisServer, proxy: &Proxy) {
        match self {
            Self::Stop => server.pause(),
            Self::Blackhole => proxy.set(Mode::Blackhole),
            Self::Reset => proxy.reset(),
            Self::HoldAnswers => proxy.set(Mode::HoldAnswers),
            Self::LoseAnswers => proxy.set(Mode::DropAnswers),
        }
    }

    fn end(self, server: &RedisServer, proxy: &Proxy) {
        match self {
            Self::Stop => server.resume(),
            _ => proxy.set(Mode::Pass),
        }
    }
}

/// Runs for so long, then lets everything come to rest and looks.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn conduct(time: Duration, record: Recorder) -> Outcome {
    let options = (0..NODES).map(|node| match disk_of(node) {
        Disk::Keep => RedisServer::options().append_only("everysec"),
        Disk::Lose => RedisServer::options(),
    });
    let fleet = Fleet::of(options).behind_proxies();
    fleet.found().await;
    let client = |number| Mutex::new(Client::start(number, 1, &fleet, &record));
    let stage = Arc::new(Stage {
        clients: std::array::from_fn(client),
        notes: record.enter(FAULTS, "conductor"),
        fleet,
        record,
        servers: Default::default(),
        faults: AtomicUsize::new(0),
        end: Instant::now() + time,
    });
    let mut running = JoinSet::new();
    for _ in 0..SERVERS_IN_TROUBLE {
        running.spawn(Arc::clone(&stage).trouble_servers());
    }
    for _ in 0..CLIENTS_IN_TROUBLE {
        running.spawn(Arc::clone(&stage).trouble_clients());
    }
    running.spawn(Arc::clone(&stage).show_progress());
    while let Some(ended) = running.join_next().await {
        ended.expect("what is done can be done, and undone");
    }
    stage.come_to_rest().await
}

fn disk_of(node: usize) -> Disk {
    if node < WITH_FILE {
        Disk::Keep
    } else {
        Disk::Lose
    }
}

impl Client {
    fn start(number: usize, life: usize, fleet: &Fleet, record: &Recorder) -> Self {
        let name = format!("client-{number}.{life}");
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command
            .args(["client", &name])
            .arg(record.path())
            .arg(CLOCKS[number].to_string())
            .env("LOCK_NODES", fleet.lock_nodes());
        Self {
            name,
            number,
            life,
            process: Peer::start(command),
        }
    }
}

impl Stage {
    /// On record once it is done, so that who acts afterwards was not stopped before.
    fn note_fault(&self, what: &str, target: &str) {
        self.notes.step(&fault(what, target));
        self.faults.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits for a random time, in milliseconds, of any order of magnitude alike. False: the run is over.
    async fn pause(&self, millis: Range<f64>) -> bool {
        let (shortest, longest) = (millis.start.ln(), millis.end.ln());
        let time = (shortest + (longest - shortest) * fastrand::f64()).exp();
        tokio::time::sleep(Duration::from_secs_f64(time / 1000.0)).await;
        Instant::now() < self.end
    }

    async fn show_progress(self: Arc<Self>) {
        const EVERY: Duration = Duration::from_secs(5);
        let start = Instant::now();
        while Instant::now() < self.end {
            tokio::time::sleep(EVERY.min(self.end - start)).await;
            let faults = self.faults.load(Ordering::SeqCst);
            println!("after {} s: {faults} faults", start.elapsed().as_secs());
        }
    }

    async fn trouble_servers(self: Arc<Self>) {
        while self.pause(5.0..300.0).await {
            let node = fastrand::usize(..NODES);
            let Ok(_in_trouble) = self.servers[node].try_lock() else {
                continue;
            };
            match fastrand::choice(Trouble::ALL) {
                Some(trouble) if fastrand::u8(..3) > 0 => self.trouble(node, trouble).await,
                _ => self.restart(node).await,
            }
        }
    }

    async fn trouble(&self, node: usize, trouble: Trouble) {
        let (server, proxy) = (&self.fleet.servers()[node], &self.fleet.proxies()[node]);
        trouble.begin(server, proxy);
        self.note_fault(trouble.name(), &node.to_string());
        self.pause(20.0..trouble.longest()).await;
        trouble.end(server, proxy);
    }

    async fn restart(&self, node: usize) {
        let server = &self.fleet.servers()[node];
        let what = match disk_of(node) {
            Disk::Keep => "server killed, back with its file",
            Disk::Lose => "server killed, back empty",
        };
        server.kill();
        self.note_fault(what, &node.to_string());
        self.pause(5.0..1000.0).await;
        server.restart(disk_of(node)).await;
        eventually(DEADLINE, "a restarted server has its vote back", || {
            let info: redis::InfoDict = server.command(&["INFO", "server"]);
            let run_id: Option<String> = info.get("run_id");
            run_id.is_some() && voted_in(server) == run_id
        })
        .await;
    }

    async fn trouble_clients(self: Arc<Self>) {
        while self.pause(20.0..400.0).await {
            let number = fastrand::usize(..CLIENTS);
            let Ok(mut client) = self.clients[number].try_lock() else {
                continue;
            };
            if fastrand::bool() {
                self.replace(&mut client).await;
            } else {
                self.stop(&mut client).await;
            }
        }
    }

    async fn replace(&self, client: &mut Client) {
        client.process.kill();
        self.note_fault(KILLED, &client.name);
        self.pause(5.0..500.0).await;
        *client = Client::start(client.number, client.life + 1, &self.fleet, &self.record);
    }

    /// For longer than any lease.
    async fn stop(&self, client: &mut Client) {
        client.process.pause();
        self.note_fault("client stopped", &client.name);
        let longest = MAX_TTL.as_secs_f64() * 1000.0;
        self.pause(longest * 1.02..longest * 2.0).await;
        // On record before it goes on: what it was stopped in comes after.
        self.notes.step(&fault(CONTINUED, &client.name));
        client.process.resume();
    }

    async fn come_to_rest(&self) -> Outcome {
        // All at once: each goes on until its last bodies have ended.
        for client in &self.clients {
            client.lock().await.process.close_input();
        }
        for client in &self.clients {
            let Client { process, name, .. } = &mut *client.lock().await;
            let (status, lines) = process.finish().await;
            assert!(status.success(), "{name}: {status}: {lines:?}");
        }
        let last = Instant::now() + 2 * MAX_TTL;
        let mut keys_left = self.keys();
        while !keys_left.is_empty() && Instant::now() < last {
            tokio::time::sleep(Duration::from_millis(20)).await;
            keys_left = self.keys();
        }
        self.fleet.assert_no_key_without_ttl();
        Outcome {
            findings: examine(self.record.events()),
            keys_left,
        }
    }

    /// All that is on any server, without the servers' own key and what is remembered of fencing tokens.
    fn keys(&self) -> Vec<String> {
        let keys = |server: &RedisServer| {
            let mut keys = server.keys("*");
            keys.retain(|key| key != MARKER && !key.ends_with(":fence"));
            let name = server.name();
            keys.into_iter().map(move |key| format!("{key} on {name}"))
        };
        self.fleet.servers().iter().flat_map(keys).collect()
    }
}
