//! What the manifests have to agree on, within themselves and with the library.

mod broken;
mod clients;
mod nodes;
mod pods;
pub(crate) mod values;

pub(crate) use clients::PAYMENTS_END;

use crate::render::{DIRECTORIES, Rendered};
use lock_runtime::{LockError, LockManager};
use serde_json::Value;
use std::time::Duration;
use values::{containers, environment, number, text};

/// No lease of these services is longer; the tests below ask the library.
const MAX_TTL: u64 = 60;

/// Looks at everything that is rendered, and says what is wrong.
type Rule = fn(&Rendered) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    (
        "every client names every node",
        clients::every_client_names_every_node,
    ),
    ("names resolve", nodes::names_resolve),
    (
        "variables are set before they are used",
        clients::variables_are_set,
    ),
    (
        "the next node waits for the vote of this one",
        nodes::waits_for_the_vote,
    ),
    ("nodes do not share a machine", nodes::nodes_are_apart),
    ("data and a copy fit into memory", nodes::memory_fits),
    ("what a node knows is on a disk", nodes::data_is_kept),
    (
        "a node that loads is left alone",
        nodes::loading_is_left_alone,
    ),
    ("one at a time is taken away", pods::disruptions_are_bounded),
    ("only clients get to the nodes", clients::network_is_closed),
    (
        "nobody is killed who is about to end",
        clients::ends_in_time,
    ),
    (
        "services live without nodes",
        clients::services_live_without_nodes,
    ),
    (
        "nothing may do more than it must",
        pods::everything_is_locked_down,
    ),
    ("versions are pinned", pods::versions_are_pinned),
    (
        "no password is written down",
        pods::no_password_is_written_down,
    ),
    ("the user is the README's", nodes::user_is_the_readmes),
    ("Prometheus finds its ports", pods::metrics_are_found),
    ("what is mounted is there", pods::mounts_are_there),
];

#[test]
fn every_rule_is_kept() {
    for directory in DIRECTORIES {
        let rendered = Rendered::of(directory);
        for (name, rule) in RULES {
            let complaints = rule(&rendered);
            assert!(complaints.is_empty(), "{directory}: {name}: {complaints:?}");
        }
    }
}

/// The manifests count with the library's default, as the examples set none.
#[tokio::test]
async fn the_longest_lease_is_the_one_that_the_manifests_wait_for() {
    let locks = LockManager::in_memory();
    let ask = async |seconds| {
        let request = locks.lock("k").ttl(Duration::from_secs(seconds));
        request.acquire().await.map(drop)
    };
    assert!(ask(MAX_TTL).await.is_ok());
    let longer = ask(MAX_TTL + 1).await;
    assert!(
        matches!(longer, Err(LockError::InvalidTtl { .. })),
        "{longer:?}"
    );
}

fn nodes(rendered: &Rendered) -> &Value {
    rendered.get("StatefulSet", "lock-redis")
}

fn replicas(workload: &Value) -> u64 {
    number(&workload["spec"]["replicas"])
}

/// One node by itself has nobody to agree with.
fn is_quorum(rendered: &Rendered) -> bool {
    replicas(nodes(rendered)) > 1
}

fn redis(rendered: &Rendered) -> &Value {
    containers(nodes(rendered))
        .find(|container| container["name"] == "redis")
        .unwrap_or(&Value::Null)
}

/// The `ConfigMap`'s files for the nodes.
fn files(rendered: &Rendered) -> &Value {
    let map = rendered.kind("ConfigMap").next();
    map.map_or(&Value::Null, |map| &map["data"])
}

/// The workloads that are told of lock nodes, with the list.
fn clients(rendered: &Rendered) -> Vec<(&Value, &str)> {
    let nodes = |workload| {
        let mut all = containers(workload).filter_map(|it| environment(it, "LOCK_NODES"));
        all.next().map(|variable| text(&variable["value"]))
    };
    rendered
        .workloads()
        .filter_map(|workload| Some((workload, nodes(workload)?)))
        .collect()
}
