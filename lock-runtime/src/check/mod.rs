//! Looking at a deployment: what about its nodes makes locks unsafe, or will keep people from them.
//!
//! [`facts`](crate::node::facts) are what the nodes say, [`findings()`] what follows from it, [`words`] how that is put to a person.

mod finding;
mod findings;
mod report;
mod words;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use std::time::Instant;
use tokio::sync::oneshot;

use crate::node::facts::{Facts, Found, Missing, Server};
use crate::node::{NodeError, Standing};
use crate::redlock::Redlock;

pub use finding::{DownCause, Finding, FindingKind, Severity};
pub use report::{Report, ServerReport, ServerState};

use findings::{Deployment, Examined, findings};

/// See [`LockManager::check`](crate::LockManager::check).
pub(crate) async fn check(redlock: &Arc<Redlock>, max_ttl: Duration) -> Report {
    let (answer, result) = oneshot::channel();
    let work = Arc::clone(redlock);
    redlock.executor.spawn(async move {
        let _ = answer.send(work.examine(patience(work.node_timeout)).await);
    });
    let nodes = result.await.unwrap_or_else(|_| redlock.unexamined());
    let own_clock = redlock.wall_clock().duration_since(SystemTime::UNIX_EPOCH);
    let deployment = Deployment {
        needed: redlock.majority(),
        node_timeout: redlock.node_timeout,
        max_ttl,
        own_clock: (Instant::now(), own_clock.unwrap_or_default()),
        nodes: nodes
            .into_iter()
            .map(|(node, servers)| Examined { node, servers })
            .collect(),
    };
    report(&deployment)
}

/// How long all questions to a node may take together: also one that is much too slow for locks is to be seen as that.
fn patience(node_timeout: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(2);
    node_timeout.saturating_mul(10).max(LEAST)
}

fn report(deployment: &Deployment) -> Report {
    let servers = deployment.nodes.iter().flat_map(|node| {
        let its = node.servers.iter();
        its.map(|server| server_report(&node.node, server))
    });
    Report {
        servers: servers.collect(),
        findings: findings(deployment),
        nodes: deployment.nodes.len(),
        voting: deployment.nodes.iter().filter(|node| node.votes()).count(),
        needed: deployment.needed,
    }
}

fn server_report(node: &Arc<str>, server: &Server) -> ServerReport {
    let mut report = ServerReport {
        node: Arc::clone(node),
        server: Arc::clone(&server.name),
        state: ServerState::Votes,
        cause: None,
        round_trip: None,
        version: None,
        replicas: None,
    };
    match &server.found {
        Found::Embedded => report.version = Some("embedded".into()),
        Found::Trouble(trouble) => {
            report.state = match trouble.unfit {
                Some(_) => ServerState::Refused,
                None => ServerState::Down,
            };
            report.cause = Some(trouble.cause);
        }
        Found::Facts(facts) => {
            report.state = state(facts);
            report.round_trip = Some(facts.round_trip);
            if let Ok(info) = &facts.info {
                report.version = Some(format!("{} {}", info.product, info.version).into());
                report.replicas = Some(info.replicas.len());
            }
        }
    }
    report
}

/// What does not pass by itself comes first.
fn state(facts: &Facts) -> ServerState {
    match findings::lacks(facts) {
        Some(Missing::Permission(_)) => return ServerState::LacksPermission,
        Some(Missing::Command(_)) => return ServerState::LacksCommands,
        None => {}
    }
    match (&facts.standing, &facts.refuses_writes) {
        (Standing::Abstains { for_another, .. }, _) => ServerState::Abstains(*for_another),
        (Standing::Votes, Some(_)) => ServerState::RefusesWrites,
        (Standing::Votes, None) if !facts.has_replicas() => ServerState::LacksReplicas,
        (Standing::Votes, None) => ServerState::Votes,
    }
}

impl Redlock {
    /// The nodes, where none can be asked any more.
    fn unexamined(&self) -> Vec<(Arc<str>, Vec<Server>)> {
        let ended = || NodeError::from("the lock manager has ended");
        let silent = self.names().map(|name| {
            let server = Server {
                name: Arc::clone(name),
                found: Found::Trouble(ended().into()),
            };
            (Arc::clone(name), vec![server])
        });
        silent.collect()
    }
}
