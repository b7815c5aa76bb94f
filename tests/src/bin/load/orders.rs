//! What was ordered and what was answered, as deploy/k6/checkout.js writes it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One order of one customer. Nobody orders twice.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Since the load began.
    pub(crate) at: Duration,
    /// Until the answer, refused connections included.
    pub(crate) took: Duration,
    pub(crate) user: i64,
    pub(crate) product: i64,
    pub(crate) answer: Answer,
    /// The service that was asked last, from 0.
    pub(crate) service: usize,
    /// How many others had refused the connection before.
    pub(crate) refused: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// 200, and so much is left.
    Sold(i64),
    /// 409.
    SoldOut,
    /// 429.
    Busy,
    /// 503.
    Outage,
    /// None: the connection ended, or the customer's patience. It may have been sold.
    Missing,
    /// None, as nobody listened: k6's code for that.
    Refused,
    /// A status that a shop must not answer.
    Wrong(u16),
}

/// k6's code for a connection that was refused.
const REFUSED: u32 = 1212;

impl Order {
    /// When it was over.
    pub(crate) fn end(&self) -> Duration {
        self.at + self.took
    }
}

/// The orders among the lines, oldest answer first. What else was written is let pass; an order that cannot be read is an error.
pub(crate) fn read(lines: &str, began: SystemTime) -> Result<Vec<Order>, String> {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let orders = lines
        .lines()
        .filter_map(|line| line.strip_prefix("order "))
        .map(|line| order(line, began).ok_or_else(|| format!("not an order: {line}")));
    let mut orders = orders.collect::<Result<Vec<_>, _>>()?;
    orders.sort_by_key(Order::end);
    Ok(orders)
}

fn order(line: &str, began: Duration) -> Option<Order> {
    let words: Vec<&str> = line.split(' ').collect();
    let [
        at,
        took,
        user,
        product,
        status,
        stock,
        service,
        refused,
        error,
    ] = words[..]
    else {
        return None;
    };
    let answer = match (status.parse().ok()?, error.parse().ok()?) {
        (200, _) => Answer::Sold(stock.parse().ok()?),
        (409, _) => Answer::SoldOut,
        (429, _) => Answer::Busy,
        (503, _) => Answer::Outage,
        (0, REFUSED) => Answer::Refused,
        (0, _) => Answer::Missing,
        (status, _) => Answer::Wrong(status),
    };
    Some(Order {
        at: Duration::from_millis(at.parse().ok()?).checked_sub(began)?,
        took: Duration::from_millis(took.parse().ok()?),
        user: user.parse().ok()?,
        product: product.parse().ok()?,
        answer,
        service: service.parse().ok()?,
        refused: refused.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Vec<Order>, String> {
        super::read(lines, UNIX_EPOCH + Duration::from_secs(1))
    }

    #[test]
    fn each_answer_is_known() {
        let lines = "order 1000 90 7 9921 200 41 0 0 0\n\
                     something else\n\
                     order 1010 9 8 9921 409 - 1 1 1409\n\
                     order 1020 50 9 1 429 - 0 0 1429\n\
                     order 1030 50 10 1 503 - 0 0 1503\n\
                     order 1040 50 11 1 0 - 0 0 1220\n\
                     order 1050 50 12 1 0 - 1 1 1212\n\
                     order 1060 50 13 1 500 - 0 0 1500\n";
        let orders = read(lines).expect("all are orders");
        let answers: Vec<_> = orders
            .iter()
            .map(|order| (order.user, order.answer))
            .collect();
        assert_eq!(
            answers,
            [
                (8, Answer::SoldOut),
                (9, Answer::Busy),
                (10, Answer::Outage),
                (7, Answer::Sold(41)),
                (11, Answer::Missing),
                (12, Answer::Refused),
                (13, Answer::Wrong(500)),
            ]
        );
        let first = &orders[0];
        assert_eq!((first.service, first.refused), (1, 1));
        assert_eq!(first.end(), Duration::from_millis(19));
    }

    #[test]
    fn half_a_line_is_an_error() {
        for line in [
            "order 1000 90 7 9921 200 41 0 0",
            "order 1000 90 7 9921 200 - 0 0 0",
            "order 999 90 7 9921 429 - 0 0 0",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
