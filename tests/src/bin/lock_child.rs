//! A process that takes locks on `LOCK_NODES`, for tests with several processes.

use lock_runtime::LockManager;
use lock_tests::Recorder;
use std::path::Path;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let nodes = std::env::var("LOCK_NODES").expect("LOCK_NODES lists the nodes");
    let patient = LockManager::builder().node_timeout(Duration::from_secs(5));
    let locks = patient.nodes(&nodes).build().expect("they can be used");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["count", owner, rounds, record, counter] => {
            let rounds = rounds.parse().expect("a number of rounds");
            count(&locks, owner, rounds, Path::new(record), Path::new(counter)).await;
        }
        ["hold", key] => hold(&locks, key).await,
        ref other => panic!("not a part this process can play: {other:?}"),
    }
}

/// Adds one to the number in a file, so many times, in two steps that only a lock keeps together.
async fn count(locks: &LockManager, owner: &str, rounds: usize, record: &Path, counter: &Path) {
    let record = Recorder::open(record);
    for _ in 0..rounds {
        let lease = locks.lock("counter").ttl(TTL).wait_forever().acquire();
        let lease = lease.await.expect("the lock comes sooner or later");
        {
            let _inside = record.enter("counter", owner);
            let seen: u64 = std::fs::read_to_string(counter)
                .expect("the counter can be read")
                .parse()
                .expect("it is a number");
            tokio::time::sleep(Duration::from_millis(1)).await;
            std::fs::write(counter, (seen + 1).to_string()).expect("the counter can be written");
        }
        lease
            .release()
            .await
            .expect("nothing is wrong with the nodes");
    }
}

/// Takes a lock, says so, and keeps it until it is told to go on or is killed.
async fn hold(locks: &LockManager, key: &str) {
    let lease = locks.lock(key).ttl(TTL).wait(TTL).acquire();
    let lease = lease.await.expect("the lock is free");
    println!("held");
    let waiting = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    waiting.await.expect("standard input can be read");
    lease
        .release()
        .await
        .expect("nothing is wrong with the nodes");
    println!("released");
}
