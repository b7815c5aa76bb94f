//! In Kubernetes a process is found by its pod, and has the labels that the rules sum by.

use super::{deploy, list, read};
use lock_tests::prometheus::promtool;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

/// Debian's Prometheus is built without the client of Kubernetes, so what that would say of the pods is said here.
const DISCOVERY: &str = "    kubernetes_sd_configs:
      - role: pod
";

const PODS: &str = r#"    static_configs:
      - targets: [payments]
        labels:
          __meta_kubernetes_namespace: shop
          __meta_kubernetes_pod_annotation_prometheus_io_path: /metrics
          __meta_kubernetes_pod_annotation_prometheus_io_port: "8080"
          __meta_kubernetes_pod_annotation_prometheus_io_scrape: "true"
          __meta_kubernetes_pod_ip: 10.0.0.7
          __meta_kubernetes_pod_label_app_kubernetes_io_name: payments
          __meta_kubernetes_pod_name: payments-7
          __meta_kubernetes_pod_phase: Running
      - targets: [lock-redis]
        labels:
          __meta_kubernetes_namespace: shop
          __meta_kubernetes_pod_annotation_prometheus_io_port: "9121"
          __meta_kubernetes_pod_annotation_prometheus_io_scrape: "true"
          __meta_kubernetes_pod_ip: 10.0.0.6
          __meta_kubernetes_pod_label_app_kubernetes_io_name: lock-redis
          __meta_kubernetes_pod_name: lock-redis-0
          __meta_kubernetes_pod_phase: Running
      - targets: [has-ended]
        labels:
          __meta_kubernetes_namespace: shop
          __meta_kubernetes_pod_annotation_prometheus_io_port: "8080"
          __meta_kubernetes_pod_annotation_prometheus_io_scrape: "true"
          __meta_kubernetes_pod_ip: 10.0.0.8
          __meta_kubernetes_pod_label_app_kubernetes_io_name: payments
          __meta_kubernetes_pod_name: payments-8
          __meta_kubernetes_pod_phase: Succeeded
      - targets: [says-nothing]
        labels:
          __meta_kubernetes_namespace: shop
          __meta_kubernetes_pod_ip: 10.0.0.9
          __meta_kubernetes_pod_name: mail-9
          __meta_kubernetes_pod_phase: Running
"#;

/// Where a job's targets are scraped, with which labels; `null` for what is not.
fn targets(configuration: &Path, job: &str) -> Vec<Value> {
    let output = promtool()
        .args(["check", "service-discovery", "--timeout", "1s"])
        .arg(configuration)
        .arg(job)
        .output()
        .expect("promtool can be run");
    let error = String::from_utf8_lossy(&output.stderr);
    let targets: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|parse| panic!("{parse}: {error}"));
    let labels = |target: &Value| target["labels"].clone();
    list(&targets).iter().map(labels).collect()
}

#[test]
fn pods_are_scraped_under_their_service_and_their_own_name() {
    let directory = TempDir::with_prefix("lock-tests-").expect("a temporary directory");
    let configuration = read(&deploy("prometheus/kubernetes.yml"));
    assert_eq!(configuration.matches(DISCOVERY).count(), 1);
    let file = directory.path().join("kubernetes.yml");
    std::fs::write(&file, configuration.replace(DISCOVERY, PODS)).expect("the directory is ours");

    // What is scraped by two jobs under one name would be two values of one series.
    assert_eq!(configuration.matches("job_name:").count(), 1);

    let scraped = |address: &str, job: &str, instance: &str| {
        json!({
            "__address__": address,
            "__metrics_path__": "/metrics",
            "__scheme__": "http",
            "__scrape_interval__": "15s",
            "__scrape_timeout__": "5s",
            "instance": instance,
            "job": job,
            "namespace": "shop",
        })
    };
    let mut pods = targets(&file, "pods");
    pods.retain(|pod| pod.as_object().is_some_and(|labels| !labels.is_empty()));
    pods.sort_by_key(|pod| pod["instance"].to_string());
    assert_eq!(
        pods,
        [
            scraped("10.0.0.6:9121", "lock-redis", "lock-redis-0"),
            scraped("10.0.0.7:8080", "payments", "payments-7"),
        ]
    );
}
