//! Sentinels that are dead, know nothing, or know it too late.

use super::failover::refused;
use super::{TTL, locks_at, manager, patient};
use lock_runtime::LockManager;
use lock_tests::{
    DEADLINE, Disk, FakeSentinel, Mode, Proxy, RedisServer, Watched, acl, cycle, eventually,
    eventually_async, ready, stays,
};
use std::time::Duration;

#[tokio::test]
async fn a_minority_of_the_sentinels_is_not_missed() {
    let watched = Watched::options().groups(3).replicas(0).start().await;
    let [dead, rest @ ..] = watched.sentinels() else {
        panic!("sentinels")
    };
    dead.kill();
    let group = &watched.groups()[0];
    let one = manager(watched.url(group));
    ready(&one).await;
    let urls = watched.groups().iter().map(|group| watched.url(group));
    let three = urls.fold(patient(), lock_runtime::LockManagerBuilder::node);
    let three = three.build().expect("a good configuration");
    ready(&three).await;
    for round in 0..20 {
        cycle(&one, &format!("one:{round}"), TTL).await;
        cycle(&three, &format!("three:{round}"), TTL).await;
    }

    // Now there is no majority any more.
    rest[0].kill();
    let words = eventually_async(DEADLINE, "no vote counts", || async {
        let refused = three.lock("k").ttl(TTL).acquire().await;
        refused.err().map(|error| error.to_string())
    })
    .await;
    assert!(words.contains("1 of 3 sentinels confirms that"), "{words}");
    assert!(words.contains("where 2 must"), "{words}");
    for server in watched.groups().iter().map(|group| &group.servers()[0]) {
        eventually(DEADLINE, "nothing is left", || locks_at(server).is_empty()).await;
    }
    cycle(&one, "one", TTL).await;

    dead.restart(Disk::Keep).await;
    ready(&three).await;
    cycle(&three, "three", TTL).await;
}

/// A name that leads to any of several sentinels is one of them at a time.
#[tokio::test]
async fn a_majority_is_one_of_all_sentinels_and_not_of_those_that_are_configured() {
    let watched = Watched::options().groups(3).replicas(0).start().await;
    let names: Vec<_> = watched.sentinels().iter().map(RedisServer::name).collect();
    let of = |sentinels: &[String]| {
        let urls = watched
            .groups()
            .iter()
            .map(|group| watched.url_by(sentinels, group));
        let builder = urls.fold(patient(), lock_runtime::LockManagerBuilder::node);
        builder.build().expect("a good configuration")
    };
    let words = refused(&of(&names[..1])).await;
    assert!(words.contains("1 of 3 sentinels confirms"), "{words}");
    assert!(
        words.contains("where 2 must, and 1 is configured"),
        "{words}"
    );
    let two = of(&names[1..]);
    ready(&two).await;
    cycle(&two, "k", TTL).await;
    let one = manager(watched.url_by(&names[..1], &watched.groups()[0]));
    ready(&one).await;
    cycle(&one, "k", TTL).await;
}

#[tokio::test]
async fn without_any_sentinel_what_is_connected_goes_on_and_what_is_not_waits_for_one() {
    let watched = Watched::options().replicas(0).start().await;
    let group = watched.group();
    let early = manager(watched.url(group));
    ready(&early).await;
    watched.sentinels().iter().for_each(RedisServer::kill);
    let late = manager(watched.url(group));
    let words = refused(&late).await;
    assert!(
        words.contains("no sentinel says which server is the primary"),
        "{words}"
    );
    for sentinel in watched.sentinels() {
        assert!(
            words.contains(&format!("{}: no connection", sentinel.name())),
            "{words}"
        );
    }
    // Longer than what a sentinel has said is believed.
    let again = async || cycle(&early, "k", TTL).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(7) {
        again().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    watched.sentinels()[1].restart(Disk::Keep).await;
    ready(&late).await;
    cycle(&late, "k", TTL).await;
}

#[tokio::test]
async fn a_group_that_the_sentinels_do_not_know_is_named() {
    let watched = Watched::options().replicas(0).start().await;
    let url = watched.url(watched.group()).replace("group-0", "group-x");
    let words = refused(&manager(url)).await;
    assert!(
        words.contains("ERR No such master with that name"),
        "{words}"
    );
    assert!(words.contains(&watched.sentinels()[2].name()), "{words}");
}

#[tokio::test]
async fn what_is_no_sentinel_is_told_so() {
    let watched = Watched::options().replicas(0).start().await;
    let group = watched.group();
    let server = group.servers()[0].name();
    let words = refused(&manager(watched.url_by(&[server], group))).await;
    // Redis 6.2 quotes in another way.
    let words = words.replace('`', "'");
    assert!(words.contains("ERR unknown command 'SENTINEL'"), "{words}");
}

/// Servers that are independent of one another, and sentinels that name the first.
fn played() -> ([RedisServer; 2], [FakeSentinel; 3], LockManager) {
    let servers = [RedisServer::start(), RedisServer::start()];
    let sentinels = [(); 3].map(|()| FakeSentinel::start(1, &servers[0]));
    let locks = manager(named_by(&sentinels));
    (servers, sentinels, locks)
}

fn named_by(sentinels: &[FakeSentinel]) -> String {
    let hosts: Vec<_> = sentinels.iter().map(FakeSentinel::name).collect();
    format!("redis+sentinel://{}{}/g", acl::login(), hosts.join(","))
}

/// Waits until locks are taken on this server. What is left at another one, when it is left in the middle, is not left there
/// for long.
async fn used(locks: &LockManager, server: &RedisServer) {
    eventually_async(DEADLINE, "it is used", || async {
        let lease = locks.lock("k").ttl(Duration::from_secs(1)).acquire().await;
        let lease = lease.map_err(|error| error.to_string())?;
        let there = server.exists("k");
        lease.release().await.map_err(|error| error.to_string())?;
        there.then_some(()).ok_or_else(|| "elsewhere".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_sentinel_that_missed_a_failover_does_not_pull_anybody_back() {
    let ([old, new], sentinels, locks) = played();
    used(&locks, &old).await;
    sentinels[1].says(2, &new);
    used(&locks, &new).await;
    // The others were cut off, and are the only ones that are left.
    sentinels[1].answers(false);
    let asked = || sentinels[0].connections() + sentinels[2].connections();
    eventually(DEADLINE, "they are asked", || asked() > 0).await;
    sentinels[2].answers(false);
    new.command::<()>(&["CLIENT", "KILL", "TYPE", "normal"]);
    used(&locks, &new).await;
    stays(
        Duration::from_secs(7),
        "nobody goes back to the old primary",
        || old.clients() == 0,
    )
    .await;
    used(&locks, &new).await;

    // A majority is followed wherever it goes: somebody has set up the group anew.
    sentinels[2].answers(true);
    used(&locks, &old).await;
}

#[tokio::test]
async fn nothing_is_left_after_many_failovers() {
    let ([one, other], sentinels, locks) = played();
    used(&locks, &one).await;
    let tasks = lock_runtime::__private::tasks(&locks);
    for round in 1..=20 {
        let (from, to) = if round % 2 == 0 {
            (&other, &one)
        } else {
            (&one, &other)
        };
        for sentinel in &sentinels {
            sentinel.says(1 + round, to);
        }
        used(&locks, to).await;
        eventually(DEADLINE, "the old primary has been left", || {
            from.clients() == 0
        })
        .await;
    }
    assert_eq!(one.clients(), 1);
    for sentinel in &sentinels {
        assert_eq!(sentinel.connections(), 1);
    }
    eventually(DEADLINE, "no task is left", || {
        lock_runtime::__private::tasks(&locks) <= tasks
    })
    .await;
    drop(locks);
    eventually(DEADLINE, "everybody has been left", || {
        let asking = sentinels.iter().map(FakeSentinel::connections);
        asking.sum::<usize>() + one.clients() == 0
    })
    .await;
}

/// A network that carries nothing takes no longer than a sentinel that is dead.
#[tokio::test]
async fn a_sentinel_that_is_silent_holds_up_nobody() {
    let watched = Watched::options().replicas(0).start().await;
    let proxies: Vec<_> = watched.sentinels().iter().map(Proxy::start).collect();
    let names: Vec<_> = proxies.iter().map(Proxy::name).collect();
    proxies[0].set(Mode::Blackhole);
    proxies[1].set(Mode::Blackhole);
    let locks = manager(watched.url_by(&names, watched.group()));
    ready(&locks).await;
    cycle(&locks, "k", TTL).await;
    proxies[2].set(Mode::Blackhole);
    let late = manager(watched.url_by(&names, watched.group()));
    let words = refused(&late).await;
    assert!(words.contains("no answer in 1s"), "{words}");
    proxies[0].set(Mode::Pass);
    ready(&late).await;
}
