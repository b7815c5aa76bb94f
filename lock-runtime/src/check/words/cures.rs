//! What to change about a node that cannot be used, or takes no writes, by what is wrong with it.

use std::sync::Arc;

use crate::check::finding::DownCause;

/// What to change about a node that cannot be used.
pub(super) fn of_down(cause: DownCause) -> &'static str {
    match cause {
        DownCause::NotListening => {
            "start it, and have it listen there (port, bind); or the host and port at which it listens in its URL; or, if it is gone \
             for good, name a server in its place that is started after that, for all clients of the locks"
        }
        DownCause::UnknownHost => {
            "the name of the host in its URL, or what is known of it here (DNS, /etc/hosts)"
        }
        DownCause::Silent => {
            "what is between: a firewall, a network policy, a route, the DNS; a server that hangs; or its host in its URL"
        }
        DownCause::Login => {
            "user and password in its URL as the server has them, redis://user:password@host or redis://:password@host (ACL LIST, \
             requirepass); none where it has none"
        }
        DownCause::NotPermitted => "the ACL rule of the README for this user, on the node",
        DownCause::Loading => {
            "nothing, if it has started a moment ago: it is used once its data is read"
        }
        DownCause::NotRedis => {
            "its host and port: something else listens there, or something on the way answers for it"
        }
        DownCause::PortIsTls => {
            "rediss:// in its URL, with the feature tls; or its port without TLS"
        }
        DownCause::PortIsPlain => "redis:// in its URL; or its port for TLS (tls-port)",
        DownCause::Certificate => {
            "ca= in its URL, with the authority that has signed the server's certificate; or a certificate for the host that \
             is in its URL (subject alternative name)"
        }
        DownCause::ClientCertificate => {
            "cert= and key= in its URL, with a certificate of an authority that the server trusts (tls-ca-cert-file); or \
             tls-auth-clients no, on the server"
        }
        DownCause::IsSentinel => {
            "redis+sentinel://host:26379,host:26379/group, with all sentinels and the name of the group"
        }
        DownCause::NotInCluster => "redis:// in its URL; or the servers of a cluster",
        DownCause::UnknownGroup => {
            "the name of the group behind the / in its URL, as in sentinel monitor (SENTINEL MASTERS lists them)"
        }
        DownCause::NotSentinel => {
            "the hosts and ports of the sentinels in its URL, usually 26379, and not those of the servers"
        }
        DownCause::SentinelLogin => {
            "sentinel_user= and sentinel_password= in its URL, as the sentinels have them; that user needs +sentinel|master and \
             +sentinel|get-master-addr-by-name"
        }
        DownCause::Sentinels => {
            "all of its sentinels in its URL, each by a name of its own, of which a majority must answer; SENTINEL RESET on each, \
             one after the other, if some of them are gone for good"
        }
        DownCause::Other => {
            "what it says; or stop it for good, and then name a server in its place that is started after that, for all clients of \
             the locks"
        }
    }
}

/// What to change about a user who lacks these rules. Where names are not permitted they may also be the wrong ones: a check that was
/// not told the prefix of the service tries names that nobody needs, and what would permit these opens everything.
pub(super) fn of_permissions(rules: &[Arc<str>]) -> String {
    let permit = format!("ACL SETUSER <user> {}, on the node", rules.join(" "));
    if !rules.iter().any(|rule| rule.starts_with(['~', '&'])) {
        return permit;
    }
    let opens_all = rules.iter().any(|rule| matches!(&**rule, "~*" | "&*"));
    let price = if opens_all {
        ": it opens every key or channel to that user"
    } else {
        ""
    };
    format!(
        "the prefix of the service (LockManagerBuilder::prefix, or --prefix of the program that checks), if it has another one than \
         was tried here; only if not, {permit}{price}"
    )
}

/// What to change about a server that refuses writes in these words.
pub(super) fn of_refused_writes(reason: &str) -> &'static str {
    match reason.split(' ').next().unwrap_or_default() {
        "LOADING" => of_down(DownCause::Loading),
        "OOM" => "more maxmemory, or other keys on another server",
        "MISCONF" => "space and permissions of its directory; its log has more",
        "NOREPLICAS" => "more replicas that are connected, or a smaller min-replicas-to-write",
        _ => "what the server says; its log has more",
    }
}
