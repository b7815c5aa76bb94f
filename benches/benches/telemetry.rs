//! What a guarded cycle costs while somebody looks: with nobody, with a `tracing` subscriber, with a recorder of metrics, and
//! with both.
//!
//! `cargo bench --package lock-benches --bench telemetry` without the feature `metrics` of the runtime, and with it
//! `--features metrics`. Each kind is a process of its own, as a subscriber and a recorder are for good; they take turns.
//!
//! For counting instructions: `valgrind --tool=callgrind PROGRAM count KIND CYCLES`, on embedded nodes and one thread; the
//! difference of two numbers of cycles is what cycles cost. `PROGRAM handle kept COUNT` and `PROGRAM handle sought COUNT` are a
//! counter whose handle is kept, and one that is looked up each time, as the library does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lock_benches::machine;
use lock_runtime::{LockError, LockManager, distributed_lock};
use tracing_subscriber::fmt;

const NODES: usize = 5;
const ROUNDS: usize = 11;
const CYCLES: usize = 2_000;

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nobody,
    Tracing,
    Metrics,
    Both,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Nobody, Self::Tracing, Self::Metrics, Self::Both];

    /// Those that there can be in this build.
    fn possible() -> &'static [Self] {
        let all: &[Self] = &Self::ALL;
        if cfg!(feature = "metrics") {
            all
        } else {
            &all[..2]
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Tracing => "tracing",
            Self::Metrics => "metrics",
            Self::Both => "both",
        }
    }

    fn read(word: &str) -> Self {
        let mut all = Self::possible().iter().copied();
        let found = all.find(|kind| kind.word() == word);
        found.unwrap_or_else(|| panic!("{word}: there is no such kind without the feature metrics"))
    }

    /// From now on, in this process.
    fn looks(self) {
        if matches!(self, Self::Tracing | Self::Both) {
            // As in production: INFO, formatted, with a line when a span closes; and written nowhere.
            let subscriber = fmt()
                .with_max_level(tracing::Level::INFO)
                .with_span_events(fmt::format::FmtSpan::CLOSE)
                .with_writer(std::io::sink)
                .finish();
            tracing::subscriber::set_global_default(subscriber).expect("the only one");
        }
        #[cfg(feature = "metrics")]
        if matches!(self, Self::Metrics | Self::Both) {
            use metrics_exporter_prometheus::PrometheusBuilder;
            let buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];
            let builder = PrometheusBuilder::new().set_buckets(&buckets);
            let recorder = builder.expect("buckets").install_recorder();
            recorder.expect("the only one");
        }
    }
}

#[distributed_lock(key = "order:{id}", ttl = "30s", name = "pay", manager = locks)]
async fn pay(locks: &LockManager, id: usize) -> Result<usize, LockError> {
    Ok(id)
}

async fn cycles(locks: &LockManager, count: usize) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for id in 0..count {
        let began = Instant::now();
        pay(locks, id).await.expect("free");
        times.push(began.elapsed());
    }
    times
}

/// Does as many cycles as it is told by each line, and says what the median one took, and what all took of processor time.
async fn work(kind: Kind, nodes: &str) {
    kind.looks();
    let locks = LockManager::builder().nodes(nodes);
    let locks = locks.node_timeout(Duration::from_secs(5)).build();
    let locks = locks.expect("a manager");
    assert!(locks.ready().await, "the servers answer");
    for line in std::io::stdin().lines() {
        let count = line.expect("a line").parse().expect("a number");
        let before = machine::processor_time();
        let mut times = cycles(&locks, count).await;
        let used = machine::processor_time().saturating_sub(before);
        times.sort_unstable();
        let median = times[times.len() / 2].as_nanos();
        println!("{median} {}", used.as_nanos() / count as u128);
    }
}

struct Worker {
    kind: Kind,
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
    medians: Vec<u64>,
    used: Vec<u64>,
}

impl Worker {
    fn start(kind: Kind, nodes: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .args(["work", kind.word(), nodes])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let answers = process.stdout.take().expect("piped");
        Self {
            kind,
            process,
            answers: BufReader::new(answers),
            medians: Vec::new(),
            used: Vec::new(),
        }
    }

    fn round(&mut self) {
        let mut told = self.process.stdin.as_ref().expect("piped");
        writeln!(told, "{CYCLES}").expect("it runs");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        let mut numbers = line.split_whitespace().map(str::parse);
        let mut number = || numbers.next().expect("two").expect("a number");
        self.medians.push(number());
        self.used.push(number());
    }

    /// Microseconds: the median over the rounds, but for the first, which warms up.
    fn middle(all: &[u64]) -> f64 {
        let mut all = all[1..].to_vec();
        all.sort_unstable();
        Duration::from_nanos(all[all.len() / 2]).as_secs_f64() * 1e6
    }
}

fn side_by_side() {
    let fleet = lock_benches::servers::start(NODES);
    let nodes = fleet.lock_nodes();
    let mut workers: Vec<_> = Kind::possible()
        .iter()
        .map(|kind| Worker::start(*kind, &nodes))
        .collect();
    for _ in 0..=ROUNDS {
        for worker in &mut workers {
            worker.round();
        }
    }
    println!("| who looks | a cycle, µs | processor time of the client, µs |");
    println!("|---|---|---|");
    for worker in &mut workers {
        let (median, used) = (
            Worker::middle(&worker.medians),
            Worker::middle(&worker.used),
        );
        println!("| {} | {median:.1} | {used:.1} |", worker.kind.word());
        drop(worker.process.stdin.take());
        let ended = worker.process.wait().expect("it ends");
        assert!(ended.success());
    }
    let metrics = if cfg!(feature = "metrics") {
        "with"
    } else {
        "without"
    };
    println!(
        "\n{NODES} servers, {ROUNDS} rounds of {CYCLES} cycles in turns, {metrics} the feature metrics"
    );
}

/// A counter with two labels counts so often.
#[cfg(feature = "metrics")]
fn handle(how: &str, count: u64) {
    static METADATA: metrics::Metadata<'static> =
        metrics::Metadata::new("bench", metrics::Level::INFO, None);
    Kind::Metrics.looks();
    let name = metrics::Label::from_static_parts("name", "pay");
    let outcome = metrics::Label::from_static_parts("outcome", "acquired");
    let key = metrics::Key::from_parts("lock_acquisitions_total", vec![name, outcome]);
    let sought = || metrics::with_recorder(|recorder| recorder.register_counter(&key, &METADATA));
    let kept = sought();
    for _ in 0..count {
        match how {
            "kept" => kept.increment(1),
            _ => sought().increment(1),
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    match words[..] {
        ["work", kind, nodes] => runtime().block_on(work(Kind::read(kind), nodes)),
        ["count", kind, count] => runtime().block_on(async {
            Kind::read(kind).looks();
            let locks = LockManager::in_memory();
            let count = count.parse().expect("a number");
            drop(cycles(&locks, count).await);
        }),
        #[cfg(feature = "metrics")]
        ["handle", how, count] => handle(how, count.parse().expect("a number")),
        _ => side_by_side(),
    }
}
