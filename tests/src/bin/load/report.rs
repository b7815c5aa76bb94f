//! The run in words: `report.md`, next to its picture.

use crate::course::{Recovery, Stretch, recovery};
use crate::faults::Fault;
use crate::ledger::Comparison;
use crate::orders::{Answer, Order};
use crate::setting::{SCARCE_PIECES, Setting};
use crate::stage::Run;
use std::fmt::{self, Display};
use std::fs::{read_to_string, write};
use std::time::Duration;

pub(crate) const REPORT: &str = "report.md";
pub(crate) const PICTURE: &str = "report.svg";

/// Some of the answers, by what they are called.
type Kind = (&'static str, fn(Answer) -> bool);

/// What is told of a run.
pub(crate) struct Report<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) run: &'a Run,
    pub(crate) comparison: &'a Comparison,
    pub(crate) violations: &'a [String],
    /// Of the machine, when the run began.
    pub(crate) load_average: String,
}

impl Report<'_> {
    /// Puts it where the setting says.
    pub(crate) fn save(&self) {
        let Self { setting, run, .. } = self;
        let picture = crate::picture::draw(setting, &run.orders, &run.faults);
        let summary = run.summary.join("\n") + "\n";
        for (name, text) in [
            (REPORT, self.to_string()),
            (PICTURE, picture),
            ("k6.txt", summary),
        ] {
            let path = setting.to.join(name);
            write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    fn what_was_run(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            setting,
            run,
            load_average,
            ..
        } = self;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let build = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        writeln!(
            f,
            "{} customers (k6 {}) at two processes of `examples/payments` ({build} build{}), five Redis {} nodes with an append-only \
             file, synced once a second, and PostgreSQL {}; {} products with stock enough and one with {SCARCE_PIECES} pieces, which \
             ends. All customers were there from {} until {}, and came and went in as long as is left.\n",
            setting.vus,
            run.versions.k6,
            if setting.without_locks {
                ", **each with locks of its own**"
            } else {
                ""
            },
            run.versions.redis,
            run.versions.database,
            setting.products,
            seconds(setting.ramp()),
            seconds(setting.ramp() + setting.hold),
        )?;
        writeln!(
            f,
            "Everything ran on one machine of {cores} cores, whose load average was {load_average} before.\n"
        )
    }

    fn answers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let orders = &self.run.orders;
        writeln!(
            f,
            "## Answers\n\n| answer | orders | half within | 95 of 100 | 99 of 100 | all |\n|---|---|---|---|---|---|"
        )?;
        let kinds: [Kind; 7] = [
            ("200, sold", |answer| matches!(answer, Answer::Sold(_))),
            ("409, sold out", |answer| answer == Answer::SoldOut),
            ("429, busy", |answer| answer == Answer::Busy),
            ("503, no lock service", |answer| answer == Answer::Outage),
            ("none: the service was killed over it", |answer| {
                answer == Answer::Missing
            }),
            ("another, or none that is explained", |answer| {
                matches!(answer, Answer::Refused | Answer::Wrong(_))
            }),
            ("together", |_| true),
        ];
        for (kind, is) in kinds {
            let of_kind: Vec<Order> = orders
                .iter()
                .filter(|order| is(order.answer))
                .cloned()
                .collect();
            let stretch = Stretch::of(&of_kind, Duration::ZERO, Duration::MAX);
            write!(f, "| {kind} | {} |", stretch.all())?;
            for permille in [500, 950, 990, 1000] {
                write!(f, " {} |", took(&stretch, permille))?;
            }
            writeln!(f)?;
        }
        let refused: usize = orders.iter().map(|order| order.refused).sum();
        writeln!(
            f,
            "\n{refused} connections were refused, and the other service asked instead.\n"
        )
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { orders, faults, .. } = self.run;
        if faults.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "## Faults\n\n| what | from | to | 200 | 409 | 429 | 503 | no answer | half within | 95 of 100 |\n|---|---|---|---|---|---|---|---|---|---|"
        )?;
        let first = faults
            .iter()
            .map(|fault| fault.from)
            .min()
            .unwrap_or_default();
        let last = faults
            .iter()
            .map(|fault| fault.to)
            .max()
            .unwrap_or_default();
        let (ramp, full) = (self.setting.ramp(), self.setting.ramp() + self.setting.hold);
        let stretches = [("nothing yet".to_owned(), ramp, first)]
            .into_iter()
            .chain(
                faults
                    .iter()
                    .map(|fault| (fault.trouble.name(), fault.from, fault.to)),
            )
            .chain([("nothing any more".to_owned(), last, full)]);
        for (what, from, to) in stretches {
            let answers = Stretch::of(orders, from, to);
            let Stretch {
                sold,
                sold_out,
                busy,
                outage,
                none,
                ..
            } = &answers;
            writeln!(
                f,
                "| {what} | {} | {} | {sold} | {sold_out} | {busy} | {outage} | {none} | {} | {} |",
                seconds(from),
                seconds(to),
                took(&answers, 500),
                took(&answers, 950),
            )?;
        }
        writeln!(f)?;
        self.back_to_normal(f, faults)
    }

    fn back_to_normal(&self, f: &mut fmt::Formatter<'_>, faults: &[Fault]) -> fmt::Result {
        let Some(Recovery {
            before,
            after,
            back,
        }) = recovery(self.setting, &self.run.orders, faults)
        else {
            return Ok(());
        };
        match back {
            Some(back) => writeln!(
                f,
                "Back to normal {} ms after the last fault, by itself: nobody was told 503 or nothing for 5 s from then on, and at least a third \
                 as many pieces were sold as before. Before the first fault {before:.0} a second were sold, and after that {after:.0}.\n",
                back.as_millis()
            ),
            None => writeln!(
                f,
                "**It did not come back to normal.** Before the first fault {before:.0} a second were sold, and after the last one {after:.0}.\n"
            ),
        }
    }

    fn database(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            run, comparison, ..
        } = self;
        let initial: i64 = run.initial.values().sum();
        let (sold, stock) = (comparison.sold, comparison.stock);
        let gone = initial - stock - i64::try_from(sold).unwrap_or(i64::MAX);
        let rest = match gone {
            0 => ".".to_owned(),
            1.. => format!(
                " + {gone} gone without a sale: the process was killed, or the lease lost, between the two writes of a checkout."
            ),
            _ => format!(" - {} sold too often.", -gone),
        };
        writeln!(
            f,
            "## The database\n\n{initial} pieces = {sold} sold + {stock} in stock{rest}"
        )?;
        writeln!(
            f,
            "{} sales are of a piece or an order of which there was one already. {} orders that got no answer had been sold. {} \
             leases were lost. {} keys were left on the nodes.\n",
            comparison.duplicates,
            comparison.sold_unanswered,
            run.lost,
            run.keys_left.len()
        )
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 50;
        let kind = if self.setting.chaos {
            "Chaos under load"
        } else {
            "Load"
        };
        writeln!(
            f,
            "# {kind}\n\n![answers and latency over time]({PICTURE})\n"
        )?;
        self.what_was_run(f)?;
        self.answers(f)?;
        self.faults(f)?;
        self.database(f)?;
        writeln!(f, "## Violations\n")?;
        if self.violations.is_empty() {
            writeln!(f, "None.")?;
        }
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "- {violation}")?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, "- and {} more", self.violations.len() - SHOWN)?;
        }
        Ok(())
    }
}

/// The three numbers of `/proc/loadavg`, where there is one.
pub(crate) fn load_average() -> String {
    let averages = read_to_string("/proc/loadavg").unwrap_or_default();
    let three: Vec<_> = averages.split(' ').take(3).collect();
    three.join(", ")
}

fn took(stretch: &Stretch, permille: usize) -> String {
    stretch
        .quantile(permille)
        .map_or_else(|| "–".to_owned(), |took| format!("{} ms", took.as_millis()))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
