//! What the tests of the promises stand on: real servers, faults between them and us, and a record of who was inside.
//!
//! - [`acl`]: users with the permissions that the README names
//! - [`server`]: one `redis-server` that a test starts, kills, pauses and restarts on its port
//! - [`http`]: asking a service
//! - [`inspect`]: what a server holds and what it was asked
//! - [`certificates`]: certificates for servers that speak TLS, and for their clients
//! - [`cancel`]: dropping a future at each of its awaits
//! - [`cron`]: replicas of the example `cron`, and what became of their ticks
//! - [`cluster`]: a Redis Cluster, whose slots move and whose primaries fail
//! - [`fake_sentinel`]: a Sentinel that says what a test has it say
//! - [`fleet`]: the nodes of a quorum, and what must be true on all of them
//! - [`prometheus`]: a Prometheus of a test's own
//! - [`proxy`]: a TCP proxy that refuses, swallows, delays and cuts
//! - [`recorder`]: who was inside when, in one process and across several
//! - [`logs`]: what the library logs
//! - [`payments`]: the example `payments` as a process that is killed and comes back
//! - [`port`]: a port that stays ours while nobody listens on it
//! - [`postgres`]: a Postgres server of a test's own
//! - [`processes`]: other processes that talk with a test line by line
//! - [`program`]: how the programs of `scripts` are called
//! - [`remains`]: what is left of an operation: keys, tasks, connections
//! - [`sentinel`]: groups of a primary and its replicas, and the Sentinels that watch over them
//! - [`version`]: what differs between servers
//! - [`wait`]: waiting for a condition, with a deadline
//! - [`wall_clock`]: the wall clock of another process, set while it runs
//!
//! Everything here panics when it cannot do what was asked: in a test that is the report.

pub mod acl;
pub mod cancel;
pub mod certificates;
pub mod cluster;
pub mod cron;
pub mod fake_sentinel;
pub mod fleet;
pub mod http;
pub mod inspect;
mod leash;
pub mod logs;
pub mod payments;
pub mod port;
pub mod postgres;
pub mod processes;
pub mod program;
pub mod prometheus;
pub mod proxy;
pub mod recorder;
pub mod remains;
pub mod sentinel;
pub mod server;
pub mod version;
pub mod wait;
pub mod wall_clock;

pub use cancel::dropped_after;
pub use certificates::{Authority, Certificate};
pub use cluster::Cluster;
pub use fake_sentinel::FakeSentinel;
pub use fleet::{Fleet, cycle, ready};
pub use payments::Payments;
pub use postgres::Postgres;
pub use proxy::{Mode, Proxy};
pub use recorder::Recorder;
pub use remains::Site;
pub use sentinel::Watched;
pub use server::{Disk, RedisServer};
pub use wait::{DEADLINE, eventually, eventually_async, eventually_blocking, stays};
pub use wall_clock::WallClock;

/// The README's code compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So does what this page sets up.
#[cfg(doctest)]
#[doc = include_str!("../../docs/telemetry.md")]
struct Telemetry;
