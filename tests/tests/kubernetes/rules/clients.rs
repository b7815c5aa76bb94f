//! The services: that all of them are told of all nodes, nobody else gets there, and that they end in time.

use super::values::{containers, has_labels, list, number, pods_labels, seconds, text};
use super::{Rendered, clients, nodes, replicas};
use serde_json::{Value, json};

/// How long the example `payments` takes at most to end; the tests ask it.
pub(crate) const PAYMENTS_END: u64 = 23;

/// What it takes to tell five nodes that a lock is free, generously.
const RELEASE: u64 = 2;

pub(super) fn every_client_names_every_node(rendered: &Rendered) -> Vec<String> {
    let expected: Vec<String> = (0..replicas(nodes(rendered)))
        .map(|n| format!("redis://shop:$(LOCK_PASSWORD)@lock-redis-{n}.lock-redis:6379"))
        .collect();
    let expected = expected.join(",");
    let clients = clients(rendered);
    let mut complaints = Vec::new();
    if clients.len() != 2 {
        complaints.push(format!("{} clients, not payments and cron", clients.len()));
    }
    for (workload, named) in clients {
        if named != expected {
            complaints.push(format!("{} has {named}", workload["metadata"]["name"]));
        }
    }
    complaints
}

/// Only what stands before a variable is put into it; otherwise `$(NAME)` stays as it is.
pub(super) fn variables_are_set(rendered: &Rendered) -> Vec<String> {
    let mut complaints = Vec::new();
    for container in rendered.workloads().flat_map(containers) {
        let variables = list(&container["env"]);
        let names: Vec<&str> = variables.iter().map(|it| text(&it["name"])).collect();
        let values = variables.iter().map(|it| text(&it["value"])).enumerate();
        let words = list(&container["command"])
            .iter()
            .chain(list(&container["args"]));
        let words = words.map(|word| (names.len(), text(word)));
        for (place, value) in values.chain(words) {
            let used = value.split("$(").skip(1);
            for name in used.filter_map(|rest| rest.split(')').next()) {
                if !names[..place].contains(&name) {
                    complaints.push(format!("{}: {name}", container["name"]));
                }
            }
        }
    }
    complaints
}

pub(super) fn network_is_closed(rendered: &Rendered) -> Vec<String> {
    let Some(policy) = rendered.find("NetworkPolicy", "lock-redis") else {
        return vec!["no NetworkPolicy".to_owned()];
    };
    let spec = &policy["spec"];
    let mut complaints = Vec::new();
    if !has_labels(
        pods_labels(nodes(rendered)),
        &spec["podSelector"]["matchLabels"],
    ) {
        complaints.push("it is for other pods".to_owned());
    }
    if spec["policyTypes"] != json!(["Ingress", "Egress"]) || spec["egress"] != json!([]) {
        complaints.push("a node may talk to others".to_owned());
    }
    let ports: Vec<&Value> = containers(nodes(rendered))
        .flat_map(|it| list(&it["ports"]))
        .collect();
    for admitted in list(&spec["ingress"]) {
        let (from, to) = (list(&admitted["from"]), list(&admitted["ports"]));
        let [to] = to else {
            complaints.push(format!("{admitted} is for more than a port"));
            continue;
        };
        if !ports.iter().any(|port| port["name"] == to["port"]) {
            complaints.push(format!("there is no port {}", to["port"]));
        }
        let monitoring = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
        let clients = json!([{"podSelector": {"matchLabels": {"lock-redis-client": "true"}}}]);
        let expected = if to["port"] == "redis" {
            clients
        } else {
            monitoring
        };
        if json!(from) != expected {
            complaints.push(format!("{} is open for {}", to["port"], json!(from)));
        }
    }
    let is_client = |workload: &Value| pods_labels(workload)["lock-redis-client"] == "true";
    let told = clients(rendered);
    for workload in rendered.workloads() {
        let is_told = told.iter().any(|(client, _)| *client == workload);
        if is_told != is_client(workload) {
            complaints.push(format!(
                "{} is told of nodes or let in, not both",
                workload["metadata"]["name"]
            ));
        }
    }
    complaints
}

pub(super) fn ends_in_time(rendered: &Rendered) -> Vec<String> {
    let grace = |name: &str| {
        let pod = &rendered.get("Deployment", name)["spec"]["template"]["spec"];
        number(&pod["terminationGracePeriodSeconds"])
    };
    let container = |name: &str| containers(rendered.get("Deployment", name)).next();
    let payments = container("payments").unwrap_or(&Value::Null);
    let pause = &payments["lifecycle"]["preStop"]["exec"]["command"];
    let pause = if pause[0] == "sleep" {
        text(&pause[1]).parse().unwrap_or(0)
    } else {
        0
    };
    let mut complaints = Vec::new();
    if pause == 0 || pause + PAYMENTS_END >= grace("payments") {
        complaints.push(format!(
            "payments: {pause} + {PAYMENTS_END} of {}",
            grace("payments")
        ));
    }
    let cron = container("cron").unwrap_or(&Value::Null);
    let mut words = list(&cron["command"]).iter().map(text);
    let job = seconds(words.by_ref().skip_while(|word| *word != "--grace").nth(1));
    if job == 0 || job + RELEASE >= grace("cron") {
        complaints.push(format!("cron: {job} of {}", grace("cron")));
    }
    complaints
}

pub(super) fn services_live_without_nodes(rendered: &Rendered) -> Vec<String> {
    let payments = containers(rendered.get("Deployment", "payments")).next();
    let payments = payments.unwrap_or(&Value::Null);
    let port = list(&payments["ports"])
        .iter()
        .find(|port| port["name"] == "http");
    let port = port.map_or(0, |port| number(&port["containerPort"]));
    let mut complaints = Vec::new();
    for (probe, path) in [
        ("startupProbe", "/live"),
        ("livenessProbe", "/live"),
        ("readinessProbe", "/ready"),
    ] {
        let expected = json!({"path": path, "port": "http"});
        if payments[probe]["httpGet"] != expected {
            complaints.push(format!("{probe}: {}", payments[probe]["httpGet"]));
        }
    }
    let mut words = list(&payments["command"]).iter().map(text);
    let listens = words.by_ref().skip_while(|word| *word != "--listen").nth(1);
    if listens != Some(&format!("0.0.0.0:{port}")) {
        complaints.push(format!("it listens on {listens:?}, not on {port}"));
    }
    let service = &rendered.get("Service", "payments")["spec"];
    if !has_labels(
        pods_labels(rendered.get("Deployment", "payments")),
        &service["selector"],
    ) || service["ports"][0]["targetPort"] != "http"
    {
        complaints.push("the Service leads elsewhere".to_owned());
    }
    let cron = containers(rendered.get("Deployment", "cron"))
        .next()
        .unwrap_or(&Value::Null);
    if !cron["livenessProbe"].is_null() {
        complaints.push("a probe may end a job".to_owned());
    }
    complaints
}
