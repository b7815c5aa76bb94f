//! Tables in Markdown: the figures of every contender as they come, and at the end each aim and whether it is met.

use std::fmt::{self, Write};

use crate::figures::count;

/// A table of figures, with a line for each contender.
#[derive(Debug)]
pub struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    /// The first line.
    pub fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self {
            lines: vec![heads.map(str::to_owned).to_vec()],
        }
    }

    /// Another line.
    pub fn line<const N: usize>(&mut self, cells: [String; N]) {
        self.lines.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cells) in self.lines.iter().enumerate() {
            writeln!(f, "| {} |", cells.join(" | "))?;
            if index == 0 {
                writeln!(f, "|{}", "---|".repeat(cells.len()))?;
            }
        }
        Ok(())
    }
}

/// Whether what was aimed for is there.
#[derive(Debug)]
enum Verdict {
    Met,
    NotMet,
    /// There is nothing to compare with.
    Open,
}

/// All aims, and how far each was met.
#[derive(Debug, Default)]
pub struct Report {
    aims: Vec<(String, [String; 4], Verdict)>,
}

/// One figure of ours and what it is measured against.
#[derive(Clone, Debug)]
pub struct Aim<'a> {
    /// The row and what is done, for the first column.
    pub work: &'a str,
    /// Our figure.
    pub ours: f64,
    /// How figures of this kind are written.
    pub shown: fn(f64) -> String,
    /// What is said of the others, in words.
    pub others: String,
}

impl Report {
    /// At most so many times the figure of somebody else.
    pub fn at_most(&mut self, aim: Aim<'_>, factor: f64, whose: &str, reference: f64) {
        let ratio = aim.ours / reference;
        let text = format!("≤ {} × {whose}", short(factor));
        self.add(aim, &count(ratio), text, ratio <= factor, ratio.is_nan());
    }

    /// At least so many times the figure of somebody else.
    pub fn at_least(&mut self, aim: Aim<'_>, factor: f64, whose: &str, reference: f64) {
        let ratio = aim.ours / reference;
        let text = format!("≥ {} × {whose}", short(factor));
        self.add(aim, &count(ratio), text, ratio >= factor, ratio.is_nan());
    }

    /// At most so much.
    pub fn within(&mut self, aim: Aim<'_>, limit: f64) {
        let text = format!("≤ {}", (aim.shown)(limit));
        let (met, open) = (aim.ours <= limit, aim.ours.is_nan());
        self.add(aim, "", text, met, open);
    }

    /// Something that is there or not.
    pub fn holds(&mut self, aim: Aim<'_>, what: &str, met: bool) {
        self.add(aim, "", what.to_owned(), met, false);
    }

    fn add(&mut self, aim: Aim<'_>, ratio: &str, text: String, met: bool, open: bool) {
        let verdict = match (open, met) {
            (true, _) => Verdict::Open,
            (false, true) => Verdict::Met,
            (false, false) => Verdict::NotMet,
        };
        let cells = [(aim.shown)(aim.ours), aim.others, ratio.to_owned(), text];
        self.aims.push((aim.work.to_owned(), cells, verdict));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["work", "this library", "others", "ratio", "aim", ""]);
        for (work, cells, verdict) in &self.aims {
            let [ours, others, ratio, aim] = cells.clone();
            let verdict = match verdict {
                Verdict::Met => "met",
                Verdict::NotMet => "**not met**",
                Verdict::Open => "nothing to compare with",
            };
            table.line([work.clone(), ours, others, ratio, aim, verdict.to_owned()]);
        }
        write!(f, "{table}")
    }
}

fn short(factor: f64) -> String {
    let mut text = format!("{factor:.2}");
    while text.ends_with('0') || text.ends_with('.') {
        let was_point = text.pop() == Some('.');
        if was_point {
            break;
        }
    }
    text
}

/// Joined with semicolons, empty ones left out.
pub fn listed(parts: impl IntoIterator<Item = String>) -> String {
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .fold(String::new(), |mut all, part| {
            let separator = if all.is_empty() { "" } else { "; " };
            // Writing to a String cannot fail.
            let _ = write!(all, "{separator}{part}");
            all
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::rate;

    fn aim(ours: f64) -> Aim<'static> {
        Aim {
            work: "work",
            ours,
            shown: rate,
            others: String::new(),
        }
    }

    #[test]
    fn an_aim_is_met_or_not() {
        let verdict = |judge: &dyn Fn(&mut Report)| {
            let mut report = Report::default();
            judge(&mut report);
            let line = report
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned();
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            cells[cells.len() - 2].to_owned()
        };
        assert_eq!(
            verdict(&|report| report.at_most(aim(114.0), 1.15, "raw", 100.0)),
            "met"
        );
        assert_eq!(
            verdict(&|report| report.at_most(aim(116.0), 1.15, "raw", 100.0)),
            "**not met**"
        );
        assert_eq!(
            verdict(&|report| report.at_least(aim(91.0), 0.9, "raw", 100.0)),
            "met"
        );
        assert_eq!(
            verdict(&|report| report.at_least(aim(89.0), 0.9, "raw", 100.0)),
            "**not met**"
        );
        assert_eq!(verdict(&|report| report.within(aim(2.0), 2.0)), "met");
        assert_eq!(
            verdict(&|report| report.within(aim(2.1), 2.0)),
            "**not met**"
        );
        assert_eq!(
            verdict(&|report| report.holds(aim(1.0), "so", false)),
            "**not met**"
        );
        let nothing = "nothing to compare with";
        assert_eq!(
            verdict(&|report| report.at_most(aim(1.0), 1.0, "raw", f64::NAN)),
            nothing
        );
        assert_eq!(
            verdict(&|report| report.within(aim(f64::NAN), 1.0)),
            nothing
        );
        assert_eq!(
            verdict(&|report| report.within(aim(f64::INFINITY), 1.0)),
            "**not met**"
        );
    }

    #[test]
    fn factors_are_written_short() {
        assert_eq!(
            [1.0, 1.15, 0.9, 40.0, 1.0 / 3.0].map(short),
            ["1", "1.15", "0.9", "40", "0.33"]
        );
    }
}
