//! Reading manifests. What is not there reads as nothing, so that a rule can say so.

use serde_json::Value;

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Those that begin the pods of a workload, and those that stay.
pub(crate) fn containers(workload: &Value) -> impl Iterator<Item = &Value> {
    let pod = &workload["spec"]["template"]["spec"];
    list(&pod["initContainers"])
        .iter()
        .chain(list(&pod["containers"]))
}

pub(crate) fn environment<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    list(&container["env"]).iter().find(|it| it["name"] == name)
}

pub(crate) fn pods_labels(workload: &Value) -> &Value {
    &workload["spec"]["template"]["metadata"]["labels"]
}

/// Whether a selector, which must not be empty, fits.
pub(crate) fn has_labels(labels: &Value, selector: &Value) -> bool {
    let wanted = selector.as_object().filter(|wanted| !wanted.is_empty());
    wanted.is_some_and(|wanted| wanted.iter().all(|(name, value)| labels[name] == *value))
}

/// `25s`
pub(crate) fn seconds(text: Option<&str>) -> u64 {
    let number = text.and_then(|text| text.strip_suffix('s')?.parse().ok());
    number.unwrap_or_default()
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mebibytes(pub(crate) u64);

impl Mebibytes {
    /// As Redis writes them, or Kubernetes.
    pub(crate) fn of(text: &str) -> Self {
        let number = text.strip_suffix("mb").or(text.strip_suffix("Mi"));
        Self(number.and_then(|it| it.parse().ok()).unwrap_or_default())
    }
}
