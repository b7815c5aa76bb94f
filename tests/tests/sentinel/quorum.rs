//! Groups as nodes of a quorum: a server that was promoted has no vote while a lease may be left that it lacks.

use super::{TTL, manager, patient};
use lock_runtime::{LockError, LockManager, LockManagerBuilder, Vote};
use lock_tests::fleet::{MARKER, voted_in};
use lock_tests::sentinel::FAILOVER;
use lock_tests::{
    DEADLINE, FakeSentinel, Fleet, Mode, Proxy, Recorder, RedisServer, Watched, acl, eventually,
    eventually_async, ready,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest lease.
const MAX_TTL: Duration = Duration::from_secs(3);

/// For so long the old primary may have voted after a majority of the sentinels had left it.
const BELIEVED: Duration = Duration::from_secs(5);

fn of(urls: impl IntoIterator<Item = String>) -> LockManager {
    let patient = patient().max_ttl(MAX_TTL);
    let builder = urls.into_iter().fold(patient, LockManagerBuilder::node);
    builder.build().expect("a good configuration")
}

/// For how much longer the first node has no vote, as an error says.
fn abstention(error: &LockError, first: &str) -> Option<Duration> {
    let mut votes = error.votes().iter();
    match votes.find(|vote| vote.node() == first)?.vote() {
        Vote::Abstains(left) => Some(*left),
        _ => None,
    }
}

/// Somebody else has this key on a server.
fn occupy(server: &RedisServer, key: &str) {
    let _: String = server.command(&["SET", key, "somebody", "PX", "600000"]);
}

/// Tries until it is granted: for how long the first node said that it would abstain, and how long it took from then on.
async fn until_granted(locks: &LockManager, key: &str, first: &str) -> (Duration, Duration) {
    let mut said = Vec::new();
    let mut since = None;
    let begun = Instant::now();
    loop {
        let before = Instant::now();
        match locks.lock(key).ttl(MAX_TTL).acquire().await {
            Ok(lease) => {
                lease.release().await.expect("released");
                let since: Instant = since.expect("it had no vote at first");
                assert!(said.is_sorted_by(|one, next| one >= next), "{said:?}");
                return (said[0], since.elapsed());
            }
            Err(error) => {
                if let Some(left) = abstention(&error, first) {
                    said.push(left);
                    since.get_or_insert(before);
                }
                assert!(begun.elapsed() < FAILOVER, "nobody ever gets it: {error}");
            }
        }
    }
}

#[tokio::test]
async fn one_of_three_groups_fails_over_and_nobody_notices_and_it_votes_when_no_lease_is_left() {
    let watched = Watched::options().groups(3).start().await;
    let groups = watched.groups();
    let urls = || groups.iter().map(|group| watched.url(group));
    // New groups vote at once.
    let locks = of(urls());
    ready(&locks).await;
    let old = &groups[0].servers()[0];
    eventually(DEADLINE, "all remember that they vote", || {
        groups
            .iter()
            .all(|group| group.servers().iter().all(|server| server.exists(MARKER)))
    })
    .await;

    let held = locks.lock("held").ttl(MAX_TTL).acquire().await;
    let held = held.expect("free");
    let is_over = Arc::new(AtomicBool::new(false));
    let busy = tokio::spawn({
        let (locks, is_over) = (locks.clone(), Arc::clone(&is_over));
        async move {
            let mut rounds = 0;
            while !is_over.load(Ordering::SeqCst) {
                let lease = locks.lock("cycle").ttl(MAX_TTL).acquire().await;
                let lease = lease.unwrap_or_else(|error| panic!("round {rounds}: {error}"));
                lease
                    .release()
                    .await
                    .unwrap_or_else(|error| panic!("round {rounds}: {error}"));
                rounds += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            rounds
        }
    });
    occupy(&groups[1].servers()[0], "k");
    old.kill();
    let new = watched.moved_from(&groups[0], old).await;
    let first = watched.sentinels()[0].name() + "/" + groups[0].name();
    let (said, took) = until_granted(&locks, "k", &first).await;
    assert!(said > MAX_TTL + BELIEVED, "{said:?}");
    assert!(took > MAX_TTL + BELIEVED, "{took:?}");
    is_over.store(true, Ordering::SeqCst);
    assert!(busy.await.expect("no error") > 100);
    assert!(!held.is_lost());
    eventually(DEADLINE, "the lock is on the promoted replica too", || {
        new.exists("held")
    })
    .await;
    held.release().await.expect("released");

    // Who comes later is told that it has been waited for.
    let life = |server: &RedisServer| {
        let field = |section: &str, name: &str| {
            let info: redis::InfoDict = server.command(&["INFO", section]);
            info.get::<String>(name).unwrap_or_default()
        };
        format!(
            "{}:{}",
            field("server", "run_id"),
            field("replication", "master_replid")
        )
    };
    eventually(DEADLINE, "it remembers this life", || {
        voted_in(new) == Some(life(new))
    })
    .await;
    let late = of(urls());
    let lease = late.lock("k").ttl(MAX_TTL).wait(MAX_TTL).acquire().await;
    lease
        .expect("all three vote")
        .release()
        .await
        .expect("released");
}

/// A client and the old primary are cut off together; another client and the sentinels are on the other side. Of the two
/// nodes that are left each side reaches one, so each side could have a majority.
#[tokio::test]
async fn a_client_that_is_cut_off_with_the_old_primary_and_one_that_is_not_are_never_both_holders()
{
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let fleet = Fleet::start(2);
    let side = |reaches: usize| {
        let sentinels = [(); 3].map(|()| FakeSentinel::start(1, &old));
        let proxies: Vec<_> = fleet.servers().iter().map(Proxy::start).collect();
        let hosts: Vec<_> = sentinels.iter().map(FakeSentinel::name).collect();
        let group = format!("redis+sentinel://{}{}/g", acl::login(), hosts.join(","));
        let locks = of(std::iter::once(group).chain(proxies.iter().map(Proxy::url)));
        (sentinels, proxies, locks, reaches)
    };
    let sides = [side(0), side(1)];
    for (_, _, locks, _) in &sides {
        ready(locks).await;
        let all = eventually_async(DEADLINE, "all nodes vote", || async {
            let lease = locks
                .lock("first")
                .ttl(MAX_TTL)
                .wait(MAX_TTL)
                .acquire()
                .await
                .expect("free");
            let everywhere = old.exists("first") && fleet.nodes_with("first") == 2;
            lease.release().await.expect("released");
            everywhere
        });
        all.await;
    }
    for (_, proxies, _, reaches) in &sides {
        proxies[1 - reaches].set(Mode::Refuse);
    }
    let [(cut_off, _, here, _), (told, _, there, _)] = &sides;
    let record = Recorder::new();
    let lease = here
        .lock("k")
        .ttl(MAX_TTL)
        .acquire()
        .await
        .expect("free on two");
    let inside = record.enter("k", "here");

    let _: () = new.command(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    eventually(DEADLINE, "it is a replica", || new.exists("k")).await;
    let _: () = new.command(&["REPLICAOF", "NO", "ONE"]);
    // As if it had not been replicated.
    let _: u64 = new.command(&["DEL", "k"]);
    for (cut_off, told) in cut_off.iter().zip(told) {
        cut_off.answers(false);
        told.says(2, &new);
    }

    let rival = tokio::spawn({
        let (there, record) = (there.clone(), record.clone());
        async move {
            let begun = Instant::now();
            loop {
                if let Ok(lease) = there.lock("k").ttl(MAX_TTL).acquire().await {
                    let _inside = record.enter("k", "there");
                    return (begun.elapsed(), lease);
                }
                assert!(begun.elapsed() < FAILOVER, "nobody ever gets it");
            }
        }
    });
    let lost = tokio::time::timeout(FAILOVER, lease.lost()).await;
    lost.expect("no vote of the old primary counts any more");
    drop(inside);
    assert!(lease.is_lost());
    assert!(old.is_running() && !rival.is_finished());
    let words = here
        .lock("other")
        .ttl(MAX_TTL)
        .acquire()
        .await
        .expect_err("no vote")
        .to_string();
    assert!(
        words.contains("no sentinel says which server is the primary"),
        "{words}"
    );
    let (took, rivals) = rival.await.expect("granted");
    assert!(took > MAX_TTL + BELIEVED, "{took:?}");
    assert_eq!(record.assert_exclusive("k"), 2);
    drop((lease, rivals));
}

/// A name that leads to a promoted replica now, as names in DNS do after a failover.
#[tokio::test]
async fn a_name_that_leads_to_a_promoted_replica_now_has_no_vote_until_no_lease_is_left() {
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let primary = &fleet.servers()[0];
    let replica = RedisServer::options().replica_of(primary).start();
    replica.follows(primary).await;
    // Old enough to vote, were it not promoted.
    eventually(DEADLINE, "it is older than the longest lease", || {
        let info: redis::InfoDict = replica.command(&["INFO", "server"]);
        info.get::<u64>("uptime_in_seconds") > Some(MAX_TTL.as_secs() + 1)
    })
    .await;
    let locks = of(fleet.urls());
    ready(&locks).await;
    occupy(&fleet.servers()[1], "k");
    let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]);
    primary.kill();
    fleet.proxies()[0].lead_to(replica.address());
    let (said, took) = until_granted(&locks, "k", &fleet.proxies()[0].name()).await;
    assert!(said > MAX_TTL, "{said:?}");
    assert!(took > MAX_TTL, "{took:?}");

    // By itself it votes at once: there is no quorum to protect.
    let other = manager(fleet.proxies()[0].url());
    ready(&other).await;
    let lease = other.lock("another").ttl(TTL).acquire().await;
    lease.expect("free").release().await.expect("released");
}

/// Nobody is there for as long as the longest lease, and the promoted replica gets its vote all the same.
#[tokio::test]
async fn clients_that_do_not_live_so_long_wait_together() {
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let primary = &fleet.servers()[0];
    let replica = RedisServer::options().replica_of(primary).start();
    replica.follows(primary).await;
    occupy(&fleet.servers()[1], "k");
    let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]);
    primary.kill();
    fleet.proxies()[0].lead_to(replica.address());
    let first = fleet.proxies()[0].name();
    let (mut said, begun) = (Vec::new(), Instant::now());
    loop {
        let locks = of(fleet.urls());
        ready(&locks).await;
        match locks.lock("k").ttl(MAX_TTL).acquire().await {
            Ok(lease) => {
                lease.release().await.expect("released");
                break;
            }
            Err(error) => said.extend(abstention(&error, &first)),
        }
        assert!(begun.elapsed() < FAILOVER, "they never get it: {said:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() > MAX_TTL, "{:?}", begun.elapsed());
    assert!(said.len() > 3, "{said:?}");
    assert!(
        said[0] > MAX_TTL && said[said.len() - 1] < MAX_TTL,
        "{said:?}"
    );
}
