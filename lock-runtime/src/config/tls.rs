//! From what a URL or a builder says of TLS to what makes connections.

use std::sync::Arc;

use super::node_url::Server;
use crate::node::redis::Connector;

/// Nodes that are given the same share one, which reads their certificates once.
#[derive(Default)]
pub(super) struct Connectors {
    #[cfg(feature = "tls")]
    open: Vec<Arc<Connector>>,
}

#[cfg(feature = "tls")]
mod given {
    use super::{Arc, Connector, Connectors, Server};
    use crate::config::node_url::{TlsFiles, Whereabouts};
    use crate::node::redis::{Address, Tls};

    impl Connectors {
        /// For a server that is reached over TLS; `beside` is what was given beside its URL.
        ///
        /// # Errors
        ///
        /// What of it cannot be used, in words that show nothing of the contents of files.
        pub(in crate::config) fn of(
            &mut self,
            server: &Server,
            beside: Option<Tls>,
        ) -> Result<Option<Arc<Connector>>, String> {
            let tls = match (&server.tls, beside) {
                (None, None) => return Ok(None),
                (None, Some(_)) => {
                    return Err("it is given what is for TLS, and its URL is not rediss://".into());
                }
                (Some(_), Some(_)) if server.tls != Some(TlsFiles::default()) => {
                    return Err("what is for TLS is in its URL and also given beside it".into());
                }
                (Some(_), Some(tls)) => tls,
                (Some(files), None) => of_files(files),
            };
            let hosts = match &server.whereabouts {
                Whereabouts::Server(host) => std::slice::from_ref(host),
                Whereabouts::Sentinels(sentinels) => &sentinels.hosts,
                Whereabouts::Cluster(hosts) => hosts,
            };
            let cannot = |host: &Address| match host {
                Address::Tcp(host, _) => !Connector::can_verify(host),
                Address::Unix(_) => true,
            };
            if hosts.iter().any(cannot) {
                return Err("its host is no name that a certificate could have".into());
            }
            if let Some(open) = self.open.iter().find(|open| open.is_of(&tls)) {
                return Ok(Some(Arc::clone(open)));
            }
            let connector = Connector::open(tls)?;
            self.open.push(Arc::clone(&connector));
            Ok(Some(connector))
        }
    }

    fn of_files(files: &TlsFiles) -> Tls {
        let mut tls = Tls::new();
        if let Some(ca) = &files.ca {
            tls = tls.ca_file(ca);
        }
        if let Some((certificate, key)) = &files.identity {
            tls = tls.client_files(certificate, key);
        }
        tls
    }
}

#[cfg(not(feature = "tls"))]
impl Connectors {
    /// None: there is no TLS.
    #[allow(clippy::unused_self, reason = "with TLS it has what is shared")]
    pub(super) fn of(&mut self, server: &Server) -> Result<Option<Arc<Connector>>, String> {
        match server.tls {
            None => Ok(None),
            Some(_) => Err("for TLS, switch on the feature `tls` of lock-runtime".into()),
        }
    }
}
