//! The side of TLS that is the server's.

use super::{Options, RedisServer};
use crate::certificates::{Authority, Certificate, replace};
use std::ffi::OsString;
use std::net::SocketAddr;

/// A server's side of TLS.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    certificate: Certificate,
    /// At its port, and not at another.
    alone: bool,
    /// Who has to have signed the certificates of clients, and one of them.
    demands: Option<Certificate>,
}

impl Options {
    /// A second port, [`RedisServer::tls_address`], on which the server speaks TLS.
    #[must_use]
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.tls = Some(Tls {
            certificate: certificate.clone(),
            alone: false,
            demands: None,
        });
        self
    }

    /// Clients reach the server over TLS and in no other way: [`RedisServer::url`] is a `rediss://` that trusts whoever signed
    /// the certificate. The harness itself asks at another port.
    #[must_use]
    pub fn behind_tls(mut self, certificate: &Certificate) -> Self {
        self.tls = Some(Tls {
            certificate: certificate.clone(),
            alone: true,
            demands: None,
        });
        self
    }

    /// Clients must show a certificate that this authority has signed; [`RedisServer::url`] has one.
    #[must_use]
    pub fn demanding_certificates_of(mut self, authority: &Authority) -> Self {
        let tls = self.tls.as_mut().expect("a server with TLS");
        tls.demands = Some(authority.certificate());
        self
    }
}

impl RedisServer {
    /// Where the server speaks TLS, if its options say so.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        let tls = self.options.tls.as_ref()?;
        let other = self.other_port.as_ref().filter(|_| !tls.alone);
        Some(other.unwrap_or(&self.port).address())
    }

    /// Has the server show another certificate when it starts the next time. Its URL trusts whoever signed that.
    pub fn renew_certificate(&self, certificate: &Certificate) {
        replace(&self.file("server.pem"), &certificate.pem);
        replace(&self.file("server.key"), &certificate.key);
        replace(&self.file("issuer.pem"), &certificate.issuer);
    }

    /// Has the server demand certificates of another authority when it starts the next time. Its URL has one.
    pub fn renew_demands(&self, authority: &Authority) {
        self.write_demands(&authority.certificate());
    }

    /// The URL of this server for whoever reaches it at another address, such as a proxy's.
    pub(crate) fn url_through(&self, name: &str) -> String {
        let login = self.login();
        match self.tls_options() {
            Some(options) => format!("rediss://{login}{name}?{options}"),
            None => format!("redis://{login}{name}"),
        }
    }

    /// What is in the URL of a client for TLS, where there is no other way.
    pub(crate) fn tls_options(&self) -> Option<String> {
        let tls = self.options.tls.as_ref().filter(|tls| tls.alone)?;
        let file = |name| self.file(name).display().to_string();
        let mut options = format!("ca={}", file("issuer.pem"));
        if tls.demands.is_some() {
            options = format!(
                "{options}&cert={}&key={}",
                file("client.pem"),
                file("client.key")
            );
        }
        Some(options)
    }

    /// Where the harness asks, whatever clients have to do: as the default user, who may do everything.
    pub fn questions_url(&self) -> String {
        let alone = self.options.tls.as_ref().is_some_and(|tls| tls.alone);
        let other = self.other_port.as_ref().filter(|_| alone);
        let address = other.unwrap_or(&self.port).address();
        format!("redis://{}{address}", self.default_login())
    }

    pub(super) fn write_certificates(&self) {
        let Some(tls) = &self.options.tls else { return };
        self.renew_certificate(&tls.certificate);
        if let Some(client) = &tls.demands {
            self.write_demands(client);
        }
    }

    fn write_demands(&self, client: &Certificate) {
        replace(&self.file("clients.pem"), &client.issuer);
        replace(&self.file("client.pem"), &client.pem);
        replace(&self.file("client.key"), &client.key);
    }

    /// Which port is for what.
    pub(super) fn port_arguments(&self) -> Vec<OsString> {
        let own = self.port().to_string();
        let (Some(tls), Some(other)) = (&self.options.tls, &self.other_port) else {
            return vec!["--port".into(), own.into()];
        };
        let other = other.number().to_string();
        let (plain, behind_tls) = if tls.alone {
            (other, own)
        } else {
            (own, other)
        };
        let file = |name| self.file(name).into_os_string();
        let mut arguments: Vec<OsString> = vec![
            "--port".into(),
            plain.into(),
            "--tls-port".into(),
            behind_tls.into(),
            "--tls-cert-file".into(),
            file("server.pem"),
            "--tls-key-file".into(),
            file("server.key"),
            "--tls-auth-clients".into(),
            if tls.demands.is_some() { "yes" } else { "no" }.into(),
        ];
        // Whom it trusts itself, as a client of other servers or with clients of its own.
        let trusted = match tls.demands {
            Some(_) => "clients.pem",
            None => "issuer.pem",
        };
        arguments.extend(["--tls-ca-cert-file".into(), file(trusted)]);
        if tls.alone {
            arguments.extend(["--tls-replication".into(), "yes".into()]);
            if self.options.in_cluster {
                arguments.extend(["--tls-cluster".into(), "yes".into()]);
            }
        }
        arguments
    }
}
