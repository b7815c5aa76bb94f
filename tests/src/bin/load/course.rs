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

/// Looks when it was back: nobody is told 503 or nothing for a while from then on, and a third as many pieces as before are sold at
/// least.
pub(crate) fn recovery(setting: &Setting, orders: &[Order], faults: &[Fault]) -> Option<Recovery> {
    const STEP: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_secs(1);
    const WHILE: Duration = TTL;
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
    let failures: Vec<_> = orders.iter().filter(failed).map(Order::end).collect();
    let quiet = |from: Duration| {
        let first = failures.partition_point(|end| *end < from);
        failures.get(first).is_none_or(|end| *end >= from + WHILE)
    };
    let mut from = last;
    while from + WINDOW <= full {
        if quiet(from) && rate(from, from + WINDOW) >= before / 3.0 {
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
    // Nor would anything be wrong where everybody is turned away.
    if !orders
        .iter()
        .any(|order| matches!(order.answer, Answer::Sold(_)))
    {
        violations.push(format!(
            "nothing was sold to any of {} orders",
            orders.len()
        ));
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
    let began = faults.iter().map(|fault| fault.from).min();
    let ended = faults.iter().map(|fault| fault.to).max();
    if order.refused > 0 && !faults.iter().filter(killed).any(was_down) {
        return Some("a service that nobody had killed refused a connection");
    }
    match order.answer {
        Answer::SoldOut if order.product == SCARCE => None,
        Answer::SoldOut => Some("sold out, of a product of which there is enough"),
        Answer::Outage if began.is_none_or(|began| order.end() + MARGIN < began) => {
            Some("503, and nothing had been done to the nodes")
        }
        Answer::Outage if ended.is_some_and(|ended| order.end() > ended + SETTLED_WITHIN) => {
            Some("503, long after the last fault")
        }
        Answer::Missing if faults.iter().any(was_dying) => None,
        Answer::Missing => Some("no answer from a service that nobody had killed"),
        Answer::Refused => Some("no service listened"),
        Answer::Sold(_) | Answer::Busy | Answer::Outage => None,
        Answer::Wrong(_) => Some("a status that is neither 200, 409, 429 nor 503"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::plan;
    use std::path::PathBuf;

    const SECOND: Duration = Duration::from_secs(1);

    /// All customers are there from 5 s to 45 s. By the plan node 1 is killed at 9 s, service 2 is from 12.6 s to 15 s, and the
    /// last fault is over at 33 s.
    fn setting() -> Setting {
        Setting {
            vus: 1,
            hold: 40 * SECOND,
            products: 1,
            chaos: true,
            without_locks: false,
            to: PathBuf::new(),
        }
    }

    /// An order that was given and answered by the second service within a tenth of a second.
    fn order(millis: u64, answer: Answer) -> Order {
        Order {
            at: Duration::from_millis(millis).saturating_sub(SECOND / 10),
            took: SECOND / 10,
            user: 1,
            product: 1,
            answer,
            service: 1,
            refused: 0,
        }
    }

    /// Ten sold a second all the time, except where it is said otherwise.
    fn steady(otherwise: impl Fn(u64) -> Option<Answer>) -> Vec<Order> {
        let answers = (1..500).map(|tenth| tenth * 100);
        answers
            .map(|millis| order(millis, otherwise(millis).unwrap_or(Answer::Sold(1))))
            .collect()
    }

    fn found(orders: &[Order], faults: &[Fault]) -> Vec<String> {
        violations(&setting(), orders, faults)
    }

    fn planned() -> Vec<Fault> {
        plan(setting().ramp(), setting().hold)
    }

    #[track_caller]
    fn assert_one(orders: &[Order], faults: &[Fault], words: &str) {
        let found = found(orders, faults);
        assert!(
            matches!(&found[..], [one] if one.contains(words)),
            "{words}: {found:?}"
        );
    }

    /// What is answered once, in the middle of what is well.
    fn once(millis: u64, answer: Answer) -> Vec<Order> {
        steady(|at| (at == millis).then_some(answer))
    }

    #[test]
    fn without_faults_each_order_is_sold_or_busy() {
        assert_eq!(found(&once(20_000, Answer::Busy), &[]), [""; 0]);
        for (answer, words) in [
            (Answer::Outage, "503, and nothing had been done"),
            (Answer::Missing, "nobody had killed"),
            (Answer::Refused, "no service listened"),
            (Answer::SoldOut, "there is enough"),
            (Answer::Wrong(500), "a status"),
        ] {
            assert_one(&once(20_000, answer), &[], words);
        }
        let mut orders = once(20_000, Answer::SoldOut);
        for order in &mut orders {
            order.product = SCARCE;
        }
        assert_eq!(found(&orders, &[]), [""; 0]);
    }

    #[test]
    fn an_outage_is_answered_once_there_was_a_fault() {
        assert_eq!(found(&once(20_000, Answer::Outage), &planned()), [""; 0]);
        assert_one(&once(7000, Answer::Outage), &planned(), "503, and nothing");
    }

    #[test]
    fn an_answer_is_missing_only_of_the_service_that_was_killed_and_when_it_was() {
        assert_eq!(found(&once(12_700, Answer::Missing), &planned()), [""; 0]);
        for millis in [9000, 20_000] {
            assert_one(&once(millis, Answer::Missing), &planned(), "no answer");
        }
        let mut orders = once(12_700, Answer::Missing);
        for order in &mut orders {
            order.service = 0;
        }
        assert_one(&orders, &planned(), "no answer");
    }

    #[test]
    fn connections_are_refused_only_while_a_service_is_down() {
        let refused = |millis: u64| {
            let mut orders = once(millis, Answer::Sold(1));
            for order in &mut orders {
                order.refused = usize::from(order.end() == Duration::from_millis(millis));
            }
            orders
        };
        assert_eq!(found(&refused(14_000), &planned()), [""; 0]);
        for millis in [8000, 20_000] {
            assert_one(&refused(millis), &planned(), "refused a connection");
        }
        assert_one(&refused(14_000), &[], "refused a connection");
    }

    #[test]
    fn it_is_back_when_nobody_fails_any_more_and_enough_is_sold() {
        let back = |otherwise: fn(u64) -> Option<Answer>| {
            let recovery = recovery(&setting(), &steady(otherwise), &planned());
            recovery.expect("there were faults").back
        };
        assert_eq!(back(|_| None), Some(Duration::ZERO));
        // Once more after two seconds.
        let outage = back(|at| (at == 35_000).then_some(Answer::Outage));
        assert!(
            outage.is_some_and(|back| back.as_millis() == 2100),
            "{outage:?}"
        );
        // Busy for three seconds: 429 is allowed, and not all is well.
        let busy = back(|at| (33_000..36_000).contains(&at).then_some(Answer::Busy));
        assert!(
            busy.is_some_and(|back| (2 * SECOND..=3 * SECOND).contains(&back)),
            "{busy:?}"
        );
        assert_eq!(back(|at| (at > 33_000).then_some(Answer::Busy)), None);
        let fails = back(|at| (at > 33_000).then_some(Answer::Missing));
        assert_eq!(fails, None);
    }

    #[test]
    fn not_being_back_in_time_is_found() {
        let never = steady(|at| (at > 33_000).then_some(Answer::Busy));
        assert_one(&never, &planned(), "not back to normal before the end");
        let late = steady(|at| ((33_000..44_000).contains(&at)).then_some(Answer::Busy));
        assert_one(&late, &planned(), "after the last fault");
        let again = steady(|at| (at == 44_000).then_some(Answer::Outage));
        assert_one(&again, &planned(), "503, long after");
    }

    #[test]
    fn a_load_that_buys_nothing_shows_nothing() {
        let busy = steady(|_| Some(Answer::Busy));
        assert_one(&busy, &[], "nothing was sold to any of 499");
        assert_one(&[], &[], "nothing was sold to any of 0");
        assert_eq!(found(&once(100, Answer::Busy), &[]), [""; 0]);
    }

    #[test]
    fn a_quantile_is_the_longest_of_so_many() {
        let orders: Vec<_> = (1..=100)
            .map(|hundredth| Order {
                at: Duration::ZERO,
                took: SECOND * hundredth,
                ..order(0, Answer::Busy)
            })
            .collect();
        let stretch = Stretch::of(&orders, Duration::ZERO, Duration::MAX);
        let quantile = |permille| stretch.quantile(permille).map(|took| took.as_secs());
        assert_eq!(
            [500, 950, 990, 1000].map(quantile),
            [50, 95, 99, 100].map(Some)
        );
        assert_eq!(Stretch::default().quantile(500), None);
        assert_eq!(Stretch::of(&orders, 10 * SECOND, 20 * SECOND).all(), 10);
    }
}
