//! The same from several processes: the binary starts itself again, and its copies report line by line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_tests::processes::Peer;
use tokio::time::timeout;

use crate::crowd::{Crowd, Served, crowd};
use crate::inside::Record;
use crate::locker::Kind;

/// The first argument of a copy.
pub const REPLICA: &str = "replica";

/// Between the last copy being ready and all of them starting.
const LEAD: Duration = Duration::from_millis(50);

/// How much longer than its time a round may take.
const GRACE: Duration = Duration::from_secs(8);

/// Copies that are connected and wait for the word.
#[derive(Debug)]
pub struct Replicas {
    peers: Vec<Peer>,
    time: Duration,
}

impl Replicas {
    /// Starts so many, of which each will be such a crowd on a key.
    pub async fn start(
        kind: Kind,
        urls: &[String],
        processes: usize,
        key: &str,
        crowd: Crowd,
        record: &Path,
    ) -> Self {
        let start = |_| {
            let program = std::env::current_exe().expect("the path of this binary");
            let mut command = Command::new(program);
            command
                .args([REPLICA, kind.name(), &urls.join(","), key])
                .arg(record)
                .arg(crowd.tasks.to_string())
                .arg(crowd.body.as_micros().to_string())
                .arg(crowd.time.as_micros().to_string());
            Peer::start(command)
        };
        let mut peers: Vec<Peer> = (0..processes).map(start).collect();
        for peer in &mut peers {
            peer.expect("ready").await;
        }
        Self {
            peers,
            time: crowd.time,
        }
    }

    /// Lets all of them start at the same moment. Those that do not report in time are killed, and have failed.
    pub async fn run(mut self) -> Served {
        let start = since_epoch() + LEAD;
        for peer in &mut self.peers {
            peer.say(&start.as_micros().to_string());
        }
        let mut all = Served::default();
        for peer in &mut self.peers {
            match timeout(self.time + GRACE, peer.line()).await {
                Ok(line) => all.add(read(&line)),
                Err(_) => all.add(Served {
                    failed: 1,
                    failure: Some("a process did not come to its end".to_owned()),
                    longest: self.time,
                    elapsed: self.time,
                    ..Served::default()
                }),
            }
        }
        all
    }
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock that is set")
}

/// What a copy does with the arguments that follow [`REPLICA`].
pub async fn replica(arguments: &[String]) {
    let [kind, urls, key, record, tasks, body, time] = arguments else {
        panic!("not a copy's arguments: {arguments:?}");
    };
    let micros = |text: &str| Duration::from_micros(text.parse().expect("a number"));
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    let kind = Kind::named(kind).expect("a contender");
    let locker = kind.connect(&urls).await;
    let record = Record::of_machine(Path::new(record));
    let work = Crowd {
        tasks: tasks.parse().expect("a number"),
        body: micros(body),
        time: micros(time),
    };
    println!("ready");
    let signal = tokio::task::spawn_blocking(|| std::io::stdin().lines().next());
    let signal = signal.await.expect("no panic");
    let start = micros(&signal.expect("the word").expect("a line"));
    tokio::time::sleep(start.saturating_sub(since_epoch())).await;
    let served = crowd(&locker, key, work, &record).await;
    locker.settled().await;
    println!("{}", written(&served));
}

fn written(served: &Served) -> String {
    let counts: Vec<String> = served.counts.iter().map(u64::to_string).collect();
    let failure = served.failure.as_deref().unwrap_or_default();
    format!(
        "{} {} {} {} {} {}",
        counts.join(","),
        served.longest.as_micros(),
        served.elapsed.as_micros(),
        served.collisions,
        served.failed,
        failure.replace('\n', " "),
    )
}

fn read(line: &str) -> Served {
    let fields: Vec<&str> = line.splitn(6, ' ').collect();
    let [counts, longest, elapsed, collisions, failed, failure] = fields[..] else {
        panic!("not a copy's report: {line}");
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Served {
        counts: counts.split(',').map(number).collect(),
        half: f64::NAN,
        most: f64::NAN,
        longest: Duration::from_micros(number(longest)),
        collisions: number(collisions),
        failed: number(failed),
        failure: (!failure.is_empty()).then(|| failure.to_owned()),
        elapsed: Duration::from_micros(number(elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let served = Served {
            counts: vec![3, 0, 17],
            longest: Duration::from_micros(2_200_001),
            collisions: 2,
            failed: 1,
            failure: Some("no quorum: 3 of 5\nnodes".to_owned()),
            elapsed: Duration::from_micros(2_300_001),
            ..Served::default()
        };
        let again = read(&written(&served));
        assert_eq!(again.counts, served.counts);
        assert_eq!(again.longest, served.longest);
        assert_eq!(again.elapsed, served.elapsed);
        assert_eq!((again.collisions, again.failed), (2, 1));
        assert_eq!(again.failure.as_deref(), Some("no quorum: 3 of 5 nodes"));
        assert_eq!(
            read(&written(&Served {
                failure: None,
                ..served
            }))
            .failure,
            None
        );
    }
}
