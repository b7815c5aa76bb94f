//! Many processes want one lock without a pause: somebody always gets on, everybody gets his turn, and a turn costs the nodes
//! little.

use lock_runtime::LockManager;
use lock_tests::{DEADLINE, Fleet, Recorder, eventually};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(60);

/// What one of them saw.
struct Served {
    turns: u64,
    longest: Duration,
}

async fn serve(locks: LockManager, recorder: Recorder, name: String, until: Instant) -> Served {
    let mut served = Served {
        turns: 0,
        longest: Duration::ZERO,
    };
    while Instant::now() < until {
        let asked = Instant::now();
        let request = locks.lock("k").ttl(TTL).wait(DEADLINE * 2);
        let lease = request.acquire().await.expect("its turn comes");
        served.longest = served.longest.max(asked.elapsed());
        served.turns += 1;
        drop(recorder.enter("k", &name));
        lease.release().await.expect("released");
    }
    served
}

/// Managers have connections, a thread and a line of their own, as processes have.
async fn rivalry(processes: u16, tasks: usize) {
    let fleet = Fleet::start(5);
    let mut managers = Vec::new();
    for _ in 0..processes {
        let locks = fleet.patient_manager().await;
        managers.push(locks);
    }
    let recorder = Recorder::new();
    let began = Instant::now();
    // A process keeps the lock for 50 ms, and each has several turns.
    let time = Duration::from_millis(125) * u32::from(processes);
    let until = began + time.max(Duration::from_secs(2));
    let mut work = JoinSet::new();
    for (process, locks) in managers.iter().enumerate() {
        for task in 0..tasks {
            let name = format!("{process}.{task}");
            work.spawn(serve(locks.clone(), recorder.clone(), name, until));
        }
    }
    let all = work.join_all().await;
    eventually(DEADLINE, "nothing is left", || fleet.nodes_with("k") == 0).await;
    let turns: u64 = all.iter().map(|served| served.turns).sum();
    let least = all.iter().map(|served| served.turns).min().unwrap_or(0);
    let longest = all
        .iter()
        .map(|served| served.longest)
        .max()
        .unwrap_or_default();
    println!(
        "{processes} processes of {tasks} tasks: {turns} turns in {:?}, least {least}, longest wait {longest:?}",
        began.elapsed()
    );
    assert_eq!(recorder.assert_exclusive("k") as u64, turns);
    assert!(least > 0, "somebody was never served");
    // It is a second or two on two quiet cores.
    assert!(longest < DEADLINE, "{longest:?}");
}

mod heavy {
    use super::rivalry;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_processes() {
        rivalry(2, 1).await;
        rivalry(2, 8).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn eight_processes() {
        rivalry(8, 1).await;
        rivalry(8, 4).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn thirty_two_processes() {
        rivalry(32, 1).await;
        rivalry(32, 2).await;
    }
}
