//! Certificates for servers and clients, made for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Who signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// What somebody shows, and the key to it. All is PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate.
    pub pem: String,
    /// Its private key.
    pub key: String,
    /// The certificate of whoever signed it.
    pub issuer: String,
}

/// From when to when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// For centuries.
    Now,
    /// It has expired.
    Past,
    /// It is not valid yet.
    Future,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new("an authority of the tests")
    }
}

impl Authority {
    /// An authority of its own, also where there is another of the same name.
    pub fn new(name: &str) -> Self {
        let mut wanted = CertificateParams::default();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(wanted, new_key());
        Self {
            issuer: issuer.expect("an authority"),
        }
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// For servers on this machine, and for clients.
    pub fn certificate(&self) -> Certificate {
        self.certificate_for(&["127.0.0.1", "::1", "localhost"], Validity::Now)
    }

    /// For these hosts, DNS names and IP addresses.
    pub fn certificate_for(&self, hosts: &[&str], validity: Validity) -> Certificate {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut wanted = CertificateParams::new(hosts).expect("names of hosts");
        match validity {
            Validity::Now => {}
            Validity::Past => wanted.not_after = date_time_ymd(2020, 1, 1),
            Validity::Future => wanted.not_before = date_time_ymd(3000, 1, 1),
        }
        wanted
            .distinguished_name
            .push(DnType::CommonName, "a server or a client of the tests");
        wanted.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = new_key();
        let signed = wanted.signed_by(&key, &self.issuer).expect("a signature");
        Certificate {
            pem: signed.pem(),
            key: key.serialize_pem(),
            issuer: self.pem(),
        }
    }
}

impl Certificate {
    /// One that nobody else has signed, of the sort that `openssl req -x509` makes: an authority's, and shown by a server.
    pub fn self_signed_authority() -> Self {
        let mut wanted = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self::self_signed(&wanted)
    }

    /// One that nobody else has signed, of a server on this machine.
    pub fn self_signed_server() -> Self {
        Self::self_signed(
            &CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address"),
        )
    }

    fn self_signed(wanted: &CertificateParams) -> Self {
        let key = new_key();
        let pem = wanted.self_signed(&key).expect("a signature").pem();
        Self {
            issuer: pem.clone(),
            pem,
            key: key.serialize_pem(),
        }
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// A client's files, where those who run the client keep them.
#[derive(Debug)]
pub struct ClientFiles {
    directory: TempDir,
}

impl ClientFiles {
    /// Trusts this authority, and shows this certificate.
    pub fn new(trusted: &Authority, shown: &Certificate) -> Self {
        let files = Self {
            directory: TempDir::with_prefix("lock-tests-").expect("a temporary directory"),
        };
        files.trust(&trusted.pem());
        files.show(shown);
        files
    }

    /// Replaces what is trusted.
    pub fn trust(&self, pem: &str) {
        replace(&self.ca(), pem);
    }

    /// Replaces what is shown.
    pub fn show(&self, shown: &Certificate) {
        replace(&self.certificate(), &shown.pem);
        replace(&self.key(), &shown.key);
    }

    /// The file of those who are trusted.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// The file of the client's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("client.pem")
    }

    /// The file of its key.
    pub fn key(&self) -> PathBuf {
        self.directory.path().join("client.key")
    }

    /// What comes behind the `?` of a node's URL.
    pub fn options(&self) -> String {
        format!(
            "ca={}&cert={}&key={}",
            self.ca().display(),
            self.certificate().display(),
            self.key().display()
        )
    }
}

/// In one step, as whoever renews certificates does.
pub(crate) fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).expect("the directory is ours");
    std::fs::rename(next, path).expect("the directory is ours");
}
