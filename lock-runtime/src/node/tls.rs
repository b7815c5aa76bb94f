//! TLS under a connection: whose certificates are trusted, and which one we show.

mod connector;
mod files;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use connector::Connector;
pub(super) use connector::Stream;
use files::Source;
pub(super) use words::refusal;

/// How a node behind TLS is reached: whose certificates are trusted, and which one is shown to it.
///
/// For a node whose URL begins with `rediss://`. The same can be written into the URL:
/// `rediss://host:6379?ca=/etc/redis/ca.pem&cert=/etc/redis/client.pem&key=/etc/redis/client.key`.
///
/// ```
/// use lock_runtime::{NodeSpec, Tls};
///
/// let tls = Tls::new().ca_file("/etc/redis/ca.pem").client_files("/etc/redis/client.pem", "/etc/redis/client.key");
/// let node = NodeSpec::from("rediss://:password@redis-1.example.org:6379").tls(tls);
/// ```
///
/// The server is verified, always: its certificate comes from a trusted authority, is valid today, and names the host of the
/// URL, a DNS name or an IP address, among its subject alternative names. TLS 1.2 and 1.3 are spoken.
///
/// What is named as a file is read when the manager is built, and again whenever a connection is made: certificates may be
/// renewed while the service runs. New ones that cannot be used are warned of once, and the last good ones stay in use. Open
/// connections stay as they are. Certificates that are given as bytes, and those of the system, stay what they were.
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "it is for a node: NodeSpec::from(url).tls(…)"]
pub struct Tls {
    /// `None`: the authorities that the system trusts.
    ca: Option<Source>,
    client: Option<Client>,
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    certificate: Source,
    key: Source,
}

impl Tls {
    /// Trusts the authorities that the system trusts, and shows no certificate.
    ///
    /// The system's authorities are those of its certificate store, or of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these
    /// environment variables are set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in this file and no others: one or more certificates in PEM.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(Source::File(path.into()));
        self
    }

    /// Trusts these authorities and no others: one or more certificates in PEM.
    pub fn ca_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.ca = Some(Source::Pem(Arc::from(pem.as_ref())));
        self
    }

    /// Shows a certificate to servers that demand one (`tls-auth-clients yes`). Both files are PEM: the certificate, with
    /// those of the authorities between it and the one that the server knows; and its private key, not encrypted.
    pub fn client_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.client = Some(Client {
            certificate: Source::File(certificate.into()),
            key: Source::File(key.into()),
        });
        self
    }

    /// The same, from PEM that is at hand.
    pub fn client_pem(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.client = Some(Client {
            certificate: Source::Pem(Arc::from(certificate.as_ref())),
            key: Source::Pem(Arc::from(key.as_ref())),
        });
        self
    }

    fn has_files(&self) -> bool {
        let client = self
            .client
            .iter()
            .flat_map(|client| [&client.certificate, &client.key]);
        self.ca
            .iter()
            .chain(client)
            .any(|source| matches!(source, Source::File(_)))
    }
}

/// Files by their names. Of what is given as bytes nothing is shown.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &self.ca)
            .field("client", &self.client)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let tls = Tls::new()
            .ca_file("/etc/ca.pem")
            .client_pem("hunter2", "hunter2");
        let shown = format!("{tls:?}");
        assert!(shown.contains("/etc/ca.pem"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"hunter2")), "{shown}");
    }
}
