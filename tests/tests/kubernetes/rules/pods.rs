//! Whatever runs: what it may do, how it is taken away, and what it needs.

use super::values::{containers, has_labels, list, number, pods_labels, text};
use super::{Rendered, replicas};
use serde_json::{Value, json};

pub(super) fn disruptions_are_bounded(rendered: &Rendered) -> Vec<String> {
    let several = rendered
        .workloads()
        .filter(|workload| replicas(workload) > 1);
    let is_bounded = |workload: &&Value| {
        rendered.kind("PodDisruptionBudget").any(|budget| {
            let selector = &budget["spec"]["selector"]["matchLabels"];
            has_labels(pods_labels(workload), selector) && budget["spec"]["maxUnavailable"] == 1
        })
    };
    let unbounded = several.filter(|workload| !is_bounded(workload));
    unbounded
        .map(|workload| workload["metadata"]["name"].to_string())
        .collect()
}

pub(super) fn everything_is_locked_down(rendered: &Rendered) -> Vec<String> {
    let mut complaints = Vec::new();
    for workload in rendered.workloads() {
        let pod = &workload["spec"]["template"]["spec"];
        let context = &pod["securityContext"];
        let harmless = context["runAsNonRoot"] == true
            && number(&context["runAsUser"]) > 0
            && context["seccompProfile"] == json!({"type": "RuntimeDefault"})
            && pod["automountServiceAccountToken"] == false
            && pod["enableServiceLinks"] == false;
        if !harmless {
            complaints.push(format!("pods of {}", workload["metadata"]["name"]));
        }
        for container in containers(workload) {
            let context = json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            });
            let resources = &container["resources"];
            let bounded = ["cpu", "memory"].iter().all(|what| {
                resources["requests"][what].is_string() && resources["limits"][what].is_string()
            });
            if container["securityContext"] != context || !bounded {
                complaints.push(container["name"].to_string());
            }
        }
    }
    complaints
}

pub(super) fn versions_are_pinned(rendered: &Rendered) -> Vec<String> {
    let images = rendered
        .workloads()
        .flat_map(containers)
        .map(|it| text(&it["image"]));
    let is_pinned = |image: &&str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split_once(':')
            .is_some_and(|(_, tag)| tag.matches('.').count() == 2)
    };
    images
        .filter(|image| !is_pinned(image))
        .map(str::to_owned)
        .collect()
}

pub(super) fn no_password_is_written_down(rendered: &Rendered) -> Vec<String> {
    let mut complaints = Vec::new();
    for secret in rendered.kind("Secret") {
        if secret["metadata"]["namespace"] != "shop-dev" {
            complaints.push(format!("Secret {}", secret["metadata"]["name"]));
        }
    }
    for variable in rendered
        .workloads()
        .flat_map(containers)
        .flat_map(|it| list(&it["env"]))
    {
        let value = text(&variable["value"]).replace("$(LOCK_PASSWORD)@", "@");
        let name = text(&variable["name"]);
        let is_secret = name.contains("PASSWORD") || name == "DATABASE_URL";
        let login = value
            .split("://")
            .skip(1)
            .find_map(|url| url.split_once('@'));
        if is_secret && !value.is_empty() || login.is_some_and(|(login, _)| login != "shop:") {
            complaints.push(name.to_owned());
        }
    }
    complaints
}

pub(super) fn metrics_are_found(rendered: &Rendered) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in ["lock-redis", "payments"] {
        let mut workloads = rendered.workloads();
        let workload = workloads.find(|it| it["metadata"]["name"] == name);
        let workload = workload.unwrap_or(&Value::Null);
        let notes = &workload["spec"]["template"]["metadata"]["annotations"];
        let port = text(&notes["prometheus.io/port"]).parse().unwrap_or(0u64);
        let mut ports = containers(workload).flat_map(|it| list(&it["ports"]));
        let listens = ports.any(|it| number(&it["containerPort"]) == port);
        if notes["prometheus.io/scrape"] != "true" || !listens {
            complaints.push(format!("{name}: {notes}"));
        }
    }
    complaints
}

pub(super) fn mounts_are_there(rendered: &Rendered) -> Vec<String> {
    let mut complaints = Vec::new();
    for workload in rendered.workloads() {
        let volumes = list(&workload["spec"]["template"]["spec"]["volumes"]);
        let claims = list(&workload["spec"]["volumeClaimTemplates"]);
        let mut names: Vec<&Value> = volumes.iter().map(|volume| &volume["name"]).collect();
        names.extend(claims.iter().map(|claim| &claim["metadata"]["name"]));
        for container in containers(workload) {
            for mount in list(&container["volumeMounts"]) {
                if !names.contains(&&mount["name"]) {
                    complaints.push(format!("{}: {}", container["name"], mount["name"]));
                }
            }
        }
        for map in volumes
            .iter()
            .filter_map(|volume| volume["configMap"]["name"].as_str())
        {
            if rendered.find("ConfigMap", map).is_none() {
                complaints.push(format!("ConfigMap {map}"));
            }
        }
    }
    complaints
}
