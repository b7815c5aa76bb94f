//! Numbers: medians, quantiles, and how they are written.

use std::time::Duration;

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "nothing here is counted to 2^52"
)]
pub fn number(count: u64) -> f64 {
    count as f64
}

/// The same for a length.
pub fn size(count: usize) -> f64 {
    number(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The middle one; not a number where there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median over the rounds of something that each round has.
pub fn over<R>(rounds: &[R], figure: impl Fn(&R) -> f64) -> f64 {
    median(rounds.iter().map(figure).collect())
}

/// What so many of a hundred are below, in seconds; not a number where there is none.
pub fn quantile(values: &[Duration], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    let at = values.len() * percent / 100;
    let value = values.get(at.min(values.len().saturating_sub(1)));
    value.map_or(f64::NAN, Duration::as_secs_f64)
}

/// Seconds, as one reads them.
pub fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds.is_nan() => "–".to_owned(),
        _ if seconds < 1e-4 => format!("{:.1} µs", seconds * 1e6),
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1e-2 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// So many per second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        _ if per_second.is_nan() => "–".to_owned(),
        _ if per_second < 1e3 => format!("{per_second:.0}/s"),
        _ if per_second < 1e6 => format!("{:.1} k/s", per_second / 1e3),
        _ => format!("{:.2} M/s", per_second / 1e6),
    }
}

/// A count that is an average.
pub fn count(number: f64) -> String {
    match number {
        _ if number.is_nan() => "–".to_owned(),
        _ if number.is_infinite() => "∞".to_owned(),
        _ if number < 10.0 => format!("{number:.2}"),
        _ => format!("{number:.0}"),
    }
}

/// A part of a whole.
pub fn percent(part: f64) -> String {
    if part.is_nan() {
        "–".to_owned()
    } else {
        format!("{:.0} %", part * 100.0)
    }
}
