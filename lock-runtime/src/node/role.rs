//! What a server says it is.

use super::trouble::Unfit;
use super::words::visible;

/// A field of what a server answers to `INFO`.
pub(super) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.find_map(|(field, value)| (field == name).then_some(value.trim()))
}

/// As Redis says it, or Valkey.
fn mode(info: &str) -> Option<&str> {
    info_field(info, "redis_mode").or_else(|| info_field(info, "server_mode"))
}

/// Only a primary can be a node: a replica has what its primary has, some time later, so the two would be one voter who
/// changes his mind. A server that may not be asked is taken for one.
///
/// # Errors
///
/// What it is instead.
pub(super) fn is_primary(info: &str) -> Result<(), Unfit> {
    if mode(info) == Some("sentinel") {
        return Err(Unfit::Sentinel);
    }
    if info_field(info, "role") != Some("slave") {
        return Ok(());
    }
    let primary = info_field(info, "master_host").zip(info_field(info, "master_port"));
    let of = primary.map(|(host, port)| at(host, port).into());
    Err(Unfit::Replica { of })
}

/// A server, as nodes are named.
pub(super) fn at(host: &str, port: &str) -> String {
    let (host, port) = (visible(host), visible(port));
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// A server of a cluster has a part of the keys and sends those who ask for others elsewhere; a server by itself has all.
///
/// # Errors
///
/// It is the one where the other is expected.
pub(super) fn is_member(info: &str, of_cluster: bool) -> Result<(), Unfit> {
    let mode = mode(info);
    match (mode == Some("cluster"), of_cluster) {
        (true, false) => Err(Unfit::OfCluster),
        (false, true) if mode.is_some() => Err(Unfit::ByItself),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = "# Server\r\nrun_id_of_another:x\r\nrun_id: abc \r\nexecutable:/a:b\r\n";
        assert_eq!(info_field(info, "run_id"), Some("abc"));
        assert_eq!(info_field(info, "executable"), Some("/a:b"));
        assert_eq!(info_field(info, "id"), None);
    }

    #[test]
    fn replicas_and_sentinels_are_told_from_primaries() {
        for primary in [
            "",
            "role:master\r\nconnected_slaves:1\r\n",
            "redis_mode:standalone\r\nrole:master\r\n",
        ] {
            assert_eq!(is_primary(primary), Ok(()));
        }
        for (info, says) in [
            (
                "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:7000\r\n",
                "it is a replica of 10.0.0.1:7000: a node has to be a primary",
            ),
            (
                "role:slave\r\nmaster_host:::1\r\nmaster_port:7000\r\n",
                "it is a replica of [::1]:7000: a node has to be a primary",
            ),
            (
                "role:slave\r\n",
                "it is a replica: a node has to be a primary",
            ),
            (
                "redis_mode:sentinel\r\n",
                "it is a Sentinel, and not a server that keeps locks",
            ),
            (
                "server_mode:sentinel\r\n",
                "it is a Sentinel, and not a server that keeps locks",
            ),
        ] {
            assert_eq!(is_primary(info).expect_err("no primary").to_string(), says);
        }
    }

    #[test]
    fn servers_of_a_cluster_are_told_from_servers_by_themselves() {
        for (info, alone, in_cluster) in [
            ("", true, true),
            ("redis_version:8.0\r\n", true, true),
            ("redis_mode:standalone\r\n", true, false),
            ("redis_mode:cluster\r\n", false, true),
            ("server_mode:cluster\r\n", false, true),
        ] {
            assert_eq!(is_member(info, false).is_ok(), alone, "{info}");
            assert_eq!(is_member(info, true).is_ok(), in_cluster, "{info}");
        }
    }
}
