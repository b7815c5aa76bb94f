//! Measuring side by side: in one run, on the same servers, in turns, so that a machine that is slow for a while is slow for
//! all.
//!
//! - [`mod@side_by_side`]: cycles that are counted beforehand, of contenders that are closures
//! - [`locker`]: this library and its peers behind one trait
//! - [`cycles`]: keys that nobody else wants; [`crowd`]: a key that everybody wants; [`replicas`]: from several processes
//! - [`inside`]: who is in the critical section; [`servers`]: what the servers were asked, and what is left on them
//! - [`figures`], [`report`]: medians, and tables that say whether an aim is met
//! - [`mod@machine`]: where this ran

pub mod crowd;
pub mod cycles;
pub mod figures;
pub mod inside;
pub mod locker;
pub mod machine;
pub mod replicas;
pub mod report;
pub mod servers;
pub mod side_by_side;

pub use machine::machine;
pub use side_by_side::{Contender, Cycle, Measured, side_by_side, table};
