//! Durations as text, checked when compiling: `"500ms"`, `"30s"`, `"1m30s"`.

use std::time::Duration;

/// Largest first, which is also the order in which a compound duration names them.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Ends every message: what can be written.
pub(crate) const FORMS: &str = "a duration is whole numbers with the units h, m, s and ms, as in \"500ms\", \"30s\" or \"1m30s\"";

/// Reads `text`, or says what is wrong with it and what can be written.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    read(text).map_err(|problem| format!("{problem}; {FORMS}"))
}

fn read(text: &str) -> Result<Duration, String> {
    if text.trim().is_empty() {
        return Err("this duration is empty".to_owned());
    }
    if text.trim_start().starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    let mut total = 0_u64;
    let mut units = &UNITS[..];
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        if after.starts_with(['.', ',']) {
            return Err(format!("`{text}` has a fraction: use a smaller unit"));
        }
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return Err(format!("`{text}` has no number before `{unit}`"));
        }
        let position = units
            .iter()
            .position(|(name, _)| *name == unit)
            .ok_or_else(|| unusable_unit(text, number, unit))?;
        let millis = units[position].1;
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(millis))
            .and_then(|millis| total.checked_add(millis))
            .ok_or_else(|| format!("`{text}` is too long to be counted in milliseconds"))?;
        units = &units[position + 1..];
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// Why `unit` cannot stand where it stands.
fn unusable_unit(text: &str, number: &str, unit: &str) -> String {
    if unit.is_empty() && number == text {
        return format!("`{text}` has no unit: write `{text}s` for seconds");
    }
    if unit.is_empty() {
        return format!("`{text}` has no unit after {number}");
    }
    if UNITS.iter().any(|(name, _)| *name == unit) {
        return format!("`{text}` must name each unit once, largest first");
    }
    if matches!(unit, "us" | "µs" | "μs" | "ns") {
        return format!("`{text}` is finer than the servers count: the smallest unit is ms");
    }
    if unit.contains(char::is_whitespace) {
        return format!("`{text}` has a space in it");
    }
    let lower = unit.to_lowercase();
    if UNITS.iter().any(|(name, _)| *name == lower) {
        return format!("unknown unit `{unit}` in `{text}`: units are in lower case");
    }
    let unknown = format!("unknown unit `{unit}` in `{text}`");
    let other = match &*lower {
        "msec" | "millis" | "milliseconds" => "ms",
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => {
            return match number
                .parse()
                .ok()
                .and_then(|days: u32| days.checked_mul(24))
            {
                Some(hours) => format!("{unknown}: write `{hours}h`"),
                None => unknown,
            };
        }
        _ => return unknown,
    };
    format!("{unknown}: write `{number}{other}`")
}

/// The longest beginning of `text` whose characters all satisfy `belongs`, and what follows it.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_and_compounds() {
        let table = [
            ("0s", 0),
            ("1ms", 1),
            ("500ms", 500),
            ("8s", 8_000),
            ("008s", 8_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1m30s", 90_000),
            ("1h1m1s1ms", 3_661_001),
            ("1h5ms", 3_600_005),
            ("18446744073709551615ms", u64::MAX),
        ];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_with_the_reason_and_the_forms() {
        let table = [
            ("", "empty"),
            ("  ", "empty"),
            ("8", "no unit: write `8s`"),
            ("1m30", "no unit after 30"),
            ("s", "no number before `s`"),
            ("-1s", "negative"),
            ("1.5s", "fraction"),
            ("1,5s", "fraction"),
            ("1s1s", "once, largest first"),
            ("30s1m", "once, largest first"),
            ("8S", "lower case"),
            ("8M", "lower case"),
            ("8MS", "lower case"),
            ("8sec", "unknown unit `sec` in `8sec`: write `8s`"),
            ("5min", "unknown unit `min` in `5min`: write `5m`"),
            ("2days", "unknown unit `days` in `2days`: write `48h`"),
            ("1d", "unknown unit `d` in `1d`: write `24h`"),
            ("1w", "unknown unit `w` in `1w`"),
            ("10us", "smallest unit is ms"),
            ("10µs", "smallest unit is ms"),
            ("10ns", "smallest unit is ms"),
            ("1m 30s", "space"),
            ("8 s", "space"),
            ("8s ", "space"),
            (" 8s", "no number before ` `"),
            ("+8s", "no number before `+`"),
            ("18446744073709551616ms", "too long"),
            ("18446744073709551615s", "too long"),
            ("5124095576030h99999999h", "once, largest first"),
            ("5124095576030h9999999m", "too long"),
            ("٣s", "no number"),
        ];
        for (text, reason) in table {
            let message = parse(text).expect_err(text);
            assert!(message.contains(reason), "{text}: {message}");
            assert!(message.ends_with(FORMS), "{text}: {message}");
        }
    }
}
