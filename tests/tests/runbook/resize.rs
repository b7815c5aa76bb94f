//! Other nodes for a service, process by process: every process that is left of the old list meets every one with the new.
//!
//! Whether two majorities meet is a matter of which nodes they are. So all ways are tried to have a lock with one list by the
//! smallest majority, and each time somebody with the other list asks for it.

use super::{LONG, abstention, impatient_process, occupy, process_with, started, vacate};
use futures_util::future::join_all;
use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, RedisServer, eventually_async};
use std::time::Duration;

const THREE: [usize; 3] = [0, 1, 2];
const FOUR: [usize; 4] = [0, 1, 2, 3];
const FIVE: [usize; 5] = [0, 1, 2, 3, 4];

/// How many ways there are, and in how many of them the lock was given to a second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ways {
    pub(super) tried: usize,
    pub(super) two_held: usize,
}

/// All sets of so many of the nodes.
fn choices(nodes: &[usize], size: usize) -> Vec<Vec<usize>> {
    let chosen = |bits: u32| {
        let chosen = nodes.iter().enumerate();
        let chosen = chosen.filter(move |(place, _)| bits & (1 << place) != 0);
        chosen.map(|(_, &node)| node).collect::<Vec<_>>()
    };
    let all = (0..1 << nodes.len()).map(chosen);
    all.filter(|chosen| chosen.len() == size).collect()
}

/// A process with the nodes `of` holds the lock on the smallest majority, and one with the nodes `by` asks for it. A majority
/// that a node is part of that is down is none.
pub(super) async fn ways_in(fleet: &Fleet, of: &[usize], by: &[usize]) -> Ways {
    let (holder, rival) = (process_with(fleet, of).await, process_with(fleet, by).await);
    let up = |node: &&usize| fleet.servers()[**node].is_running();
    let up: Vec<usize> = of.iter().filter(up).copied().collect();
    let majorities = choices(&up, of.len() / 2 + 1);
    let tried = majorities.iter().map(|majority| {
        let others = up.iter().filter(|node| !majority.contains(node));
        let others = others.map(|&node| &fleet.servers()[node]).collect();
        two_hold(&holder, &rival, others, format!("{of:?}{majority:?}"))
    });
    let outcomes = join_all(tried).await;
    Ways {
        tried: outcomes.len(),
        two_held: outcomes.into_iter().filter(|two| *two).count(),
    }
}

/// The holder has the lock everywhere but on `others`. Whether the rival is given it too.
async fn two_hold(
    holder: &LockManager,
    rival: &LockManager,
    others: Vec<&RedisServer>,
    key: String,
) -> bool {
    occupy(others.iter().copied(), &key);
    // Not renewed: a renewal would take it on the others as well.
    let request = holder.lock(&*key).ttl(LONG).extend(false);
    let lease = request.acquire().await;
    let lease = lease.unwrap_or_else(|error| panic!("{key}: {error}"));
    vacate(others, &key);
    let second = match rival.lock(&*key).ttl(LONG).acquire().await {
        Ok(second) => Some(second),
        Err(error) if error.is_busy() => None,
        Err(error) => panic!("{key}: neither held nor busy: {error}"),
    };
    assert!(!lease.is_lost(), "{key}: it took too long to show anything");
    lease.release().await.expect("it was held");
    let two = second.is_some();
    if let Some(second) = second {
        second.release().await.expect("it was held as well");
    }
    two
}

/// In whichever order processes are replaced, a holder may have either list.
pub(super) async fn ways_in_meanwhile(fleet: &Fleet, old: &[usize], new: &[usize]) -> [Ways; 2] {
    [
        ways_in(fleet, old, new).await,
        ways_in(fleet, new, old).await,
    ]
}

pub(super) const fn nobody_in(tried: usize) -> Ways {
    Ways { tried, two_held: 0 }
}

#[tokio::test]
async fn one_node_more_or_less_at_a_time_keeps_everybody_out() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let [three, four, five] = [nobody_in(3), nobody_in(4), nobody_in(10)];
    let first = ways_in_meanwhile(&fleet, &THREE, &FOUR).await;
    assert_eq!(first, [three, four]);
    let second = ways_in_meanwhile(&fleet, &FOUR, &FIVE).await;
    assert_eq!(second, [four, five]);
    fleet.assert_no_keys("*").await;
}

/// The danger that the steps are for.
#[tokio::test]
async fn from_three_nodes_to_five_at_once_two_hold_the_lock() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let [of_three, of_five] = ways_in_meanwhile(&fleet, &THREE, &FIVE).await;
    let two_held = |tried, two_held| Ways { tried, two_held };
    assert_eq!(of_three, two_held(3, 3), "the two without the third node");
    assert_eq!(of_five, two_held(10, 3), "the two new ones and an old one");
    fleet.assert_no_keys("*").await;
}

/// So the next step waits for the longest lease after the last process of the step before has gone.
#[tokio::test]
async fn what_a_process_that_has_gone_keeps_by_hold_at_least_is_seen_a_step_later_and_not_two() {
    let fleet = Fleet::start(5);
    fleet.found().await;
    let old = process_with(&fleet, &THREE).await;
    occupy([&fleet.servers()[2]], "cron");
    let job = old.lock("cron").ttl(LONG).hold_at_least(LONG);
    job.run(|_| async {}).await.expect("it is done");
    vacate([&fleet.servers()[2]], "cron");
    let left = old.shutdown(Duration::ZERO).await;
    assert_eq!(left.stopped, 0);
    drop(old);

    let next = process_with(&fleet, &FOUR).await;
    let again = next.lock("cron").ttl(LONG).acquire().await;
    assert!(again.is_err_and(|error| error.is_busy()), "it is kept");
    let after_next = process_with(&fleet, &FIVE).await;
    let again = after_next.lock("cron").ttl(LONG).acquire().await;
    let again = again.expect("done a second time, within hold_at_least");
    again.release().await.expect("released");
}

/// Of four nodes three must vote. While the new one is too young that is all of the old ones: so it is started in good time.
#[tokio::test]
async fn a_new_node_that_is_too_young_leaves_no_old_one_to_spare() {
    let max_ttl = Duration::from_secs(3);
    let fleet = Fleet::start(3);
    fleet.found().await;
    let new = RedisServer::start();
    let all = || fleet.servers().iter().chain([&new]);
    let locks = started(impatient_process(all(), max_ttl)).await;
    let request = || locks.lock("k").ttl(max_ttl);
    let lease = request().acquire().await.expect("three old nodes vote");
    lease.release().await.expect("released");

    fleet.servers()[0].kill();
    let error = request().acquire().await.expect_err("two of four vote");
    assert!(error.is_outage(), "{error}");
    assert!(abstention(&error, &new.name()).is_some(), "{error}");
    let begun = std::time::Instant::now();
    eventually_async(DEADLINE, "the new node votes", || async {
        request().acquire().await.map(|_| ())
    })
    .await;
    assert!(begun.elapsed() > max_ttl / 3, "{:?}", begun.elapsed());
}
