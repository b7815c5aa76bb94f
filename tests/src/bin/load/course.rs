//! What happened when: answers over time, and whether it came back to normal by itself.

use crate::faults::{Fault, Trouble};
use crate::orders::{Answer, Order};
use crate::setting::{SCARCE, Setting, TTL};
use std::time::Duration;

/// After the last fault everything is as before within this: locks that were left behind run out, and nodes are found again.
const SETTLED_WITHIN: Duration = TTL.saturating_mul(2);

/// Of the clocks of k6 and of this program, and of a connection that is noticed to be gone.
const MARGIN: Duration = Duration::from_secs(1);

/// The answers of a stretch of time.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) sold: usize,
    pub(crate) sold_out: usize,
    pub(crate) busy: usize,
    pub(crate) outage: usize,
    /// No answer, or a wrong one.
    pub(crate) none: usize,
    /// Connections that were refused before somebody else answered.
    pub(crate) refused: usize,
    /// Of the answers, shortest first.
    took: Vec<Duration>,
}

/// How it was once the last fault was over.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// Sold per second before the first fault, with all customers there.
    pub(crate) before: f64,
    /// The same, from when it was back to the last moment with all customers.
    pub(crate) after: f64,
    /// How long after the last fault; `None` if not while the load was on.
    pub(crate) back: Option<Duration>,
}

impl Stretch {
    /// Of the orders that were over in this time.
    pub(crate) fn of(orders: &[Order], from: Duration, to: Duration) -> Self {
        let first = orders.partition_point(|order| order.end() < from);
        let last = orders.partition_point(|order| order.end() < to);
        let mut stretch = Self::default();
        for order in orders.get(first..last).unwrap_or_default() {
            let count = match order.answer {
                Answer::Sold(_) => &mut stretch.sold,
                Answer::SoldOut => &mut stretch.sold_out,
                Answer::Busy => &mut stretch.busy,
                Answer::Outage => &mut stretch.outage,
                Answer::Missing | Answer::Refused | Answer::Wrong(_) => &mut stretch.none,
            };
            *count += 1;
            stretch.refused += order.refused;
            stretch.took.push(order.took);
        }
        stretch.took.sort_unstable();
        stretch
    }

    pub(crate) fn all(&self) -> usize {
        self.took.len()
    }

    /// The time within which so many of a thousand were answered; `None` if nobody was.
    pub(crate) fn quantile(&self, permille: usize) -> Option<Duration> {
        let index = (self.took.len() * permille)
            .div_ceil(1000)
            .saturating_sub(1);
        self.took.get(index).copied()
    }
}

/// Looks when it was back: nobody is told 503 or nothing from then on, and a third as many pieces as before are sold at least.
pub(crate) fn recovery(setting: &Setting, orders: &[Order], faults: &[Fault]) -> Option<Recovery> {
    const STEP: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_secs(1);
    let first = faults.iter().map(|fault| fault.from).min()?;
    let last = faults.iter().map(|fault| fault.to).max()?;
    let full = setting.ramp() + setting.hold;
    let rate = |from: Duration, to: Duration| {
        let sold = u32::try_from(Stretch::of(orders, from, to).sold).unwrap_or(u32::MAX);
        f64::from(sold) / to.saturating_sub(from).as_secs_f64().max(0.001)
    };
    let before = rate(setting.ramp(), first);
    let failed = |order: &&Order| {
        !matches!(
            order.answer,
            Answer::Sold(_) | Answer::SoldOut | Answer::Busy
        )
    };
    let last_failure = orders.iter().filter(failed).map(Order::end).max();
    let well_from = last_failure.map_or(last, |end| last.max(end + Duration::from_millis(1)));
    let mut from = well_from;
    while from + WINDOW <= full {
        if rate(from, from + WINDOW) >= before / 3.0 {
            return Some(Recovery {
                before,
                after: rate(from, full),
                back: Some(from.saturating_sub(last)),
            });
        }
        from += STEP;
    }
    Some(Recovery {
        before,
        after: rate(last, full),
        back: None,
    })
}

/// What must not have been answered, or not then.
pub(crate) fn violations(setting: &Setting, orders: &[Order], faults: &[Fault]) -> Vec<String> {
    let mut violations: Vec<String> = orders
        .iter()
        .filter_map(|order| {
            let wrong = wrong(order, faults)?;
            let (at, took) = (order.at.as_secs_f64(), order.took.as_millis());
            Some(format!(
                "order {} at {at:.1} s, after {took} ms: {wrong}",
                order.user
            ))
        })
        .collect();
    match recovery(setting, orders, faults) {
        Some(Recovery {
            back: Some(back), ..
        }) if back > SETTLED_WITHIN => violations.push(format!(
            "it was back to normal only {:.1} s after the last fault",
            back.as_secs_f64()
        )),
        Some(Recovery { back: None, .. }) => {
            violations.push("it was not back to normal before the end of the load".to_owned());
        }
        _ => {}
    }
    violations
}

fn wrong(order: &Order, faults: &[Fault]) -> Option<&'static str> {
    let killed = |fault: &&Fault| matches!(fault.trouble, Trouble::ServiceKilled(_));
    let was_dying = |fault: &Fault| {
        fault.trouble == Trouble::ServiceKilled(order.service)
            && fault.from + MARGIN >= order.at
            && fault.from <= order.end() + MARGIN
    };
    let was_down =
        |fault: &Fault| order.end() + MARGIN >= fault.from && order.at <= fault.to + MARGIN;
    let after_a_fault = |fault: &Fault| order.end() + MARGIN >= fault.from;
    if order.refused > 0 && !faults.iter().filter(killed).any(was_down) {
        return Some("a service that nobody had killed refused a connection");
    }
    match order.answer {
        Answer::Sold(_) | Answer::Busy => None,
        Answer::SoldOut if order.product == SCARCE => None,
        Answer::SoldOut => Some("sold out, of a product of which there is enough"),
        Answer::Outage if faults.iter().any(after_a_fault) => None,
        Answer::Outage => Some("503, and nothing had been done to the nodes"),
        Answer::Missing if faults.iter().any(was_dying) => None,
        Answer::Missing => Some("no answer from a service that nobody had killed"),
        Answer::Refused => Some("no service listened"),
        Answer::Wrong(_) => Some("a status that is neither 200, 409, 429 nor 503"),
    }
}
