//! What is shown to people: durations, and text that may be anything.

use std::fmt;
use std::time::Duration;

/// To a tenth of its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded(pub(crate) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            f.write_str("0s")
        } else {
            write!(f, "{:.1?}", self.0)
        }
    }
}

/// As it is, but for what would do something to a terminal or to the lines of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible<'a>(pub(crate) &'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(char::is_control) {
            let (before, from) = rest.split_at(at);
            write!(f, "{before}?")?;
            rest = from.strip_prefix(char::is_control).unwrap_or_default();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_at_all_has_no_odd_unit() {
        for (duration, shown) in [
            (Duration::ZERO, "0s"),
            (Duration::from_micros(1234), "1.2ms"),
            (Duration::from_millis(59_960), "60.0s"),
        ] {
            assert_eq!(Rounded(duration).to_string(), shown);
        }
    }

    #[test]
    fn control_characters_are_seen_and_do_nothing() {
        for (text, shown) in [
            ("order:1", "order:1"),
            ("", ""),
            ("\x1b[2J\u{9b}a\r\nключ\0", "?[2J?a??ключ?"),
        ] {
            assert_eq!(Visible(text).to_string(), shown);
        }
    }
}
