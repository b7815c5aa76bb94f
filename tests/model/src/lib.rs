//! A model of the protocol, checked exhaustively with [`stateright`]: whatever clients do, whatever is late, whatever
//! crashes, within the bounds of a [`Protocol`], nothing that was promised is broken.
//!
//! What decides in the product decides here too: the files `quorum.rs`, `validity.rs` and `fence.rs` are the product's.
//! The rest is written down a second time, as small as it can be: what the scripts do on a node (`node.rs`) and what a
//! client does (`client.rs`).
//!
//! # What is modelled
//!
//! - Three nodes, two or three clients, one lock. Where clients were given different lists of nodes, up to five. The time goes on in ticks, for ever; a TTL is two of them.
//! - A request is executed at any time after it was sent, and its answer is heard at any time after that, or never.
//!   Requests of one client to one node are executed in the order in which they were sent.
//! - A request for the lock may be lost on its way, while those behind it arrive: [`Protocol::losses`].
//! - A client may give up or release at any moment.
//! - A holder that is done may hand its claim over to the next holder of the same client, in one step and without a message:
//!   with its owner token and its deadline, and with the next fencing token of the block that was reserved. The last one
//!   releases.
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
//! - When a claim is handed over rather than released. All that is asked here is that its deadline is not over and its block
//!   is not used up.
//! - When something happens that makes no difference: the first yes of several that are alike is heard at once, and a
//!   release that finds nothing is executed at once.
//!
//! # What each rule is there for
//!
//! The tests take the rules away one by one, and show what happens then. Some are needed only under an assumption:
//!
//! - Fresh owner tokens for each attempt: because releases are told again. If each were sent once, behind its acquire, one token
//!   would do.
//! - The owner check where a fencing token is raised: always, also when deadlines are kept.
//! - Clocks matter for fencing tokens only after a crash: then they must not be apart by the longest TTL less the time that
//!   an acquire takes.
//! - Without deadlines that can be trusted, fencing tokens grow from one client to whoever asks after it was given its
//!   token. A client that hears of its lock too late may be given a smaller token than one that was given out meanwhile.
//!   So may whoever is handed its claim, however late he came to the line: what counts is when the claim was asked for.
//! - Looking at the deadline where a claim is handed over: for fencing tokens. Nobody believes in a claim whose deadline is
//!   over, as that goes with it; but its tokens are old.
//! - What a former holder's renewal comes to may count for the next holder or not.
//! - A block of fencing tokens is stored by its last, and accepted where less than its first was stored. What is proposed
//!   next begins behind its last only to save a round.
//! - Blocks end by the clock, or they add up where they are reserved faster than it goes on, and a crash leaves nothing to
//!   make up for it: [`Protocol::blocks_end_by_the_clock`]. Also with that, clocks must agree better by the length of a block.
//! - A renewal writes the last of the block. As long as nodes remember, or clocks agree, it might write anything. After a
//!   crash it makes up for what was forgotten, whatever the clocks say: [`Protocol::crashes_are_made_up_for`].

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
