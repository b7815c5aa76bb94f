//! Certificates and keys as they are given: PEM, in files or at hand.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

use super::Tls;

/// Where a certificate or a key is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    Pem(Arc<[u8]>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Pem(_) => f.write_str("PEM"),
        }
    }
}

/// Several times what a system has of authorities.
const LARGEST: u64 = 1 << 20;

impl Source {
    /// Opening something else than a file may never end, and so may reading it.
    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        let path = match self {
            Self::Pem(pem) => return Ok(Cow::Borrowed(pem)),
            Self::File(path) => path,
        };
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut bytes = Vec::new();
        let read = File::open(path)?
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)?;
        if read as u64 > LARGEST {
            return Err(io::Error::other("it is larger than 1 MiB"));
        }
        Ok(Cow::Owned(bytes))
    }
}

/// One of the three things that are given, and what it is called.
struct Part<'a> {
    what: &'static str,
    source: &'a Source,
    pem: Cow<'a, [u8]>,
}

impl<'a> Part<'a> {
    fn read(what: &'static str, source: &'a Source) -> Result<Self, String> {
        match source.bytes() {
            Ok(pem) => Ok(Self { what, source, pem }),
            Err(error) => Err(format!("{what} cannot be read from {source:?}: {error}")),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.pem).collect();
        match found {
            Ok(found) if found.is_empty() => Err(self.wrong("there is no certificate in it")),
            Ok(found) => Ok(found),
            // What was found may be a key.
            Err(_) => Err(self.wrong("it is not PEM")),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.pem)
            .map_err(|_| self.wrong("there is no private key in it, in PEM and not encrypted"))
    }

    fn wrong(&self, why: &str) -> String {
        let Self { what, source, .. } = self;
        format!("{what} ({source:?}): {why}")
    }
}

/// Everything that is given, read at one time.
pub(super) struct Material<'a> {
    ca: Option<Part<'a>>,
    client: Option<(Part<'a>, Part<'a>)>,
}

impl<'a> Material<'a> {
    /// # Errors
    ///
    /// What cannot be read, in words that show nothing of its contents.
    pub(super) fn read(tls: &'a Tls) -> Result<Self, String> {
        let ca = tls.ca.as_ref();
        let ca = ca.map(|source| Part::read("the CA certificates", source));
        let client = tls.client.as_ref().map(|client| {
            let certificate = Part::read("the client certificate", &client.certificate)?;
            let key = Part::read("the key of the client certificate", &client.key)?;
            Ok::<_, String>((certificate, key))
        });
        Ok(Self {
            ca: ca.transpose()?,
            client: client.transpose()?,
        })
    }

    /// Whether it is the same as another time.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let client = self.client.iter().flat_map(|(one, other)| [one, other]);
        for part in self.ca.iter().chain(client) {
            part.pem.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// # Errors
    ///
    /// What of it cannot be used, in words that show nothing of it.
    pub(super) fn configuration(
        &self,
        system: Option<&Arc<RootCertStore>>,
    ) -> Result<Arc<ClientConfig>, String> {
        let trusted = match (&self.ca, system) {
            (Some(ca), _) => Arc::new(own_roots(ca)?),
            (None, Some(system)) => Arc::clone(system),
            (None, None) => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("no TLS: {error}"))?
            .with_root_certificates(trusted);
        let mut configuration = match &self.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificate.certificates()?, key.key()?)
                .map_err(|error| match error {
                    Error::InconsistentKeys(_) => key.wrong("it is the key of another certificate"),
                    Error::InvalidCertificate(_) => {
                        certificate.wrong("it is not a certificate that can be shown")
                    }
                    _ => key.wrong("it is not a key that can be used"),
                })?,
        };
        // A connection that goes on where an earlier one was does not look at certificates again.
        configuration.resumption = Resumption::disabled();
        Ok(Arc::new(configuration))
    }
}

fn own_roots(ca: &Part<'_>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.certificates()? {
        roots
            .add(certificate)
            .map_err(|_| ca.wrong("one of them is not a certificate that can be used"))?;
    }
    Ok(roots)
}

/// # Errors
///
/// Where the system has none, as in many an image for containers.
pub(super) fn system_roots() -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this system trusts no certificate authority: install its package ca-certificates, or name the CA of the server"
                .to_owned(),
        );
    }
    Ok(Arc::new(roots))
}
