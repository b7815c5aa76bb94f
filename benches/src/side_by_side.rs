//! Measuring contenders side by side: in one process, on the same servers, in turns, so that a machine that is slow for a
//! while is slow for all of them.

use crate::machine::processor_time;
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One way to take and give back a lock: a cycle on a key that nobody else has.
pub type Cycle = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A contender by name.
#[derive(Clone)]
pub struct Contender {
    /// As it stands in the table.
    pub name: &'static str,
    /// What it does.
    pub cycle: Cycle,
}

impl std::fmt::Debug for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a contender took.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Median latency of one cycle in each round.
    medians: Vec<Duration>,
    /// Cycles per second in each round.
    rates: Vec<f64>,
    /// Processor time of this process per cycle, in each round.
    cpu: Vec<Duration>,
}

impl Measured {
    /// The median over the rounds of the median latency.
    #[must_use]
    pub fn latency(&self) -> Duration {
        let mut medians = self.medians.clone();
        medians.sort_unstable();
        medians.get(medians.len() / 2).copied().unwrap_or_default()
    }

    /// The median over the rounds of the client's processor time per cycle, all its threads together.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let mut cpu = self.cpu.clone();
        cpu.sort_unstable();
        cpu.get(cpu.len() / 2).copied().unwrap_or_default()
    }

    /// The median over the rounds of the cycles per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }
}

/// Lets each contender do so many cycles in so many tasks, round after round in turns. The first round warms up and does
/// not count.
pub async fn side_by_side(
    contenders: &[Contender],
    tasks: usize,
    cycles: usize,
    rounds: usize,
) -> Vec<Measured> {
    let mut measured = vec![
        Measured {
            medians: Vec::new(),
            rates: Vec::new(),
            cpu: Vec::new(),
        };
        contenders.len()
    ];
    for round in 0..=rounds {
        for (contender, measured) in contenders.iter().zip(&mut measured) {
            let before = processor_time();
            let (median, rate) = one_round(contender, tasks, cycles, round).await;
            let cpu = processor_time().saturating_sub(before);
            if round > 0 {
                measured.medians.push(median);
                measured.rates.push(rate);
                measured
                    .cpu
                    .push(cpu / u32::try_from(cycles).unwrap_or(u32::MAX));
            }
        }
    }
    measured
}

async fn one_round(
    contender: &Contender,
    tasks: usize,
    cycles: usize,
    round: usize,
) -> (Duration, f64) {
    let started = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let cycle = Arc::clone(&contender.cycle);
        let name = contender.name;
        running.spawn(async move {
            let mut latencies = Vec::with_capacity(cycles / tasks);
            for number in 0..cycles / tasks {
                let key = format!("{name}:{round}:{task}:{number}");
                let started = Instant::now();
                cycle(key).await;
                latencies.push(started.elapsed());
            }
            latencies
        });
    }
    let mut latencies = running.join_all().await.concat();
    let elapsed = started.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2).copied();
    #[expect(
        clippy::cast_precision_loss,
        reason = "a count of cycles is far below 2^52"
    )]
    let rate = latencies.len() as f64 / elapsed;
    (median.unwrap_or_default(), rate)
}

/// The results as a Markdown table; the ratio is to the contender at `limit`.
#[must_use]
pub fn table(title: &str, contenders: &[Contender], measured: &[Measured], limit: usize) -> String {
    let mut table = format!(
        "| {title} | median cycle | cycles/s | client CPU | latency ÷ limit | rate ÷ limit | CPU ÷ limit |\n|---|---|---|---|---|---|---|\n"
    );
    for (contender, result) in contenders.iter().zip(measured) {
        let latency = result.latency().as_secs_f64() / measured[limit].latency().as_secs_f64();
        let rate = result.rate() / measured[limit].rate();
        let cpu = result.cpu().as_secs_f64() / measured[limit].cpu().as_secs_f64();
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| {} | {:.0} µs | {:.0} | {:.1} µs | {latency:.2} | {rate:.2} | {cpu:.2} |",
            contender.name,
            result.latency().as_secs_f64() * 1e6,
            result.rate(),
            result.cpu().as_secs_f64() * 1e6,
        );
    }
    table
}
