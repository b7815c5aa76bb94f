//! Another version of Redis on the files of the one before, one node after the other.

use super::{impatient_process, started};
use lock_runtime::LockManager;
use lock_tests::fleet::voted_in;
use lock_tests::version::installed;
use lock_tests::{DEADLINE, Fleet, Recorder, RedisServer, eventually};
use std::time::Duration;
use tokio::sync::oneshot;

const MAX_TTL: Duration = Duration::from_secs(3);

fn run_id(server: &RedisServer) -> Option<String> {
    let info: redis::InfoDict = server.command(&["INFO", "server"]);
    info.get("run_id")
}

async fn started_with(fleet: &Fleet) -> LockManager {
    started(impatient_process(fleet.servers(), MAX_TTL)).await
}

/// From the oldest to the two that came later, while a job holds the lock and somebody else waits for it.
#[tokio::test]
async fn a_job_goes_on_while_redis_is_upgraded_under_it() {
    let old = installed("6.2");
    let options = || {
        let options = RedisServer::options().append_only("everysec");
        options.binary(&old)
    };
    let fleet = Fleet::of([options(), options(), options()]);
    fleet.found().await;
    let (ours, theirs) = (started_with(&fleet).await, started_with(&fleet).await);
    let record = Recorder::new();
    let (started, start) = oneshot::channel();
    let (finish, finished) = oneshot::channel::<()>();
    let job = {
        let record = record.clone();
        let request = ours.lock("k").ttl(MAX_TTL).fenced(true);
        tokio::spawn(request.run(|_| async move {
            let inside = record.enter("k", "job");
            started.send(()).expect("the test waits for it");
            finished.await.expect("the test says when");
            inside.step("finished");
        }))
    };
    start.await.expect("the lock is free");
    let rival = {
        let record = record.clone();
        let request = theirs.lock("k").ttl(MAX_TTL).fenced(true).wait_forever();
        tokio::spawn(request.run(|_| async move { drop(record.enter("k", "rival")) }))
    };
    for (server, version) in fleet.servers().iter().zip(["7.0", "8.2", "8.2"]) {
        eventually(DEADLINE, "it is on all nodes", || {
            fleet.nodes_with("k") == 3
        })
        .await;
        server.upgrade(&installed(version)).await;
        assert!(server.exists("{k}:fence"), "{version}: it read the file");
        eventually(DEADLINE, "it votes again", || {
            assert!(!job.is_finished(), "the job was stopped\n{record}");
            voted_in(server) == run_id(server)
        })
        .await;
    }
    assert_eq!(record.inside("k"), ["job"]);
    finish.send(()).expect("the job waits for it");
    job.await.expect("no panic").expect("it was never lost");
    let rival = rival.await.expect("no panic");
    rival.expect("the lock is free in the end");
    assert_eq!(record.assert_exclusive("k"), 2);
}
