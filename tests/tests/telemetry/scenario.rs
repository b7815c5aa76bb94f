//! Everything that can become of a call, of a lease and of a node, on real servers, one after the other.

use crate::journal::Journal;
use crate::measured::{self, counter};
use axum_core::response::IntoResponse;
use lock_runtime::{LockError, LockManager, LockRequest, OnLost, distributed_lock};
use lock_tests::{
    DEADLINE, Fleet, Mode, Proxy, dropped_after, eventually, eventually_async, ready,
};
use std::sync::Arc;
use std::time::Duration;
use tracing::Level;

/// In every key, and in nothing else.
pub(crate) const SECRET: &str = "iban-nl91abna";

/// How long leases are where they are to be renewed, or to run out.
const SHORT: Duration = Duration::from_secs(3);

/// How long they are where they are not.
const LONG: Duration = Duration::from_secs(30);

/// Of a manager that is not to take a busy machine for an outage, and still sees one while a short lease is good.
const PATIENT: Duration = Duration::from_millis(700);

/// Of one that is soon tired of a split vote.
const HASTY: Duration = Duration::from_millis(100);

/// Has everything happen, with a journal for the whole process. What was written of it, and what the nodes are called.
pub(crate) async fn everything() -> (Journal, Vec<String>) {
    measured::install();
    let journal = Journal::down_to(Level::TRACE);
    tracing::subscriber::set_global_default(journal.clone()).expect("there is no other");
    let fleet = Fleet::start(3).behind_proxies();
    fleet.found().await;
    let stage = Stage {
        locks: manager(&fleet, PATIENT).await,
        others: manager(&fleet, PATIENT).await,
        fleet,
    };
    stage.what_callers_see().await;
    stage.what_becomes_of_leases().await;
    stage.what_nodes_do().await;
    stage.outages().await;
    stage.the_end().await;
    without_a_manager().await;
    let nodes = stage.fleet.proxies().iter().map(Proxy::name);
    (journal, nodes.collect())
}

async fn manager(fleet: &Fleet, node_timeout: Duration) -> LockManager {
    let locks = fleet.builder().node_timeout(node_timeout).build();
    let locks = locks.expect("a manager");
    ready(&locks).await;
    locks
}

struct Stage {
    fleet: Fleet,
    locks: LockManager,
    /// Another process, as far as nodes can tell.
    others: LockManager,
}

fn key(what: &str) -> String {
    format!("{what}:{SECRET}")
}

fn ask(locks: &LockManager, what: &'static str, ttl: Duration) -> LockRequest {
    locks.lock(key(what)).name(what).ttl(ttl)
}

#[distributed_lock(key = "pay:{id}", ttl = "30s", name = "pay", manager = locks)]
async fn pay(locks: &LockManager, id: &str) -> Result<(), LockError> {
    tracing::info!("in the body");
    Ok(())
}

#[distributed_lock(key = "tick:{id}", ttl = "30s", name = "tick", on_busy = skip, manager = locks)]
async fn tick(locks: &LockManager, id: &str) {}

#[distributed_lock(key = "nowhere:{id}", ttl = "30s", name = "nowhere")]
async fn nowhere(id: &str) -> Result<(), LockError> {
    Ok(())
}

async fn until_counted(metric: &str, labels: &[(&str, &str)]) {
    eventually(DEADLINE, metric, || match counter(metric, labels) {
        Some(1..) => Ok(()),
        other => Err(format!("{labels:?}: {other:?}")),
    })
    .await;
}

impl Stage {
    async fn what_callers_see(&self) {
        let Self { locks, others, .. } = self;
        pay(locks, SECRET).await.expect("free");

        let held = ask(others, "busy", LONG).acquire().await.expect("free");
        let busy = ask(locks, "busy", LONG).run(async |_| ()).await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        let waiting = ask(locks, "busy", LONG).wait_forever();
        let dropped = dropped_after(1, waiting.run(async |_| ())).await;
        assert!(dropped.is_none(), "somebody has it");
        held.release().await.expect("released");

        let skipped = others.lock(format!("tick:{SECRET}")).ttl(LONG);
        let held = skipped.acquire().await.expect("free");
        tick(locks, SECRET).await;
        held.release().await.expect("released");

        let first = ask(locks, "handover", LONG).acquire().await.expect("free");
        let next = tokio::spawn(ask(locks, "handover", LONG).wait(DEADLINE).acquire());
        eventually(DEADLINE, "it waits", || {
            measured::gauge("lock_waiters", &[("name", "handover")]) == Some(1.0)
        })
        .await;
        first.release().await.expect("released");
        let next = next.await.expect("no panic").expect("handed over");
        next.release().await.expect("released");
        self.handed_over().await;

        let nested = ask(locks, "nested", LONG).run(async |_| {
            let again = ask(locks, "nested", LONG).run(async |_| ()).await;
            assert!(matches!(again, Err(LockError::AlreadyHeld { .. })));
        });
        nested.await.expect("free");
        let refused = ask(locks, "too long", LONG * 1000).acquire().await;
        assert!(matches!(refused, Err(LockError::InvalidTtl { .. })));

        let request = ask(locks, "panics", LONG);
        let panics = tokio::spawn(request.run(async |_| panic!("by the test")));
        assert!(panics.await.expect_err("it panics").is_panic());
        self.split().await;
    }

    /// A lock is handed over only soon after it was taken from the nodes, so this may take several times on a busy machine.
    async fn handed_over(&self) {
        eventually_async(DEADLINE, "a lock is handed over", || async {
            let first = ask(&self.locks, "handover", LONG).acquire().await;
            let next = tokio::spawn(ask(&self.locks, "handover", LONG).wait(DEADLINE).acquire());
            tokio::task::yield_now().await;
            drop(first.expect("free"));
            drop(next.await.expect("no panic").expect("free"));
            counter("lock_handovers_total", &[("name", "handover")]) > Some(0)
        })
        .await;
    }

    /// Two others have one node each, and go on having them.
    async fn split(&self) {
        let key = key("split");
        for (server, owner) in self.fleet.servers().iter().zip(["a", "b"]) {
            let _: String = server.command(&["SET", &key, owner, "PX", "30000"]);
        }
        let hasty = manager(&self.fleet, HASTY).await;
        eventually_async(DEADLINE, "the votes stay split", || async {
            let split = ask(&hasty, "split", LONG).acquire().await;
            assert!(split.is_err(), "others have two of three nodes");
            counter("lock_quorum_attempts_total", &[("outcome", "split")]) > Some(0)
        })
        .await;
        for server in self.fleet.servers() {
            let _: u64 = server.command(&["DEL", &key]);
        }
    }

    async fn what_becomes_of_leases(&self) {
        let Self { locks, .. } = self;
        let renewed = ask(locks, "renewed", SHORT).run(async |_| {
            let labels = [("name", "renewed"), ("outcome", "renewed")];
            until_counted("lock_renewals_total", &labels).await;
        });
        let taken = ask(locks, "taken", SHORT).run(async |lease| {
            let taken = locks.force_release(key("taken")).await;
            assert!(taken.expect("a key").is_complete());
            lease.lost().await;
            std::future::pending::<()>().await;
        });
        let too_long = ask(locks, "wedged", SHORT).max_hold(SHORT);
        let wedged = too_long.run(async |_| std::future::pending::<()>().await);
        let goes_on = ask(locks, "goes on", SHORT / 2).extend(false);
        let goes_on = goes_on.on_lost(OnLost::Continue).run(async |lease| {
            lease.lost().await;
        });
        let ended = tokio::join!(renewed, taken, wedged, goes_on);
        ended.0.expect("it is renewed");
        let taken = ended.1.expect_err("somebody took it");
        assert!(taken.to_string().contains("somebody else"), "{taken}");
        ended.2.expect_err("max_hold is over");
        ended.3.expect("it runs on");
        until_counted(
            "lock_losses_total",
            &[("name", "goes on"), ("reason", "expired")],
        )
        .await;
        the_runtime_ends().await;
    }

    async fn what_nodes_do(&self) {
        let [first, ..] = self.fleet.servers() else {
            panic!("no servers");
        };
        let _: String = first.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let name = self.fleet.proxies()[0].name();
        eventually_async(DEADLINE, "it takes no more", || async {
            let _ = ask(&self.locks, "full", LONG).acquire().await;
            counter(
                "lock_node_failures_total",
                &[("node", &name), ("kind", "refused")],
            ) > Some(0)
        })
        .await;
        let _: String = first.command(&["CONFIG", "SET", "maxmemory", "0"]);
    }

    fn all_proxies(&self, mode: &Mode) {
        for proxy in self.fleet.proxies() {
            proxy.set(mode.clone());
        }
    }

    async fn outages(&self) {
        let Self { locks, .. } = self;
        let name = self.fleet.proxies()[1].name();
        let outage = ask(locks, "outage", SHORT).run(async |_| {
            self.all_proxies(&Mode::Blackhole);
            let labels = [("name", "outage"), ("outcome", "inconclusive")];
            until_counted("lock_renewals_total", &labels).await;
            self.all_proxies(&Mode::Pass);
            let labels = [("name", "outage"), ("outcome", "renewed")];
            until_counted("lock_renewals_total", &labels).await;
        });
        outage.await.expect("it was over in time");
        until_counted(
            "lock_node_failures_total",
            &[("node", &name), ("kind", "timeout")],
        )
        .await;

        let unconfirmed = ask(locks, "unconfirmed", LONG).run(async |_| {
            self.all_proxies(&Mode::Refuse);
        });
        unconfirmed.await.expect("the body's result stands");
        until_counted("lock_releases_failed_total", &[("name", "unconfirmed")]).await;

        let outage = pay(locks, SECRET).await.expect_err("an outage");
        drop(outage.into_response());
        tick(locks, SECRET).await;
        until_counted(
            "lock_node_failures_total",
            &[("node", &name), ("kind", "connection")],
        )
        .await;

        let expired = {
            self.all_proxies(&Mode::Pass);
            ready(locks).await;
            let expired = ask(locks, "expired", SHORT / 2).run(async |_| {
                self.all_proxies(&Mode::Refuse);
                std::future::pending::<()>().await;
            });
            expired.await
        };
        assert!(
            matches!(expired, Err(LockError::Lost { .. })),
            "{expired:?}"
        );
        self.all_proxies(&Mode::Pass);
        ready(locks).await;
    }

    async fn the_end(&self) {
        let locks = manager(&self.fleet, PATIENT).await;
        let inside = Arc::new(tokio::sync::Notify::new());
        let request = ask(&locks, "endless", LONG);
        let is_inside = Arc::clone(&inside);
        let endless = tokio::spawn(request.run(async move |_| {
            is_inside.notify_one();
            std::future::pending::<()>().await;
        }));
        inside.notified().await;
        let shutdown = locks.shutdown(Duration::ZERO).await;
        assert_eq!(shutdown.stopped, 1);
        endless.await.expect("no panic").expect_err("stopped");
        let late = pay(&locks, SECRET).await.expect_err("it is over");
        assert!(matches!(late, LockError::ShuttingDown { .. }), "{late}");
        tick(&locks, SECRET).await;
    }
}

/// What renews leases of embedded nodes ends with the runtime that it is on.
async fn the_runtime_ends() {
    let locks = LockManager::in_memory();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let request = ask(&locks, "orphan", LONG);
    let lease = runtime.spawn(request.acquire()).await;
    let lease = lease.expect("no panic").expect("free");
    runtime.shutdown_background();
    until_counted(
        "lock_losses_total",
        &[("name", "orphan"), ("reason", "renewer")],
    )
    .await;
    assert!(lease.is_lost());
}

async fn without_a_manager() {
    assert!(
        std::env::var_os("LOCK_NODES").is_none(),
        "run this without LOCK_NODES"
    );
    let nowhere = nowhere(SECRET).await.expect_err("nothing is installed");
    assert!(matches!(nowhere, LockError::NotConfigured { .. }));
}
