//! What a check has found, for a person and for a program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::finding::{DownCause, Finding, Severity};
use crate::table::Table;

const NO_PERMISSION: &str = "no permission";

/// The nodes as a [check](crate::LockManager::check) found them, and what there is to be said of them.
///
/// It is shown as text for a person: a table of the nodes, and the findings, worst first, each with what can go wrong and what
/// to change. The wording may change in any release; programs match on [`FindingKind`](crate::FindingKind).
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) servers: Vec<ServerReport>,
    pub(super) findings: Vec<Finding>,
    pub(super) nodes: usize,
    pub(super) voting: usize,
    pub(super) needed: usize,
}

/// A server of a node, as it was found. Most nodes have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    pub(super) node: Arc<str>,
    pub(super) server: Arc<str>,
    pub(super) state: ServerState,
    /// Why it cannot be used.
    pub(super) cause: Option<DownCause>,
    pub(super) round_trip: Option<Duration>,
    pub(super) version: Option<Arc<str>>,
    pub(super) replicas: Option<usize>,
}

/// What can be expected of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerState {
    /// It has a vote.
    Votes,
    /// It restarted, or is new, and has no vote for so much longer.
    Abstains(Duration),
    /// It answers, and takes no writes.
    RefusesWrites,
    /// It answers, and has fewer replicas than must have a lock.
    LacksReplicas,
    /// It answers, and its user may not do what every lock needs.
    LacksPermission,
    /// It answers, and does not know a command that every lock needs.
    LacksCommands,
    /// It answers, and must not have a vote: it is a replica, or the server of another node too.
    Refused,
    /// It cannot be reached or used.
    Down,
}

impl Report {
    /// Whether no [`Problem`](Severity::Problem) was found: a lock that is held is not granted again by an event that is to
    /// be expected, whoever asks is answered, and every node has a vote or will have one. What a check cannot see stays unsaid:
    /// whether all clients are given the same nodes, `max_ttl` and prefix, and whether clocks run at the same speed.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        !self
            .findings
            .iter()
            .any(|finding| finding.severity() == Severity::Problem)
    }

    /// What there is to be said, worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The servers of all nodes, in the order of the nodes.
    #[must_use]
    pub fn servers(&self) -> &[ServerReport] {
        &self.servers
    }

    fn count(&self, severity: Severity) -> usize {
        let all = self.findings.iter();
        all.filter(|finding| finding.severity() == severity).count()
    }
}

impl ServerReport {
    /// The node that it belongs to, as errors name it.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Itself: the node's name, where the node has one server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What can be expected of it.
    #[must_use]
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// The median of five `PING`s one after the other, over the connection that locks use. Includes what this process and the
    /// server need to get to it. `None`: it did not answer, or is a part of this process.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// What it is and in which version, as `redis 7.0.15`. `None`: it did not say.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// How many replicas it has. `None`: it did not say.
    #[must_use]
    pub fn replicas(&self) -> Option<usize> {
        self.replicas
    }

    fn role(&self) -> String {
        match self.replicas {
            None => "-".to_owned(),
            Some(0) => "primary".to_owned(),
            Some(1) => "primary, 1 replica".to_owned(),
            Some(replicas) => format!("primary, {replicas} replicas"),
        }
    }

    /// Its state in a word. What runs, and does not get on with this client, is not called down.
    fn state_word(&self) -> String {
        match self.cause {
            Some(DownCause::Login | DownCause::Certificate | DownCause::ClientCertificate) => {
                "refused".to_owned()
            }
            Some(DownCause::NotPermitted) => NO_PERMISSION.to_owned(),
            _ => self.state.to_string(),
        }
    }

    fn cells(&self) -> [String; 5] {
        // A server of a cluster says which, by the name of the node.
        let name = if self.server.contains(&*self.node) {
            self.server.to_string()
        } else {
            format!("{} {}", self.node, self.server)
        };
        let round_trip = self.round_trip.map(|took| format!("{took:.2?}"));
        let version = self.version.as_deref().map(str::to_owned);
        let unknown = || "-".to_owned();
        [
            name,
            self.state_word(),
            round_trip.unwrap_or_else(unknown),
            version.unwrap_or_else(unknown),
            self.role(),
        ]
    }
}

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Votes => f.write_str("votes"),
            Self::Abstains(for_another) => {
                let seconds = for_another.as_millis().div_ceil(1000);
                write!(f, "no vote for {seconds} s")
            }
            Self::RefusesWrites => f.write_str("takes no writes"),
            Self::LacksReplicas => f.write_str("lacks replicas"),
            Self::LacksPermission => f.write_str(NO_PERMISSION),
            Self::LacksCommands => f.write_str("lacks commands"),
            Self::Refused => f.write_str("refused"),
            Self::Down => f.write_str("down"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::headed(["node", "state", "round trip", "version", "role"]);
        for server in &self.servers {
            table.push(server.cells());
        }
        let counts = [Severity::Problem, Severity::Warning, Severity::Note].map(|severity| {
            let count = self.count(severity);
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {severity}{plural}")
        });
        let Self {
            nodes,
            voting,
            needed,
            ..
        } = self;
        let of_nodes = if *nodes == 1 {
            "node votes"
        } else {
            "nodes vote"
        };
        writeln!(
            f,
            "{table}\n{voting} of {nodes} {of_nodes}, and {needed} must. {}.",
            counts.join(", ")
        )?;
        for finding in &self.findings {
            writeln!(f, "\n{finding}")?;
        }
        Ok(())
    }
}
