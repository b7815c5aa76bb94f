//! Why there is no connection to a server that could be used.

use std::fmt;
use std::sync::Arc;

use super::NodeError;
use super::address::Address;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// In words for an operator. Never holds a password.
    pub(crate) reason: Arc<str>,
    pub(crate) cause: DownCause,
    /// It could be used, and is refused.
    pub(crate) unfit: Option<Unfit>,
}

/// What is wrong where a node cannot be used, as far as it can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DownCause {
    /// Nothing listens there.
    NotListening,
    /// Nobody knows the name of its host.
    UnknownHost,
    /// An answer does not come in time: from whoever knows the addresses of hosts, from the network, or from the server.
    Silent,
    /// A user and a password are missing, or not those of the server.
    Login,
    /// The user may not do what every connection needs.
    NotPermitted,
    /// The server reads its data.
    Loading,
    /// What answers is not Redis.
    NotRedis,
    /// The port is one for TLS, and the URL is not.
    PortIsTls,
    /// The URL is for TLS, and the port is not.
    PortIsPlain,
    /// The certificate of the server is not one for its host, or not of an authority that is trusted.
    Certificate,
    /// The server wants another certificate of this client, or any.
    ClientCertificate,
    /// It is a Sentinel, and named as a server.
    IsSentinel,
    /// It is named as a server of a Redis Cluster, and is one by itself.
    NotInCluster,
    /// Its sentinels do not know the group.
    UnknownGroup,
    /// What is named as a sentinel is none.
    NotSentinel,
    /// Its sentinels do not let this client in, or do not answer what it asks.
    SentinelLogin,
    /// Too few of its sentinels answer, or they do not agree.
    Sentinels,
    /// What the words say.
    #[default]
    Other,
}

impl DownCause {
    pub(super) fn because(self, reason: impl Into<Arc<str>>) -> Trouble {
        Trouble {
            reason: reason.into(),
            cause: self,
            unfit: None,
        }
    }
}

/// Why a server that answers must not have a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Replica {
        /// Its primary, where it says.
        of: Option<Box<str>>,
    },
    Sentinel,
    /// It has some of the keys.
    OfCluster,
    /// It is given as a server of a cluster.
    ByItself,
    /// Another node of the manager has it.
    SameServer {
        node: Arc<str>,
    },
}

impl Trouble {
    /// With the server that sentinels named. That they name a replica passes, so it is nothing to be mended.
    pub(super) fn of_primary(self, address: &Address) -> Self {
        let Self {
            reason,
            cause,
            unfit,
        } = self;
        Self {
            cause,
            reason: format!("its primary {address}: {reason}").into(),
            unfit: unfit.filter(|unfit| !matches!(unfit, Unfit::Replica { .. })),
        }
    }
}

impl From<Unfit> for Trouble {
    fn from(unfit: Unfit) -> Self {
        Self {
            reason: unfit.to_string().into(),
            cause: match unfit {
                Unfit::Sentinel => DownCause::IsSentinel,
                Unfit::ByItself => DownCause::NotInCluster,
                Unfit::Replica { .. } | Unfit::OfCluster | Unfit::SameServer { .. } => {
                    DownCause::Other
                }
            },
            unfit: Some(unfit),
        }
    }
}

impl From<Arc<str>> for Trouble {
    fn from(reason: Arc<str>) -> Self {
        DownCause::Other.because(reason)
    }
}

impl From<NodeError> for Trouble {
    fn from(error: NodeError) -> Self {
        error.into_words().into()
    }
}

impl From<&str> for Trouble {
    fn from(reason: &str) -> Self {
        Arc::<str>::from(reason).into()
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Arc::<str>::from(reason).into()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica { of: Some(primary) } => {
                write!(
                    f,
                    "it is a replica of {primary}: a node has to be a primary"
                )
            }
            Self::Replica { of: None } => {
                f.write_str("it is a replica: a node has to be a primary")
            }
            Self::Sentinel => f.write_str("it is a Sentinel, and not a server that keeps locks"),
            Self::OfCluster => f.write_str(
                "it is a server of a Redis Cluster, which is written redis+cluster://",
            ),
            Self::ByItself => f.write_str(
                "it is not a server of a Redis Cluster, but one by itself, which is written redis://",
            ),
            Self::SameServer { node } => write!(
                f,
                "it is the server of node {node} too: its vote would count twice"
            ),
        }
    }
}
