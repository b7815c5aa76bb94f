//! What the servers were asked, what it cost them, and what is left on them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lock_tests::fleet::MARKER;
use lock_tests::{Fleet, RedisServer};

use crate::figures::number;

/// For how long what is still on its way may arrive.
const SETTLES: Duration = Duration::from_millis(500);

/// No line of `MONITOR` for so long: there is none any more.
const QUIET: Duration = Duration::from_millis(100);

/// Servers on which everybody may do everything, as peers need other commands than this library.
pub fn start(nodes: usize) -> Fleet {
    Fleet::of((0..nodes).map(|_| RedisServer::options().everything_permitted()))
}

fn up(fleet: &Fleet) -> impl Iterator<Item = &RedisServer> {
    let servers = fleet.servers().iter();
    servers.filter(|server| server.is_running())
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys = server.keys("*");
    keys.retain(|key| !key.ends_with(MARKER));
    keys
}

/// How many keys the node has that has most, once what is on its way has arrived.
pub async fn left_behind(fleet: &Fleet) -> usize {
    let started = Instant::now();
    loop {
        let most = up(fleet).map(|server| keys(server).len()).max();
        let most = most.unwrap_or_default();
        if most == 0 || started.elapsed() > SETTLES {
            return most;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Deletes every key but the one by which this library knows servers that have voted.
pub fn clean(fleet: &Fleet) {
    for server in up(fleet) {
        for some in keys(server).chunks(1_000) {
            let words: Vec<&str> = std::iter::once("DEL")
                .chain(some.iter().map(String::as_str))
                .collect();
            server.command::<()>(&words);
        }
    }
}

/// Processor time that the servers have used, all together.
pub fn processor_time(fleet: &Fleet) -> Duration {
    let of_one = |server: &RedisServer| {
        let info: String = server.command(&["INFO", "cpu"]);
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<f64>().ok())
        };
        field("used_cpu_sys:").unwrap_or_default() + field("used_cpu_user:").unwrap_or_default()
    };
    Duration::from_secs_f64(up(fleet).map(of_one).sum())
}

/// What a server is asked to keep a connection, and by the bench itself: none of it is counted.
const HOUSEKEEPING: [&str; 8] = [
    "client", "command", "config", "hello", "info", "keys", "monitor", "ping",
];

/// The commands that a contender sends, told from those that its scripts call.
///
/// `INFO commandstats` counts both. `MONITOR` tells them apart, but is too dear to run while something is measured. So it
/// is asked beforehand which commands are sent at all, and how often scripts call each of these: so many calls for each
/// script that was run are taken off what is counted later. That is exact where every script of a contender calls the
/// command equally often, as it is for all that are measured here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// By name: how many calls scripts make of it, for each script that is run.
    names: BTreeMap<String, f64>,
}

impl Sent {
    /// Watches all servers while something is done.
    pub async fn during(fleet: &Fleet, work: impl Future<Output = ()>) -> Self {
        let monitors: Vec<TcpStream> = fleet.servers().iter().map(monitor).collect();
        work.await;
        let reading = monitors
            .into_iter()
            .map(|monitor| tokio::task::spawn_blocking(|| seen(monitor)));
        let mut all = Seen::default();
        for seen in reading.collect::<Vec<_>>() {
            let seen = seen.await.expect("no panic");
            for (name, calls) in seen.sent {
                *all.sent.entry(name).or_default() += calls;
            }
            for (name, calls) in seen.called {
                *all.called.entry(name).or_default() += calls;
            }
        }
        let scripts = scripts(&all.sent).max(1);
        let called = |name: &str| all.called.get(name).copied().unwrap_or_default();
        let names = all.sent.keys();
        let names = names.map(|name| (name.clone(), number(called(name)) / number(scripts)));
        Self {
            names: names.collect(),
        }
    }

    /// Begins to count.
    pub fn start(fleet: &Fleet) {
        for server in up(fleet) {
            server.reset_command_stats();
        }
    }

    /// How many were sent to all servers together since [`Self::start`].
    pub fn count(&self, fleet: &Fleet) -> f64 {
        let of_one = |server: &RedisServer| -> f64 {
            let mut stats: BTreeMap<String, u64> = BTreeMap::new();
            for (name, calls) in server.command_stats() {
                let name = name.split('|').next().unwrap_or(&name);
                *stats.entry(name.to_owned()).or_default() += calls;
            }
            let scripts = number(scripts(&stats));
            let of_name = |(name, in_script): (&String, &f64)| {
                let calls = stats.get(name).copied().unwrap_or_default();
                (number(calls) - scripts * in_script).max(0.0)
            };
            self.names.iter().map(of_name).sum()
        };
        // The sum of nothing is minus zero.
        up(fleet).map(of_one).sum::<f64>().abs()
    }

    /// The names, for whoever wants to know what was counted.
    pub fn names(&self) -> String {
        let name = |(name, in_script): (&String, &f64)| match in_script {
            0.0 => name.clone(),
            _ => format!("{name} (less {in_script:.2} for each script)"),
        };
        let names: Vec<String> = self.names.iter().map(name).collect();
        names.join(", ")
    }
}

/// How many of these calls run a script.
fn scripts(calls: &BTreeMap<String, u64>) -> u64 {
    let runs = ["eval", "evalsha", "fcall"];
    runs.iter().filter_map(|&name| calls.get(name)).sum()
}

fn monitor(server: &RedisServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("the server is up");
    stream.write_all(b"MONITOR\r\n").expect("the server reads");
    // From its answer on nothing is missed.
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"+OK\r\n", "from MONITOR");
    stream.set_read_timeout(Some(QUIET)).expect("a time");
    stream
}

/// What `MONITOR` has shown, by the commands' names.
#[derive(Default)]
struct Seen {
    sent: BTreeMap<String, u64>,
    called: BTreeMap<String, u64>,
}

/// `+1700000000.000001 [0 127.0.0.1:5000] "SET" "key"` was sent; `[0 lua]` stands where a script has called it.
fn seen(stream: TcpStream) -> Seen {
    let mut seen = Seen::default();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).to_lowercase();
        let Some((source, command)) = line.split_once("] \"") else {
            continue;
        };
        let Some(name) = command.split('"').next() else {
            continue;
        };
        let of = if source.ends_with(" lua") {
            &mut seen.called
        } else {
            &mut seen.sent
        };
        if !HOUSEKEEPING.contains(&name) {
            *of.entry(name.to_owned()).or_default() += 1;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_script_calls_is_not_counted() {
        const SCRIPT: &str = "redis.call('GET', KEYS[1]) return redis.call('DEL', KEYS[1])";
        let fleet = start(2);
        let work = || {
            for server in fleet.servers() {
                server.command::<()>(&["SET", "key", "value"]);
                server.command::<()>(&["EVAL", SCRIPT, "1", "key"]);
                server.command::<()>(&["GET", "key"]);
                server.command::<()>(&["PING"]);
            }
        };
        let sent = Sent::during(&fleet, async { work() }).await;
        assert_eq!(sent.names(), "eval, get (less 1.00 for each script), set");
        Sent::start(&fleet);
        for _ in 0..10 {
            work();
        }
        let counted = sent.count(&fleet);
        assert!((counted - 60.0).abs() < 1e-9, "{counted}");
    }

    #[tokio::test]
    async fn what_is_left_is_seen_and_deleted() {
        let fleet = start(2);
        fleet.found().await;
        assert_eq!(left_behind(&fleet).await, 0);
        for key in ["one", "two"] {
            fleet.servers()[1].command::<()>(&["SET", key, "value"]);
        }
        assert_eq!(left_behind(&fleet).await, 2);
        clean(&fleet);
        assert_eq!(left_behind(&fleet).await, 0);
        assert_eq!(fleet.nodes_with(MARKER), 2);
    }
}
