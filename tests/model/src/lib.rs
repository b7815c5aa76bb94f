//! A model of the protocol, checked exhaustively with [`stateright`]: whatever clients do, whatever is late, whatever
//! crashes, within the bounds of a [`Protocol`], nothing that was promised is broken.
//!
//! What decides in the product decides here too: the files `quorum.rs`, `validity.rs` and `fence.rs` are the product's.
//! The rest is written down a second time, as small as it can be: what the scripts do on a node (`node.rs`) and what a
//! client does (`client.rs`).
//!
//! # What is modelled
//!
//! - Three nodes, two or three clients, one lock. The time goes on in ticks, for ever; a TTL is two of them.
//! - A request is executed at any time after it was sent, and its answer is heard at any time after that, or never.
//!   Requests of one client to one node are executed in the order in which they were sent.
//! - A client may give up or release at any moment.
//! - A release may be told again at any later time, as to a node that did not confirm it.
//! - A crash takes all that a node knows. Requests to it are lost, or were not sent yet and are sent afterwards. Answers
//!   that it gave before may still be heard.
//!
//! # What is not
//!
//! - Clocks of clients and nodes run at the same speed, so the allowance for drift is never needed. Where that is
//!   doubted, deadlines are not trusted at all: [`Protocol::deadlines`].
//! - A crashed node is back at once: being down is the same as its requests being late.
//! - That a lock ends with its TTL: it is what a node of the model does. What is checked is that a lock is on a node only
//!   while an attempt uses it or a release of it is on its way.
//! - Who is in the way. A client that is told "busy" gives up; that nobody would run is not a matter of safety.
//! - A request that is still executed after its connection broke and the next one was made.
//!
//! # What each rule is there for
//!
//! The tests take the rules away one by one, and show what happens then. Some are needed only under an assumption:
//!
//! - Fresh tokens for each attempt: because releases are told again. If each were sent once, behind its acquire, one token
//!   would do.
//! - The owner check where a fencing token is raised: always, also when deadlines are kept.
//! - Clocks matter for fencing tokens only after a crash: then they must not be apart by the longest TTL less the time that
//!   an acquire takes.
//! - Without deadlines that can be trusted, fencing tokens grow from one client to whoever asks after it was given its
//!   token. A client that hears of its lock too late may be given a smaller token than one that was given out meanwhile.

#[allow(
    dead_code,
    reason = "the product's file, of which the model needs a part"
)]
#[path = "../../../lock-runtime/src/redlock/fence.rs"]
mod fence;
#[allow(
    dead_code,
    reason = "the product's file, of which the model needs a part"
)]
#[path = "../../../lock-runtime/src/redlock/quorum.rs"]
mod quorum;
#[path = "../../../lock-runtime/src/redlock/validity.rs"]
mod validity;

pub mod check;
mod client;
mod message;
mod model;
mod node;
mod protocol;
mod state;

pub use model::{FENCES_GROW, NO_RETURN, NOTHING_LEFT, ONE_HOLDER};
pub use protocol::{Flaw, Protocol};
