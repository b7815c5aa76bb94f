//! The manifests of `deploy/kubernetes`: what is applied is valid, agrees with itself, and is run here as far as one machine can
//! stand for a cluster.
//!
//! - [`render`]: what `kubectl kustomize` makes of them
//! - [`rules`]: what has to agree; each rule is broken once, and says so
//! - [`pod`]: a container run as the kubelet would, with its files, its environment and its probes
//! - [`node`]: a lock node starts, loads, hangs, forgets nothing, and lets nobody in but whom it should
//! - [`service`]: the services that use it, from the first order to SIGTERM
//! - [`alone`]: `check` in a pod of its own, as the README makes it where no service has one

mod alone;
mod node;
mod pod;
mod render;
mod rules;
mod service;

use lock_tests::processes::python;
use render::{DIRECTORIES, filter, yaml};

/// The oldest that has all that is used (`minDomains` of a topology spread), and the first and last of today's.
const KUBERNETES: [&str; 3] = ["1.30", "1.34", "1.37"];

#[test]
fn every_version_of_kubernetes_knows_every_field() {
    let complaints = schema(&DIRECTORIES.map(yaml).join("---\n"));
    assert_eq!(complaints, "");
}

#[test]
fn a_field_that_no_version_knows_is_found_by_each() {
    let manifests = yaml("overlays/production");
    let broken = manifests.replacen("minReadySeconds:", "minReadySecond:", 1);
    assert_ne!(broken, manifests);
    let complaints = schema(&broken);
    let found = complaints
        .matches("'minReadySecond' was unexpected")
        .count();
    assert_eq!(found, KUBERNETES.len(), "{complaints}");
}

/// What the schemas of Kubernetes say against manifests, and of which of them they know nothing.
fn schema(manifests: &str) -> String {
    const VALIDATE: &str = "
import sys, yaml, kubernetes_validate
objects = [item for item in yaml.safe_load_all(sys.stdin) if item]
assert len(objects) > 5, objects
for version in sys.argv[1:]:
    for item in objects:
        try:
            found = kubernetes_validate.validate(item, version, strict=True)
            assert found == version, found
        except Exception as error:
            print(version, item['kind'], item['metadata']['name'], getattr(error, 'message', repr(error)))
";
    let mut command = python(&["kubernetes_validate"]);
    command.args(["-c", VALIDATE]).args(KUBERNETES);
    filter(&mut command, manifests)
}
