//! What went wrong between the server and us, for an operator who knows certificates.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

use crate::node::trouble::{DownCause, Trouble};

/// Why there is no connection.
pub(super) fn broken(error: &io::Error) -> Trouble {
    match refusal(error) {
        Some(trouble) => trouble,
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            DownCause::PortIsPlain.because("connection closed during the TLS handshake")
        }
        None => format!("no TLS handshake: {error}").into(),
    }
}

/// What TLS has against a connection, if it is that.
pub(in crate::node) fn refusal(error: &io::Error) -> Option<Trouble> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(error) => DownCause::Certificate.because(of_certificate(error)),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(_) => DownCause::PortIsPlain.because("the port is one without TLS"),
        Error::PeerIncompatible(_) => {
            "the server has no version of TLS, or no cipher, in common with us".into()
        }
        _ => format!("TLS failed: {error}").into(),
    })
}

fn of_certificate(error: &CertificateError) -> String {
    /// A certificate may have hundreds.
    const NAMES: usize = 3;
    let wrong = match error {
        CertificateError::UnknownIssuer => "is of an authority that is not trusted",
        CertificateError::BadSignature => "was not signed by the authority that it names",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired, by the clock here"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet, by the clock here"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not one for servers (extended key usage)"
        }
        CertificateError::NotValidForName => "does not have its host's name",
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let mut names: Vec<_> = presented
                .iter()
                .take(NAMES)
                .map(|name| host(name))
                .collect();
            if presented.len() > NAMES {
                names.push("…".to_owned());
            }
            let names = match names.as_slice() {
                [] => "for no name at all: it has no subject alternative name".to_owned(),
                names => format!("for {}", names.join(", ")),
            };
            return format!(
                "the certificate of the server is not for {}, but {names}",
                expected.to_str()
            );
        }
        CertificateError::Other(other) if other.to_string().contains(AN_AUTHORITY) => {
            "is that of an authority (CA:TRUE), and servers need one of their own"
        }
        other => return format!("the certificate of the server cannot be used: {other}"),
    };
    format!("the certificate of the server {wrong}")
}

/// A name as verification shows it, `DnsName("host")`, as it is written in a URL. It is the server's, and may be anything.
fn host(presented: &str) -> String {
    const LONGEST: usize = 100;
    let name = ["DnsName(\"", "IpAddress("]
        .iter()
        .find_map(|kind| presented.strip_prefix(kind))
        .map_or(presented, |name| name.trim_end_matches(['"', ')']));
    let visible = |letter: char| {
        if letter.is_ascii_graphic() {
            letter
        } else {
            '?'
        }
    };
    name.chars().take(LONGEST).map(visible).collect()
}

/// What verification calls that, in a type of its own.
const AN_AUTHORITY: &str = "CaUsedAsEndEntity";

fn of_alert(alert: AlertDescription) -> Trouble {
    let own = |words: &str| DownCause::ClientCertificate.because(words);
    match alert {
        AlertDescription::CertificateRequired => {
            own("the server demands a client certificate, and none is given")
        }
        AlertDescription::UnknownCA => {
            own("the server does not trust the authority of the client certificate")
        }
        AlertDescription::CertificateExpired => {
            own("the client certificate has expired, by the server's clock")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => own(&format!(
            "the server refuses the client certificate: {alert:?}"
        )),
        // All that TLS 1.2 has to say for it.
        AlertDescription::HandshakeFailure => own(
            "the server refuses the TLS handshake: it demands a client certificate, or has no cipher in common with us",
        ),
        AlertDescription::ProtocolVersion => {
            "the server has no version of TLS in common with us".into()
        }
        other => format!("the server refuses TLS: {other:?}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_server_are_shown_as_names_and_nothing_else_of_it_is() {
        for (presented, shown) in [
            ("DnsName(\"redis.example\")", "redis.example"),
            ("IpAddress(10.0.0.1)", "10.0.0.1"),
            ("DnsName(\"a\nERROR b\u{1b}[0m\")", "a?ERROR?b?[0m"),
            ("Unsupported(0x80)", "Unsupported(0x80)"),
        ] {
            assert_eq!(host(presented), shown);
        }
        assert_eq!(host(&"x".repeat(1000)).len(), 100);
    }
}
