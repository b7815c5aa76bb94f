//! The run as a picture: what was done, what was answered, and how long that took. An SVG that follows the reader's light or dark
//! theme.

use crate::course::Stretch;
use crate::faults::Fault;
use crate::orders::Order;
use crate::setting::Setting;
use std::fmt::Write;
use std::time::Duration;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 20.0;

/// Of one fault's line.
const LANE: f64 = 20.0;
const LANES_TOP: f64 = 58.0;

const RATE_HEIGHT: f64 = 220.0;
const LATENCY_HEIGHT: f64 = 160.0;

/// Between two parts, with room for a heading.
const GAP: f64 = 48.0;

/// As wide as the columns get, in time: enough of them to see a short fault, and few enough to see a column.
const COLUMNS: u32 = 120;

const STYLE: &str = "\
text{font:12px system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}.quiet{fill:#57606a}.right{text-anchor:end}.middle{text-anchor:middle}
.paper{fill:#fff}.grid{stroke:#d8dee4}.axis{stroke:#8c959f}
.band{fill:#57606a;fill-opacity:.1}.fault{fill:#6e7781}
.sold{fill:#3b78c3}.busy{fill:#e3a32b}.sold-out{fill:#9aa4af}.outage{fill:#c93c37}.none{fill:#1f2328}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.p50{stroke:#3b78c3}.p95{stroke:#8250df}.longest{stroke:#bf5b16;stroke-width:1}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.quiet{fill:#9198a1}.paper{fill:#0d1117}.grid{stroke:#2a313a}.axis{stroke:#6e7681}
.band{fill:#c9d1d9;fill-opacity:.12}.fault{fill:#9198a1}
.sold{fill:#5b9bea}.busy{fill:#d9a13a}.sold-out{fill:#6e7681}.outage{fill:#f0635c}.none{fill:#f0f3f6}
.p50{stroke:#5b9bea}.p95{stroke:#b78cff}.longest{stroke:#e08a4a}}
";

/// Draws it.
pub(crate) fn draw(setting: &Setting, orders: &[Order], faults: &[Fault]) -> String {
    let end = orders.last().map_or(setting.whole(), Order::end);
    let columns = columns(orders, end.max(setting.whole()));
    let lanes = f64::from(u32::try_from(faults.len()).unwrap_or(u32::MAX)) * LANE;
    let rate_top = LANES_TOP + lanes + GAP - 12.0;
    let latency_top = rate_top + RATE_HEIGHT + GAP;
    let bottom = latency_top + LATENCY_HEIGHT;
    let whole = columns.iter().map(|column| column.to).max();
    let mut picture = Picture {
        svg: String::new(),
        whole: whole.unwrap_or(Duration::from_secs(1)),
    };
    let height = bottom + 44.0;
    picture.put(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Answers per second and time to answer, with the faults\">\n<style>\n{STYLE}</style>"
    ));
    picture.rect("paper", (0.0, 0.0), (WIDTH, height), "");
    let title = format!(
        "{} customers at two services on five Redis nodes and PostgreSQL",
        setting.vus
    );
    picture.text("title", (LEFT, 28.0), &title);
    picture.faults(faults, bottom);
    picture.rates(&columns, rate_top);
    picture.latencies(&columns, latency_top);
    picture.seconds(bottom);
    picture.put("</svg>");
    picture.svg
}

struct Column {
    from: Duration,
    to: Duration,
    answers: Stretch,
}

impl Column {
    fn rate(&self, count: usize) -> f64 {
        number(count) / self.to.saturating_sub(self.from).as_secs_f64()
    }
}

/// Stretches of a round length, the last one whole.
fn columns(orders: &[Order], whole: Duration) -> Vec<Column> {
    const WIDTHS: [u64; 6] = [100, 200, 250, 500, 1000, 2000];
    let widths = WIDTHS.map(Duration::from_millis);
    let fits = |width: &Duration| *width * COLUMNS >= whole;
    let width = widths.into_iter().find(fits);
    let width = width.unwrap_or_else(|| Duration::from_secs((whole / COLUMNS).as_secs() + 1));
    let mut columns = Vec::new();
    let mut from = Duration::ZERO;
    while from < whole {
        let to = from + width;
        let answers = Stretch::of(orders, from, to);
        columns.push(Column { from, to, answers });
        from = to;
    }
    columns
}

struct Picture {
    svg: String,
    whole: Duration,
}

impl Picture {
    fn put(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (RIGHT - LEFT) * at.as_secs_f64() / self.whole.as_secs_f64()
    }

    /// `inside` is what the element has within, as a title that a browser shows.
    fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), inside: &str) {
        let ((x, y), (width, height)) = (at, size);
        self.put(&format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{inside}</rect>"
        ));
    }

    fn text(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = at;
        self.put(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }

    fn across(&mut self, class: &str, y: f64) {
        self.put(&format!(
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ));
    }

    /// A line each, and a shade over everything below it.
    fn faults(&mut self, faults: &[Fault], bottom: f64) {
        if faults.is_empty() {
            return;
        }
        let mut top = LANES_TOP;
        for fault in faults {
            let (from, to) = (self.x(fault.from), self.x(fault.to));
            let (name, width) = (fault.trouble.name(), (to - from).max(2.0));
            let seconds = fault.to.saturating_sub(fault.from).as_secs_f64();
            self.rect("band", (from, top), (width, bottom - top), "");
            self.rect("fault", (from, top), (width, LANE - 8.0), "");
            let mut label = format!("{name}, {seconds:.1} s");
            if let Some((what, until)) = fault.aftermath() {
                write!(label, "; {what}").ok();
                let until = self.x(until.min(self.whole));
                self.rect("fault", (from, top + LANE - 5.0), (until - from, 2.0), "");
            }
            // Beside the bar, on the side where there is room.
            if from < f64::midpoint(LEFT, RIGHT) {
                self.text("", (from + width + 6.0, top + 10.0), &label);
            } else {
                self.text("right", (from - 6.0, top + 10.0), &label);
            }
            top += LANE;
        }
    }

    /// A heading with the meaning of the colours behind it.
    fn heading(&mut self, top: f64, heading: &str, colours: &[(&str, &str)]) {
        self.text("title", (LEFT, top - 14.0), heading);
        let mut x = LEFT + 190.0;
        for (class, meaning) in colours {
            let width = if class.starts_with("line") {
                let (y, end) = (top - 18.0, x + 18.0);
                self.put(&format!(
                    "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
                ));
                18.0
            } else {
                self.rect(class, (x, top - 24.0), (12.0, 12.0), "");
                12.0
            };
            self.text("quiet", (x + width + 6.0, top - 14.0), meaning);
            x += width + 30.0 + 6.6 * number(meaning.chars().count());
        }
    }

    /// Lines across at round numbers; returns what the top is worth.
    fn scale(&mut self, top: f64, height: f64, largest: f64, unit: &str) -> f64 {
        let step = round_step(largest / 4.0);
        let full = (largest / step).ceil().max(1.0) * step;
        let mut value = 0.0;
        while value <= full + step / 2.0 {
            let y = top + height * (1.0 - value / full);
            self.across(if value == 0.0 { "axis" } else { "grid" }, y);
            let decimals = usize::from(step < 1.0);
            self.text(
                "quiet right",
                (LEFT - 8.0, y + 4.0),
                &format!("{value:.decimals$}{unit}"),
            );
            value += step;
        }
        full
    }

    fn rates(&mut self, columns: &[Column], top: f64) {
        let colours = [
            ("sold", "200 sold"),
            ("sold-out", "409 sold out"),
            ("busy", "429 busy"),
            ("outage", "503 no lock service"),
            ("none", "no answer"),
        ];
        self.heading(top, "Answers per second", &colours);
        let rates = columns
            .iter()
            .map(|column| column.rate(column.answers.all()));
        let full = self.scale(top, RATE_HEIGHT, rates.fold(1.0, f64::max), "");
        for column in columns {
            let Stretch {
                sold,
                sold_out,
                busy,
                outage,
                none,
                ..
            } = column.answers;
            let counts = [sold, sold_out, busy, outage, none];
            let (x, width) = (self.x(column.from), self.x(column.to) - self.x(column.from));
            let mut y = top + RATE_HEIGHT;
            for ((class, meaning), count) in colours.into_iter().zip(counts) {
                if count > 0 {
                    let height = RATE_HEIGHT * column.rate(count) / full;
                    // Few of many are to be seen as well.
                    let height = if class == "none" {
                        height.max(2.0)
                    } else {
                        height
                    };
                    y -= height;
                    let at = column.from.as_secs_f64();
                    let title = format!("<title>at {at} s: {count} × {meaning}</title>");
                    self.rect(class, (x, y), ((width - 1.0).max(0.5), height), &title);
                }
            }
        }
    }

    fn latencies(&mut self, columns: &[Column], top: f64) {
        let lines = [
            ("line p50", "half within", 500),
            ("line p95", "95 of 100 within", 950),
            ("line longest", "all within", 1000),
        ];
        let legend = lines.map(|(class, meaning, _)| (class, meaning));
        self.heading(top, "Time to the answer", &legend);
        let seconds = |column: &Column, permille| {
            let took = column.answers.quantile(permille)?;
            Some(took.as_secs_f64())
        };
        let longest = columns.iter().filter_map(|column| seconds(column, 1000));
        let full = self.scale(top, LATENCY_HEIGHT, longest.fold(0.1, f64::max), " s");
        for (class, _, permille) in lines.into_iter().rev() {
            let mut path = String::new();
            let mut pen = 'M';
            for column in columns {
                // A gap where nobody was answered.
                let Some(seconds) = seconds(column, permille) else {
                    pen = 'M';
                    continue;
                };
                let x = f64::midpoint(self.x(column.from), self.x(column.to));
                let y = top + LATENCY_HEIGHT * (1.0 - seconds / full);
                write!(path, "{pen}{x:.1} {y:.1}").ok();
                pen = 'L';
            }
            self.put(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
        }
    }

    fn seconds(&mut self, bottom: f64) {
        let whole = self.whole.as_secs_f64();
        let step = round_step(whole / 10.0).max(1.0);
        let mut at = 0.0;
        while at <= whole {
            let x = LEFT + (RIGHT - LEFT) * at / whole;
            self.text("quiet middle", (x, bottom + 18.0), &format!("{at:.0} s"));
            at += step;
        }
        self.text(
            "quiet",
            (LEFT, bottom + 36.0),
            "Each answer is counted when it came. Grey: what was done, and for how long.",
        );
    }
}

/// 1, 2 or 5 times a power of ten, not less than this.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(0.01).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::plan;
    use crate::orders::Answer;
    use std::path::PathBuf;

    #[test]
    fn steps_are_round() {
        for (least, step) in [
            (0.3, 0.5),
            (1.0, 1.0),
            (1.1, 2.0),
            (40.0, 50.0),
            (60.0, 100.0),
        ] {
            assert!(
                (round_step(least) - step).abs() < 1e-9,
                "{least}: {}",
                round_step(least)
            );
        }
    }

    #[test]
    fn each_kind_of_answer_and_each_fault_is_drawn_and_nothing_that_is_not_there() {
        let setting = Setting {
            vus: 5,
            hold: Duration::from_secs(20),
            products: 1,
            chaos: true,
            without_locks: false,
            to: PathBuf::new(),
        };
        let order = |(second, answer)| Order {
            at: Duration::from_secs(second),
            took: Duration::from_millis(100),
            user: 1,
            product: 1,
            answer,
            service: 0,
            refused: 0,
        };
        let faults = plan(setting.ramp(), setting.hold);
        let answers = [
            (1, Answer::Sold(4)),
            (2, Answer::Busy),
            (3, Answer::Outage),
            (4, Answer::Missing),
        ];
        let drawn = draw(&setting, &answers.map(order), &faults);
        for meaning in ["200 sold", "429 busy", "503 no lock service", "no answer"] {
            assert_eq!(
                drawn.matches(&format!("1 × {meaning}<")).count(),
                1,
                "{drawn}"
            );
        }
        assert!(!drawn.contains("× 409"), "{drawn}");
        for fault in &faults {
            assert!(drawn.contains(&fault.trouble.name()), "{drawn}");
        }
        let nothing = draw(&setting, &[], &[]);
        assert!(
            !nothing.contains("×") && !nothing.contains("NaN"),
            "{nothing}"
        );
    }
}
