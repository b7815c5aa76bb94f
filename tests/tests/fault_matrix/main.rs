//! Every fault in every phase, on one, three and five nodes.
//!
//! [`faults`] is the table: what can go wrong with a node, and what is expected of it. Each of its rows is a test for each
//! phase; there is no other list. With a minority of faulty nodes everything has to work, whatever the fault. With a
//! majority it has to end as the table says, in time, in words that say what is wrong with which node. Afterwards the same
//! manager works again, and nothing is left behind. `docs/faults.md` is made from the table, and from what was measured:
//! see [`page`].

mod break_node;
mod cell;
mod fault;
mod faults;
mod logs;
mod page;
mod phases;
mod silent;
mod stub;
