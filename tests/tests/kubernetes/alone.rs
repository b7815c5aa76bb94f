use super::render::{Rendered, kubectl, yaml};
use super::schema;
use serde_json::{Value, json};
use std::fs::{read_to_string, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What needs a cluster of the page's commands: one reads a Deployment, which is the manifest here, and one makes the pod, which
/// is shown. The others are of kubectl as it is.
const CLUSTER: &str = r#"#!/bin/sh
case "$*" in
"-n shop get deployment cron -o "*) exec "$KUBECTL" patch --local -f "$DEPLOYMENT" -p '{}' -o "$7" ;;
"-n shop create -f -") exec cat ;;
"patch --local "*) exec "$KUBECTL" "$@" ;;
*) echo "no such command: $*" >&2; exit 1 ;;
esac
"#;

/// With the commands of the page: the pod of the service, and only the program is another.
#[test]
fn check_has_a_pod_of_its_own_where_no_service_has_one() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes/README.md");
    let page = read_to_string(page).expect("the page is there");
    let (_, section) = page
        .split_once("### Without a pod of a service")
        .expect("a section");
    let (_, block) = section.split_once("```sh\n").expect("its commands");
    let (commands, _) = block
        .split_once("kubectl -n shop logs check")
        .expect("what is asked of the pod afterwards");

    let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    let rendered = Rendered::of("overlays/production");
    let deployment = rendered.get("Deployment", "cron");
    let file = directory.path().join("cron.json");
    write(&file, deployment.to_string()).expect("the directory is ours");
    let cluster = directory.path().join("kubectl");
    write(&cluster, CLUSTER).expect("the directory is ours");
    set_permissions(&cluster, PermissionsExt::from_mode(0o755)).expect("the file is ours");
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("sh")
        .args(["-euc", commands])
        .env("PATH", format!("{}:{path}", directory.path().display()))
        .env("KUBECTL", kubectl().get_program())
        .env("DEPLOYMENT", &file)
        .output()
        .expect("there is a shell");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let made: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    let mut spec = deployment["spec"]["template"]["spec"].clone();
    spec["containers"][0]["command"] = json!(["check", "--prefix", "shop:"]);
    spec["restartPolicy"] = json!("Never");
    assert_eq!(made["kind"], "Pod");
    assert_eq!(made["spec"], spec);
    // No other: a Service would send it requests, and a Deployment would count it.
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels, &json!({"lock-redis-client": "true"}));
    let all = format!("{}---\n{made}\n", yaml("overlays/production"));
    assert_eq!(schema(&all), "");
}
