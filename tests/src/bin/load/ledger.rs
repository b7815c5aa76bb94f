//! What the database says after the load, next to what the customers were told.
//!
//! A checkout reads the stock, writes one less, and notes the sale with the stock that it left. So while one at a time does it:
//!
//! - Each sale of a product left another stock: no two sold the same piece. Nor did one order buy twice.
//! - Each left a stock between what is there now and what was there at first: nobody raised it again, and nobody sold what there
//!   was not.
//! - What is gone was sold, except for a body that was stopped between its two writes: one piece less and no sale. It is one
//!   whose process was killed, so its customer has no answer, or whose lease was lost, which the service logged. So at most that
//!   many pieces are missing, and there is never a sale for which no piece is gone.
//! - Who was told 200 has his sale, at the stock that he was told; who was told anything else has none, with the same two
//!   exceptions. Every sale was ordered.

use crate::orders::{Answer, Order};
use lock_tests::Postgres;
use std::collections::{BTreeMap, BTreeSet};

/// What is in the database.
#[derive(Debug)]
pub(crate) struct Books {
    /// By product.
    pub(crate) stock: BTreeMap<i64, i64>,
    pub(crate) sales: Vec<Sale>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sale {
    pub(crate) product: i64,
    pub(crate) user: i64,
    /// What it left.
    pub(crate) stock: i64,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) sold: usize,
    /// Of all products together.
    pub(crate) stock: i64,
    /// Sales of a piece, or to an order, of which there is an earlier sale.
    pub(crate) duplicates: usize,
    /// Pieces that are gone and not sold.
    pub(crate) half_done: i64,
    /// Orders without an answer that were sold.
    pub(crate) sold_unanswered: usize,
    pub(crate) violations: Vec<String>,
}

impl Books {
    /// Asks the database, after everybody has gone.
    pub(crate) fn read(database: &Postgres) -> Self {
        let rows = |statement: &str| -> Vec<Vec<i64>> {
            let numbers = |line: &str| line.split('|').map(str::parse).collect();
            let answer = database.query(statement);
            let rows: Result<_, _> = answer.lines().map(numbers).collect();
            rows.unwrap_or_else(|error| panic!("{statement}: {error}"))
        };
        let stock = rows("SELECT id, stock FROM products");
        let sales = rows("SELECT product_id, user_id, stock FROM sales ORDER BY sold_at");
        let sale = |row: &Vec<i64>| Sale {
            product: row[0],
            user: row[1],
            stock: row[2],
        };
        Self {
            stock: stock.iter().map(|row| (row[0], row[1])).collect(),
            sales: sales.iter().map(sale).collect(),
        }
    }
}

/// Compares. `initial` is the stock that each product had, `lost` how many bodies were stopped because their lease was lost.
pub(crate) fn compare(
    initial: &BTreeMap<i64, i64>,
    books: &Books,
    orders: &[Order],
    lost: usize,
) -> Comparison {
    let mut comparison = Comparison {
        sold: books.sales.len(),
        stock: books.stock.values().sum(),
        ..Comparison::default()
    };
    comparison.add_up(initial, books);
    comparison.look_for_duplicates(&books.sales);
    comparison.look_at_levels(initial, books);
    comparison.look_at_orders(&books.sales, orders, lost);
    let unknown = count(orders, |order| order.answer == Answer::Missing) + lost;
    if comparison.half_done > i64::try_from(unknown).unwrap_or(i64::MAX) {
        comparison.violations.push(format!(
            "{} pieces are gone and not sold, and only {unknown} orders can have been stopped half-way",
            comparison.half_done
        ));
    }
    comparison
}

pub(crate) fn count(orders: &[Order], is: impl Fn(&Order) -> bool) -> usize {
    orders.iter().filter(|order| is(order)).count()
}

impl Comparison {
    fn look_for_duplicates(&mut self, sales: &[Sale]) {
        let mut pieces = BTreeMap::new();
        let mut buyers = BTreeMap::new();
        for sale in sales {
            let Sale {
                product,
                user,
                stock,
            } = *sale;
            let first = pieces.insert((product, stock), user);
            let bought = buyers.insert(user, stock);
            if let Some(first) = first {
                self.violations.push(format!(
                    "duplicate: the piece of product {product} that left {stock} was sold to {first} and to {user}"
                ));
            }
            if let Some(bought) = bought {
                self.violations.push(format!(
                    "duplicate: order {user} was sold twice, leaving {bought} and {stock}"
                ));
            }
            self.duplicates += usize::from(first.is_some() || bought.is_some());
        }
    }

    fn add_up(&mut self, initial: &BTreeMap<i64, i64>, books: &Books) {
        let mut sold = BTreeMap::new();
        for sale in &books.sales {
            *sold.entry(sale.product).or_insert(0) += 1;
        }
        for (product, had) in initial {
            let Some(has) = books.stock.get(product) else {
                self.violations.push(format!("product {product} is gone"));
                continue;
            };
            let sold = sold.get(product).copied().unwrap_or(0);
            let missing = had - has - sold;
            if missing < 0 {
                self.violations.push(format!(
                    "product {product} had {had}, has {has}, and was sold {sold} times: {} too often",
                    -missing
                ));
            } else {
                self.half_done += missing;
            }
        }
    }

    fn look_at_levels(&mut self, initial: &BTreeMap<i64, i64>, books: &Books) {
        for sale in &books.sales {
            let Sale {
                product,
                user,
                stock,
            } = sale;
            let (had, has) = (initial.get(product), books.stock.get(product));
            if *stock < 0 || had.is_none_or(|had| stock >= had) {
                self.violations.push(format!(
                    "product {product} had {had:?}, and a sale to {user} left {stock}"
                ));
            } else if has.is_some_and(|has| stock < has) {
                self.violations.push(format!(
                    "product {product} has {has:?}, and a sale to {user} had left {stock}"
                ));
            }
        }
    }

    fn look_at_orders(&mut self, sales: &[Sale], orders: &[Order], lost: usize) {
        let by_user: BTreeMap<i64, Sale> = sales.iter().map(|sale| (sale.user, *sale)).collect();
        let mut sold_and_refused = 0;
        for order in orders {
            let Order {
                user,
                product,
                answer,
                ..
            } = order;
            match (answer, by_user.get(user)) {
                (_, Some(sale)) if sale.product != *product => self.violations.push(format!(
                    "order {user} was for product {product}, and {} was sold",
                    sale.product
                )),
                (Answer::Sold(left), Some(sale)) if sale.stock == *left => {}
                (Answer::Sold(left), found) => self.violations.push(format!(
                    "order {user} was told that it left {left} of product {product}, and there is {found:?}"
                )),
                (Answer::Missing, Some(_)) => self.sold_unanswered += 1,
                (Answer::Outage, Some(_)) => sold_and_refused += 1,
                (_, Some(_)) => self.violations.push(format!(
                    "order {user} was told {answer:?}, and was sold"
                )),
                (_, None) => {}
            }
        }
        if sold_and_refused > lost {
            self.violations.push(format!(
                "{sold_and_refused} orders were told 503 and were sold, and only {lost} leases were lost"
            ));
        }
        let ordered: BTreeSet<i64> = orders.iter().map(|order| order.user).collect();
        for user in by_user.keys().filter(|user| !ordered.contains(user)) {
            self.violations
                .push(format!("nobody gave order {user}, which was sold"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PRODUCT: i64 = 9921;

    fn order(user: i64, answer: Answer) -> Order {
        Order {
            at: Duration::ZERO,
            took: Duration::ZERO,
            user,
            product: PRODUCT,
            answer,
            service: 0,
            refused: 0,
        }
    }

    /// Ten pieces, sales of a user and what he left, what there is now; everybody else was told what is said here.
    fn compared(sales: &[(i64, i64)], stock: i64, others: &[Order], lost: usize) -> Comparison {
        let told = sales
            .iter()
            .map(|(user, left)| order(*user, Answer::Sold(*left)));
        // Who is among the others was not told 200.
        let told = told.filter(|told| others.iter().all(|other| other.user != told.user));
        let orders: Vec<_> = told.chain(others.iter().cloned()).collect();
        let sale = |(user, stock): &(i64, i64)| Sale {
            product: PRODUCT,
            user: *user,
            stock: *stock,
        };
        let books = Books {
            stock: BTreeMap::from([(PRODUCT, stock)]),
            sales: sales.iter().map(sale).collect(),
        };
        compare(&BTreeMap::from([(PRODUCT, 10)]), &books, &orders, lost)
    }

    #[track_caller]
    fn assert_found(comparison: &Comparison, duplicates: usize, words: &[&str]) {
        assert_eq!(comparison.duplicates, duplicates, "{comparison:?}");
        let found = &comparison.violations;
        assert_eq!(found.len(), words.len(), "{comparison:?}");
        for word in words {
            assert!(
                found.iter().any(|line| line.contains(word)),
                "{word}: {comparison:?}"
            );
        }
    }

    #[test]
    fn one_after_the_other_adds_up() {
        let others = [
            order(3, Answer::Busy),
            order(4, Answer::Outage),
            order(5, Answer::Missing),
        ];
        let comparison = compared(&[(1, 9), (2, 8)], 8, &others, 0);
        assert_found(&comparison, 0, &[]);
        assert_eq!(
            (comparison.sold, comparison.stock, comparison.half_done),
            (2, 8, 0)
        );
    }

    #[test]
    fn a_piece_that_was_sold_twice_is_found() {
        // Both read ten: a lost update.
        assert_found(
            &compared(&[(1, 9), (2, 9)], 9, &[], 0),
            1,
            &["sold to 1 and to 2", "1 too often"],
        );
        // A third one went on in between, and the late one put the stock back.
        assert_found(
            &compared(&[(1, 9), (2, 8), (3, 9)], 9, &[], 0),
            1,
            &["sold to 1 and to 3", "sale to 2 had left 8", "2 too often"],
        );
    }

    #[test]
    fn an_order_that_was_sold_twice_is_found() {
        let comparison = compared(&[(1, 9), (1, 8)], 8, &[order(1, Answer::Sold(8))], 0);
        assert_found(&comparison, 1, &["order 1 was sold twice"]);
    }

    #[test]
    fn more_than_there_was_is_found() {
        let all: Vec<_> = (0..=10).map(|user| (user, 9 - user)).collect();
        assert_found(&compared(&all, -1, &[], 0), 0, &["a sale to 10 left -1"]);
        assert_found(
            &compared(&all, 0, &[], 0),
            0,
            &["a sale to 10 left -1", "1 too often"],
        );
        assert_found(
            &compared(&[(1, 10)], 10, &[], 0),
            0,
            &["a sale to 1 left 10", "1 too often"],
        );
    }

    #[test]
    fn a_piece_may_be_missing_for_an_order_that_has_no_answer_or_whose_lease_was_lost() {
        let sales = [(1, 9), (2, 7)];
        assert_found(&compared(&sales, 7, &[], 0), 0, &["1 pieces are gone"]);
        assert_found(
            &compared(&sales, 7, &[order(3, Answer::Busy)], 0),
            0,
            &["1 pieces are gone"],
        );
        // Its body has not run.
        assert_found(
            &compared(&sales, 7, &[order(3, Answer::Outage)], 0),
            0,
            &["1 pieces are gone"],
        );
        for (answer, lost) in [(Answer::Missing, 0), (Answer::Outage, 1)] {
            let comparison = compared(&sales, 7, &[order(3, answer)], lost);
            assert_found(&comparison, 0, &[]);
            assert_eq!(comparison.half_done, 1);
        }
        // The last one: its stock is there, and no later sale.
        assert_found(
            &compared(&sales, 6, &[order(3, Answer::Missing)], 0),
            0,
            &["2 pieces are gone"],
        );
    }

    #[test]
    fn what_was_said_is_what_is_there() {
        for answer in [
            Answer::Busy,
            Answer::SoldOut,
            Answer::Refused,
            Answer::Wrong(500),
        ] {
            assert_found(
                &compared(&[(1, 9)], 9, &[order(1, answer)], 0),
                0,
                &["and was sold"],
            );
        }
        let comparison = compared(&[(1, 9)], 9, &[order(1, Answer::Missing)], 0);
        assert_found(&comparison, 0, &[]);
        assert_eq!(comparison.sold_unanswered, 1);
        let outage = [order(1, Answer::Outage)];
        assert_found(&compared(&[(1, 9)], 9, &outage, 1), 0, &[]);
        assert_found(
            &compared(&[(1, 9)], 9, &outage, 0),
            0,
            &["1 orders were told 503"],
        );
        assert_found(
            &compared(&[], 10, &[order(1, Answer::Sold(9))], 0),
            0,
            &["order 1 was told that it left 9"],
        );
        assert_found(
            &compared(&[(1, 9)], 9, &[order(1, Answer::Sold(8))], 0),
            0,
            &["order 1 was told that it left 8"],
        );
    }

    #[test]
    fn a_sale_that_nobody_ordered_is_found() {
        let books = Books {
            stock: BTreeMap::from([(PRODUCT, 9)]),
            sales: vec![Sale {
                product: PRODUCT,
                user: 1,
                stock: 9,
            }],
        };
        let comparison = compare(&BTreeMap::from([(PRODUCT, 10)]), &books, &[], 0);
        assert_found(&comparison, 0, &["nobody gave order 1"]);
    }

    /// The tables as the example makes them, with a double sale made by hand.
    #[test]
    fn the_database_is_read_as_it_is() {
        let database = Postgres::start();
        database.query("CREATE TABLE products (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL)");
        database.query(
            "CREATE TABLE sales (product_id BIGINT NOT NULL, user_id BIGINT NOT NULL, stock BIGINT NOT NULL, \
             sold_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
        );
        database.query("INSERT INTO products VALUES (9921, 8), (1, 5)");
        database.query("INSERT INTO sales VALUES (9921, 1, 9), (9921, 2, 8), (9921, 3, 8)");
        let orders = [(1, 9), (2, 8), (3, 8)].map(|(user, left)| order(user, Answer::Sold(left)));
        let initial = BTreeMap::from([(9921, 10), (1, 5)]);
        let comparison = compare(&initial, &Books::read(&database), &orders, 0);
        assert_found(&comparison, 1, &["was sold to 2 and to 3", "1 too often"]);
        assert_eq!((comparison.sold, comparison.stock), (3, 13));
    }
}
