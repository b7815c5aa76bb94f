//! A node that restarts may have forgotten what it granted: it has no vote until no lease can be left that it forgot.
//!
//! The nodes are killed, and come back without their data or with what an append-only file has.

use lock_runtime::{LockError, LockManager, Vote};
use lock_tests::fleet::{MARKER, voted_in};
use lock_tests::server::Options;
use lock_tests::{
    DEADLINE, Disk, Fleet, Mode, Recorder, RedisServer, eventually, eventually_async, ready,
};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

/// The longest lease, and so long a node that restarted is kept out.
const MAX_TTL: Duration = Duration::from_secs(4);

/// Longer than any test takes.
const FOREIGN: &str = "60000";

/// What a node has of its data when it is back.
#[derive(Clone, Copy, Debug)]
enum Persistence {
    Off,
    EverySecond,
    Always,
}

impl Persistence {
    fn options(self) -> Options {
        let options = RedisServer::options();
        match self {
            Self::Off => options,
            Self::EverySecond => options.append_only("everysec"),
            Self::Always => options.append_only("always"),
        }
    }

    fn disk(self) -> Disk {
        match self {
            Self::Off => Disk::Lose,
            Self::EverySecond | Self::Always => Disk::Keep,
        }
    }

    /// Five nodes that have been used.
    async fn fleet(self) -> Fleet {
        let fleet = Fleet::of((0..5).map(|_| self.options())).behind_proxies();
        fleet.found().await;
        fleet
    }
}

/// A manager that is connected: what follows is about votes, not about connecting.
async fn manager(fleet: &Fleet) -> LockManager {
    let builder = fleet.builder().max_ttl(MAX_TTL);
    let locks = builder.node_timeout(MAX_TTL / 4).build().unwrap();
    ready(&locks).await;
    locks
}

/// Somebody else's key on some nodes, for longer than the test takes.
fn occupy(servers: &[RedisServer], key: &str) {
    for server in servers {
        let _: String = server.command(&["SET", key, "somebody", "PX", FOREIGN]);
    }
}

fn vacate(servers: &[RedisServer], key: &str) {
    for server in servers {
        assert_eq!(server.get(key).as_deref(), Some("somebody"));
        let _: u64 = server.command(&["DEL", key]);
    }
}

/// For how much longer that node has no vote, as an error says.
fn abstention(error: &LockError, node: &str) -> Option<Duration> {
    let mut votes = error.votes().iter();
    let vote = votes.find(|vote| vote.node() == node)?;
    match vote.vote() {
        Vote::Abstains(left) => {
            let text = vote.to_string();
            assert!(text.contains("and has no vote for another"), "{text}");
            Some(*left)
        }
        _ => None,
    }
}

/// A server tells its age in whole seconds of the wall clock, so one that is started at the end of a second soon seems
/// older than it is by nearly one. Waits for such a moment.
async fn the_end_of_a_second() {
    eventually(DEADLINE, "the end of a second", || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        (700..750).contains(&now.unwrap().subsec_millis())
    })
    .await;
}

fn about<T: redis::FromRedisValue>(server: &RedisServer, what: &str) -> Option<T> {
    let info: redis::InfoDict = server.command(&["INFO", "server"]);
    info.get(what)
}

/// A client that connects only now takes the server to be older than the clients that were there.
async fn seems_older(server: &RedisServer) {
    eventually(DEADLINE, "a new second has begun", || {
        about::<u64>(server, "uptime_in_seconds") > Some(0)
    })
    .await;
}

/// Knows its present life, which it does once a manager has found that it votes.
fn remembers_this_life(server: &RedisServer) -> bool {
    let run_id: Option<String> = about(server, "run_id");
    run_id.is_some() && voted_in(server) == run_id
}

async fn a_rival_waits_until_the_lease_is_over(persistence: Persistence) {
    let fleet = persistence.fleet().await;
    let (c, d_and_e) = (&fleet.servers()[2], &fleet.servers()[3..]);
    let holder = manager(&fleet).await;
    occupy(d_and_e, "k");
    the_end_of_a_second().await;
    let request = holder.lock("k").ttl(MAX_TTL).extend(false);
    let lease = request.acquire().await.expect("free on A, B and C");
    c.kill();
    vacate(d_and_e, "k");
    c.restart(persistence.disk()).await;
    seems_older(c).await;

    let rival = manager(&fleet).await;
    let (mut waited, begun) = (Vec::new(), Instant::now());
    let granted = loop {
        match rival.lock("k").ttl(MAX_TTL).acquire().await {
            Ok(granted) => break granted,
            Err(error) => {
                waited.extend(abstention(&error, &fleet.proxies()[2].name()));
                assert!(begun.elapsed() < DEADLINE, "nobody ever gets it: {error}");
            }
        }
    };
    assert!(
        lease.is_lost(),
        "{persistence:?}: a rival has it and the holder for another {:?}",
        lease.remaining()
    );

    let first = *waited.first().expect("C had no vote at first");
    assert!((MAX_TTL / 2..=MAX_TTL + Duration::from_secs(1)).contains(&first));
    assert!(waited.is_sorted_by(|one, next| one >= next), "{waited:?}");
    granted.release().await.expect("released");
    drop(lease);
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_rival_waits_until_the_lease_is_over_that_an_empty_node_forgot() {
    a_rival_waits_until_the_lease_is_over(Persistence::Off).await;
}

#[tokio::test]
async fn a_rival_waits_until_the_lease_is_over_that_is_on_disk() {
    a_rival_waits_until_the_lease_is_over(Persistence::Always).await;
}

#[tokio::test]
async fn a_rival_waits_until_the_lease_is_over_that_may_be_on_disk() {
    a_rival_waits_until_the_lease_is_over(Persistence::EverySecond).await;
}

/// The vote that decides is C's alone, and it does not come a moment before the longest lease is over.
#[tokio::test]
async fn the_vote_comes_back_when_the_longest_lease_is_over_and_not_before() {
    for persistence in [Persistence::Off, Persistence::EverySecond] {
        let fleet = persistence.fleet().await;
        let there = manager(&fleet).await;
        occupy(&fleet.servers()[..2], "k");
        the_end_of_a_second().await;
        fleet.servers()[2].kill();
        let killed = Instant::now();
        fleet.servers()[2].restart(persistence.disk()).await;
        seems_older(&fleet.servers()[2]).await;
        let late = manager(&fleet).await;
        let request = |locks: &LockManager| locks.lock("k").ttl(MAX_TTL).wait(DEADLINE).acquire();
        let (lease, who) = tokio::select! {
            lease = request(&there) => (lease, "was there"),
            lease = request(&late) => (lease, "came later"),
        };
        let lease = lease.expect("C, D and E sooner or later");
        let kept_out = killed.elapsed();
        assert!(
            kept_out >= MAX_TTL,
            "{persistence:?}: for a client that {who} it voted {kept_out:?} after it had been killed"
        );
        lease.release().await.expect("released");
    }
}

async fn the_next_renewal_puts_the_lock_back(persistence: Persistence) {
    let fleet = persistence.fleet().await;
    let d_and_e = &fleet.servers()[3..];
    let holder = manager(&fleet).await;
    occupy(d_and_e, "k");
    let lease = holder.lock("k").ttl(MAX_TTL).acquire().await;
    let lease = lease.expect("free on A, B and C");
    let token = fleet.servers()[0].get("k");
    fleet.servers()[2].kill();
    vacate(d_and_e, "k");
    fleet.servers()[2].restart(persistence.disk()).await;
    let rival = manager(&fleet).await;
    let waiting = tokio::spawn(rival.lock("k").ttl(MAX_TTL).wait_forever().acquire());

    eventually(DEADLINE, "the lock is back on all nodes", || {
        let values = fleet.values("k");
        if values.iter().all(|value| *value == token) {
            Ok(())
        } else {
            Err(format!("{values:?}, not {token:?}"))
        }
    })
    .await;
    eventually(DEADLINE, "C has its vote back", || {
        remembers_this_life(&fleet.servers()[2])
    })
    .await;
    assert!(!lease.is_lost());
    assert!(!waiting.is_finished(), "the rival has been granted");
    assert_eq!(holder.stats().lost, 0);
    lease.release().await.expect("still ours on a majority");
    let lease = waiting.await.unwrap().expect("it was released");
    lease.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn the_next_renewal_puts_the_lock_back_on_an_empty_node() {
    the_next_renewal_puts_the_lock_back(Persistence::Off).await;
}

#[tokio::test]
async fn the_next_renewal_reaches_a_node_that_came_back_with_its_data() {
    the_next_renewal_puts_the_lock_back(Persistence::EverySecond).await;
}

/// With `max_ttl` at its default of a minute, which no wait in here is as long as.
#[tokio::test]
async fn a_new_deployment_votes_at_once() {
    let fleet = Fleet::start(5);
    let first = fleet.manager();
    let request = |locks: &LockManager, key: &str| locks.lock(key).ttl(DEADLINE).wait(DEADLINE);
    let lease = request(&first, "first").acquire().await;
    let lease = lease.expect("a new deployment is not waited for");
    let second = fleet.manager();
    let later = request(&second, "later").acquire().await;
    let later = later.expect("a client that comes later need not wait either");
    lease.release().await.expect("released");
    later.release().await.expect("released");
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_new_deployment_votes_at_once_for_clients_that_come_together() {
    for round in 0..3 {
        let fleet = Fleet::start(5);
        let managers: Vec<_> = (0..4).map(|_| fleet.manager()).collect();
        let acquired = managers.iter().enumerate().map(|(index, locks)| {
            let key = format!("{round}:{index}");
            locks.lock(key).ttl(DEADLINE).wait(DEADLINE).acquire()
        });
        for lease in futures_util::future::join_all(acquired).await {
            let lease = lease.expect("a new deployment is not waited for");
            lease.release().await.expect("released");
        }
        fleet.assert_no_keys("*").await;
    }
}

/// The node that cannot be asked may be the one that remembers.
#[tokio::test]
async fn nodes_that_may_not_be_new_are_not_taken_for_new() {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.proxies()[4].set(Mode::Refuse);
    let locks = fleet.manager();
    eventually(DEADLINE, "the others are connected", || {
        let open = fleet
            .proxies()
            .iter()
            .map(lock_tests::Proxy::open_connections);
        open.sum::<u64>() == 4
    })
    .await;
    assert!(
        !locks.ready().await,
        "a service that cannot lock is not ready"
    );
    let error = locks.lock("k").ttl(DEADLINE).acquire().await;
    let error = error.expect_err("one of five cannot be asked");
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    let abstain = |node: &&lock_tests::Proxy| abstention(&error, &node.name()).is_some();
    assert!(
        fleet.proxies().iter().filter(abstain).count() >= 2,
        "{error}"
    );

    fleet.proxies()[4].set(Mode::Pass);
    let lease = locks.lock("k").ttl(DEADLINE).wait(DEADLINE).acquire().await;
    let lease = lease.expect("all five can be asked, and all are new");
    lease.release().await.expect("released");
}

/// All five, one after the other, under a job that takes longer than that; somebody else wants the lock all the time.
async fn a_rolling_restart_is_not_noticed(persistence: Persistence) {
    let fleet = persistence.fleet().await;
    let (ours, theirs) = (manager(&fleet).await, manager(&fleet).await);
    let record = Recorder::new();
    let (started, start) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let job = {
        let (record, request) = (record.clone(), ours.lock("k").ttl(MAX_TTL));
        tokio::spawn(request.run(|_| async move {
            let inside = record.enter("k", "job");
            started.send(()).expect("the test waits for it");
            finished.await.expect("the test says when");
            inside.step("finished");
            "done"
        }))
    };
    start.await.expect("the lock is free");
    let rival = {
        let (record, request) = (record.clone(), theirs.lock("k").ttl(MAX_TTL).wait_forever());
        tokio::spawn(request.run(|_| async move { drop(record.enter("k", "rival")) }))
    };
    for server in fleet.servers() {
        server.restart(persistence.disk()).await;
        eventually(DEADLINE, "a restarted node has its vote back", || {
            assert!(!job.is_finished(), "the job was stopped\n{record}");
            remembers_this_life(server)
        })
        .await;
    }
    assert_eq!(record.inside("k"), ["job"]);
    finish.send(()).expect("the job waits for it");
    assert_eq!(job.await.unwrap().expect("it was never lost"), "done");
    rival.await.unwrap().expect("the lock is free in the end");
    assert_eq!(record.assert_exclusive("k"), 2);
    assert_eq!(ours.stats().lost, 0);
    fleet.assert_no_keys("*").await;
}

#[tokio::test]
async fn a_rolling_restart_is_not_noticed_without_persistence() {
    a_rolling_restart_is_not_noticed(Persistence::Off).await;
}

#[tokio::test]
async fn a_rolling_restart_is_not_noticed_with_an_append_only_file() {
    a_rolling_restart_is_not_noticed(Persistence::EverySecond).await;
}

/// There is no quorum to protect: it votes as soon as it is back, and what it has on disk is held.
#[tokio::test]
async fn a_single_node_votes_as_soon_as_it_is_back() {
    let fleet = Fleet::of([Persistence::Always.options()]);
    let locks = fleet.manager();
    let request = || locks.lock("k").ttl(DEADLINE * 2).wait(DEADLINE);
    let lease = request().acquire().await.expect("free");
    fleet.servers()[0].restart(Disk::Keep).await;
    ready(&locks).await;
    let busy = locks.lock("k").ttl(DEADLINE).acquire().await;
    assert!(busy.expect_err("it is on disk").is_busy());
    lease.release().await.expect("released");

    let lease = request().acquire().await.expect("free again");
    fleet.servers()[0].restart(Disk::Lose).await;
    let rival = fleet.manager();
    let gap = rival.lock("other").ttl(DEADLINE).wait(DEADLINE).acquire();
    let gap = gap.await.expect("no waiting with one node");
    gap.release().await.expect("released");
    drop(lease);
    assert!(!fleet.servers()[0].exists(MARKER));
    fleet.assert_no_keys("*").await;
}

/// Each connection asks the server for itself who it is, and all are made before the nodes have their vote.
#[tokio::test]
async fn new_nodes_vote_over_every_connection_to_them() {
    let fleet = Fleet::start(3);
    let locks = fleet.builder().connections_per_node(4).build().unwrap();
    ready(&locks).await;
    for key in 0..32 {
        let lease = locks.lock(format!("k{key}")).ttl(MAX_TTL).acquire().await;
        let lease = lease.unwrap_or_else(|error| panic!("k{key}: {error}"));
        lease.release().await.expect("held");
    }
}

/// A client that has a majority asks for no more votes. It hears all the same of those that others see to.
#[tokio::test]
async fn what_another_client_admits_later_is_heard_of() {
    let fleet = Fleet::start(5).behind_proxies();
    fleet.proxies()[4].set(Mode::Refuse);
    let locks = fleet.manager();
    assert!(!locks.ready().await, "one of five cannot be asked");
    let admit = |server: &RedisServer| {
        let life: String = about(server, "run_id").expect("a life");
        let _: String = server.command(&["SET", MARKER, &life]);
    };
    let [first, second, third, fourth, _] = fleet.servers() else {
        unreachable!("five");
    };
    for server in [first, second, third] {
        admit(server);
    }
    ready(&locks).await;
    admit(fourth);
    eventually_async(DEADLINE, "the fourth has a vote as well", || async {
        let lease = locks.lock("k").ttl(DEADLINE).acquire().await;
        let lease = lease.expect("three of five vote");
        let is_there = fourth.get("k").is_some();
        lease.release().await.expect("held");
        is_there
    })
    .await;
}
