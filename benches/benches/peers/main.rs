//! This library and its peers side by side: every row of the table that the README quotes, in one run.
//!
//! `cargo bench --package lock-benches --bench peers`, or `scripts/bench`; `-- --rows 4,9` (or `LOCK_BENCH_ROWS=4,9`) for some
//! of the rows only.
//!
//! Contenders take turns within each round, and a figure is the median over the rounds. The servers are emptied between
//! two turns, outside of what is measured. A contender that lets two in, fails, or does not answer is marked so; nothing
//! of that ends the run.

mod attribute;
mod bench;
mod distinct;
mod dropped;
mod fenced;
mod hot;
mod once;
mod processes;
mod restart;
mod slow_node;
mod stopped;

use std::time::Instant;

use bench::Bench;
use lock_benches::replicas::{REPLICA, replica};

const ROWS: std::ops::RangeInclusive<u8> = 1..=14;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == REPLICA => runtime().block_on(replica(rest)),
        Some((first, rest)) if first == attribute::CALLS => attribute::calls(rest),
        _ => runtime().block_on(all(&rows(&arguments))),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime")
}

/// Which rows are asked for. Cargo adds arguments of its own.
fn rows(arguments: &[String]) -> Vec<u8> {
    let flag = arguments
        .iter()
        .position(|argument| argument == "--rows")
        .map(|at| arguments.get(at + 1).cloned().unwrap_or_default());
    let Some(list) = flag.or_else(|| std::env::var("LOCK_BENCH_ROWS").ok()) else {
        return ROWS.collect();
    };
    let row = |text: &str| match text.trim().parse() {
        Ok(row) if ROWS.contains(&row) => row,
        _ => panic!("--rows takes numbers from 1 to 14, separated by commas, not {text:?}"),
    };
    list.split(',').map(row).collect()
}

async fn all(rows: &[u8]) {
    let started = Instant::now();
    let mut bench = Bench::start().await;
    println!("{}\n", bench.heading());
    for &row in rows {
        let row_started = Instant::now();
        match row {
            1 => distinct::one_task(&mut bench).await,
            2 => distinct::many_tasks(&mut bench).await,
            3 => distinct::one_node(&mut bench).await,
            4 => hot::empty(&mut bench).await,
            5 => hot::millisecond(&mut bench).await,
            6 => processes::row(&mut bench).await,
            7 => slow_node::row(&mut bench).await,
            8 => restart::row(&mut bench).await,
            9 => once::row(&mut bench).await,
            10 => stopped::minority(&mut bench).await,
            11 => stopped::majority(&mut bench).await,
            12 => dropped::row(&mut bench).await,
            13 => fenced::row(&mut bench).await,
            14 => attribute::row(&mut bench).await,
            _ => unreachable!("rows are checked when they are read"),
        }
        println!(
            "(row {row}: {:.0} s)\n",
            row_started.elapsed().as_secs_f64()
        );
    }
    println!("{}", bench.report);
    println!(
        "{:.0} s altogether; load average at the end {}",
        started.elapsed().as_secs_f64(),
        lock_benches::machine::load()
    );
}
