//! Running a check to its end, and saying what it saw.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::Clients;
use crate::protocol::Protocol;

/// Visits every state that `C` clients can reach. Panics if a promise is broken in one of them, if what is to happen
/// somewhere happens nowhere, or if there are fewer states than expected.
///
/// Depth first, as that takes the least memory.
pub fn exhaustive<const C: usize>(protocol: Protocol, at_least: usize) {
    exhaustive_of::<C, 3>(protocol, at_least);
}

/// [`exhaustive`] with `N` nodes.
pub fn exhaustive_of<const C: usize, const N: usize>(protocol: Protocol, at_least: usize) {
    let started = Instant::now();
    let found = Clients::<C, N>::new(protocol)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_dfs()
        .join();
    println!(
        "{C} clients, {N} nodes, {protocol:?}: {} states, {} steps, depth {}, in {:.1?}",
        found.unique_state_count(),
        found.state_count(),
        found.max_depth(),
        started.elapsed()
    );
    found.assert_properties();
    assert!(
        found.unique_state_count() >= at_least,
        "only {} states",
        found.unique_state_count()
    );
}

/// Looks for a state in which the promise is broken, and prints the way there. Panics if there is none.
///
/// Breadth first, so that the way is the shortest. Nodes, and clients that are alike, are numbered anew at every step, as
/// their order is of no interest.
pub fn breaks<const C: usize>(promise: &'static str, protocol: Protocol) {
    breaks_of::<C, 3>(promise, protocol);
}

/// [`breaks`] with `N` nodes.
pub fn breaks_of<const C: usize, const N: usize>(promise: &'static str, protocol: Protocol) {
    let started = Instant::now();
    let found = Clients::<C, N>::new(protocol)
        .checker()
        .finish_when(HasDiscoveries::AllOf([promise].into()))
        .spawn_bfs()
        .join();
    println!(
        "{C} clients, {N} nodes, {protocol:?}: {} states, depth {}, in {:.1?}",
        found.unique_state_count(),
        found.max_depth(),
        started.elapsed()
    );
    let way = found
        .discovery(promise)
        .unwrap_or_else(|| panic!("unbroken: {promise}"));
    let way = way.into_actions();
    println!("{promise} is broken in {} steps: {way:?}", way.len());
}
