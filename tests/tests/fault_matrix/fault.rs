//! What a row of the table says.

use lock_tests::Mode;
use lock_tests::version::is_before_7;
use std::time::Duration;

/// How long a node may take to answer. Longer than by default, as these machines are busy.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) const TTL: Duration = Duration::from_millis(1500);

/// The longest lease, and so long a node that restarted is kept out.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(3);

/// How long a waiter waits for nodes that do not come back.
pub(crate) const WAIT: Duration = Duration::from_millis(1500);

/// What is added to every bound for a machine that is busy. `docs/faults.md` has what was taken.
pub(crate) const ALLOWANCE: Duration = Duration::from_secs(1);

/// An unconfirmed release is repeated at least this often, where there is a connection.
pub(crate) const REDELIVERY: Duration = Duration::from_millis(500);

/// A connection is given up that has been silent for so long: four node timeouts.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a manager is doing when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being built.
    Connecting,
    /// It is connected, and is asked for a lock once.
    Acquiring,
    /// A body runs under a lock.
    Holding,
    /// It waits for a lock that somebody else has.
    Waiting,
    /// It gives a lock back.
    Releasing,
}

impl Phase {
    pub(crate) const ALL: [Self; 5] = [
        Self::Connecting,
        Self::Acquiring,
        Self::Holding,
        Self::Waiting,
        Self::Releasing,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Acquiring => "acquiring",
            Self::Holding => "holding",
            Self::Waiting => "waiting",
            Self::Releasing => "releasing",
        }
    }
}

/// How a phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As if nothing had happened.
    Works,
    /// `LockError::NoQuorum`.
    Outage,
    /// `LockError::Busy`.
    Busy,
    /// `LockError::Lost`, when the lease has run out.
    RunsOut,
    /// `LockError::Lost`, at the next renewal.
    Taken,
    /// `ReleaseError::Unreachable`.
    Unconfirmed,
    /// `ReleaseError::NotOwner`.
    NotOwner,
    /// It cannot come so far: `NoQuorum` before.
    Before,
}

impl Outcome {
    /// For the page.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Outage => "`NoQuorum`",
            Self::Busy => "`Busy`",
            Self::RunsOut => "`Lost` at the deadline",
            Self::Taken => "`Lost` at the next renewal",
            Self::Unconfirmed => "`Unreachable`",
            Self::NotOwner => "`NotOwner`",
            Self::Before => "–",
        }
    }

    /// How long it may take, before [`ALLOWANCE`]: from the fault, or where there is something to wait for, from its end.
    pub(crate) fn bound(self, phase: Phase) -> Duration {
        match (self, phase) {
            (Self::RunsOut | Self::Taken, _) | (Self::Works, Phase::Holding) => TTL,
            _ => NODE_TIMEOUT,
        }
    }
}

/// How each phase ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) connecting: Outcome,
    pub(crate) acquiring: Outcome,
    pub(crate) holding: Outcome,
    pub(crate) waiting: Outcome,
    pub(crate) releasing: Outcome,
}

impl Row {
    pub(crate) const WORKS: Self = Self::all(Outcome::Works);

    /// The nodes can do nothing.
    pub(crate) const OUTAGE: Self = Self {
        holding: Outcome::RunsOut,
        releasing: Outcome::Unconfirmed,
        ..Self::all(Outcome::Outage)
    };

    pub(crate) const fn all(outcome: Outcome) -> Self {
        Self {
            connecting: outcome,
            acquiring: outcome,
            holding: outcome,
            waiting: outcome,
            releasing: outcome,
        }
    }

    pub(crate) fn of(self, phase: Phase) -> Outcome {
        match phase {
            Phase::Connecting => self.connecting,
            Phase::Acquiring => self.acquiring,
            Phase::Holding => self.holding,
            Phase::Waiting => self.waiting,
            Phase::Releasing => self.releasing,
        }
    }
}

/// How a node is named in an error: one of these phrases has to follow its address. What is known of it grows with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    /// By a manager that is new.
    pub(crate) first: &'static [&'static str],
    /// By one that was connected.
    pub(crate) then: &'static [&'static str],
    /// When it has been so for a while.
    pub(crate) later: &'static [&'static str],
}

impl Said {
    pub(crate) const NOTHING: Self = Self::always(&[]);

    pub(crate) const fn always(phrases: &'static [&'static str]) -> Self {
        Self {
            first: phrases,
            then: phrases,
            later: phrases,
        }
    }

    pub(crate) fn in_phase(&self, phase: Phase) -> Vec<&'static str> {
        match phase {
            Phase::Connecting => self.first.to_vec(),
            Phase::Acquiring | Phase::Releasing => self.then.to_vec(),
            // By the first renewal after the fault, or by the last.
            Phase::Holding => [self.then, self.later].concat(),
            Phase::Waiting => self.later.to_vec(),
        }
    }
}

/// When a manager works again, once the fault is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// With the next connection.
    AtOnce,
    /// When connections have been given up that do not answer.
    WhenNoticed,
    /// When no lease can be left that a node has forgotten: it restarted, or was a replica.
    WhenOld,
    /// Not while the process lives: it was given the wrong address.
    WithAnother,
}

impl Back {
    pub(crate) fn bound(self) -> Duration {
        match self {
            Self::AtOnce | Self::WithAnother => NODE_TIMEOUT,
            Self::WhenNoticed => NODE_TIMEOUT + PATIENCE,
            // An uptime is in whole seconds: one is added to be safe, and one may be lost.
            Self::WhenOld => NODE_TIMEOUT + MAX_TTL + Duration::from_secs(2),
        }
    }

    /// For the page.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::WhenNoticed => "when the silence is noticed: 5 × `node_timeout`",
            Self::WhenOld => "`max_ttl` and a second or two",
            Self::WithAnother => "with another manager",
        }
    }
}

/// How a node is broken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Means {
    /// Its connections, in one way for each phase.
    Network(fn(Phase) -> Mode),
    /// Open connections are reset.
    Reset,
    /// Open connections are forgotten on the way.
    Forget,
    /// Open connections are reset, and nothing answers those who connect, as where a firewall drops packets.
    DropPackets,
    /// `CLIENT KILL TYPE normal`.
    KillClients,
    /// `SIGKILL`; restarted to end it.
    Kill,
    /// `SIGKILL`, and there again without its data.
    Restart,
    /// `SIGSTOP`.
    Stop,
    /// `CLIENT PAUSE … WRITE`.
    PauseWrites,
    /// `DEBUG RELOAD` of data that takes its time.
    Load,
    /// A script without an end.
    EndlessScript,
    /// `BGSAVE` fails, and writes are stopped by that.
    FailingSave,
    /// `maxmemory` is reached, and nothing may be evicted.
    FullMemory,
    /// It is a replica now, of a master that is away.
    Replica,
    /// It wants a password from now on, and the manager has none.
    PasswordWanted,
    /// It has another password now.
    PasswordChanged,
    /// The manager's user has other permissions now: these rules are applied.
    Permissions(&'static [&'static str]),
    /// `maxclients` is reached.
    FullOfClients,
    /// An application's list is under the lock's key.
    ForeignType,
    /// The lock's key is somebody else's.
    Overwritten,
    /// The lock's key is deleted.
    Deleted,
    /// `SCRIPT FLUSH`.
    ScriptFlush,
    /// `FLUSHALL`.
    FlushAll,
    /// `allkeys-lru` under pressure.
    Evict,
    /// The port is one for TLS.
    TlsPort,
    /// Something else than Redis answers.
    Stub(crate::stub::Manner),
    /// The manager was given a name that nobody knows.
    UnknownName,
    /// The manager was given a `rediss://` URL, and there is no TLS.
    TlsUrl,
}

impl Means {
    /// The manager was given a wrong address, so the fault is there from the beginning and to the end.
    pub(crate) fn is_in_the_url(self) -> bool {
        matches!(self, Self::UnknownName | Self::TlsUrl)
    }

    /// A server forgets which life it was admitted in. One that is young then has no vote for another client.
    pub(crate) fn forgets_the_marker(self) -> bool {
        matches!(self, Self::FlushAll | Self::Evict)
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Fault {
    /// What has happened, in an operator's words, for the page.
    pub(crate) what: &'static str,
    pub(crate) means: Means,
    /// What comes of it when a majority of several nodes is like this.
    pub(crate) majority: Row,
    /// And when it is the only node.
    pub(crate) alone: Row,
    /// With a majority and with one node, where the server is Redis 6.2 and differs.
    pub(crate) before_7: Option<Row>,
    /// And where it says something else.
    said_before_7: Option<Said>,
    pub(crate) said: Said,
    pub(crate) back: Back,
}

impl Fault {
    /// With one node as with several.
    pub(crate) const fn new(what: &'static str, means: Means, row: Row, said: Said) -> Self {
        Self {
            what,
            means,
            majority: row,
            alone: row,
            said,
            before_7: None,
            said_before_7: None,
            back: Back::AtOnce,
        }
    }

    pub(crate) const fn alone(self, alone: Row) -> Self {
        Self { alone, ..self }
    }

    pub(crate) const fn before_7(self, row: Row) -> Self {
        let before_7 = Some(row);
        Self { before_7, ..self }
    }

    pub(crate) const fn says_before_7(self, said: Said) -> Self {
        let said_before_7 = Some(said);
        Self {
            said_before_7,
            ..self
        }
    }

    /// What the server says that these tests run with.
    pub(crate) fn says(&self) -> Said {
        match self.said_before_7 {
            Some(said) if is_before_7() => said,
            _ => self.said,
        }
    }

    pub(crate) const fn back(self, back: Back) -> Self {
        Self { back, ..self }
    }
}
