//! What `kubectl kustomize` makes of a directory under `deploy/kubernetes`.

use lock_tests::processes::python;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Everything that can be applied, by its directory.
pub(crate) const DIRECTORIES: [&str; 3] = ["base", "overlays/dev", "overlays/production"];

/// The objects of one directory.
#[derive(Clone)]
pub(crate) struct Rendered(pub(crate) Vec<Value>);

impl Rendered {
    pub(crate) fn of(directory: &str) -> Self {
        // Kubernetes' own client gives no other form without a server.
        const READ: &str = "import json, sys, yaml
json.dump([item for item in yaml.safe_load_all(sys.stdin) if item], sys.stdout)";
        let mut command = python(&["yaml"]);
        command.args(["-c", READ]);
        let json = filter(&mut command, &yaml(directory));
        Self(serde_json::from_str(&json).expect("JSON from Python"))
    }

    pub(crate) fn kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.kind(kind)
            .find(|object| object["metadata"]["name"] == name)
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name)
            .unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    pub(crate) fn get_mut(&mut self, kind: &str, name: &str) -> &mut Value {
        let mut objects = self.0.iter_mut();
        let found = objects.find(|object| {
            let named = object["metadata"]["name"].as_str().unwrap_or_default();
            // The names of ConfigMaps end with a hash.
            let is_it = named == name || kind == "ConfigMap" && named.starts_with(name);
            object["kind"] == kind && is_it
        });
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// What runs pods.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &Value> {
        let runs = |object: &&Value| object["spec"]["template"]["spec"].is_object();
        self.0.iter().filter(runs)
    }
}

/// The manifests of a directory as they are applied.
pub(crate) fn yaml(directory: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/kubernetes")
        .join(directory);
    let output = kubectl().arg("kustomize").arg(&path).output();
    let output = output.expect("it was started a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    // A warning is of something that goes away, and is shown to whoever applies it.
    assert!(
        output.status.success() && said.is_empty(),
        "{}: {}\n{said}",
        path.display(),
        output.status
    );
    String::from_utf8(output.stdout).expect("text")
}

/// `$LOCK_KUBECTL`, else the one that `scripts/test` installs under `target`, else that on the `PATH`.
pub(crate) fn kubectl() -> Command {
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/bin/kubectl");
    let named = std::env::var_os("LOCK_KUBECTL").map(PathBuf::from);
    let candidates = named.map_or_else(|| vec![made.into(), "kubectl".into()], |it| vec![it]);
    let usable = |kubectl: &&PathBuf| {
        let version = Command::new(kubectl)
            .args(["version", "--client", "--output", "json"])
            .output();
        // Older ones have a kustomize of another age and do not tell its version.
        version.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("kustomizeVersion"))
    };
    let Some(kubectl) = candidates.iter().find(usable) else {
        panic!(
            "this test renders manifests with kubectl 1.24 or later, and none of {candidates:?} is one. Run `scripts/test`, \
             which installs it, or set LOCK_KUBECTL."
        )
    };
    Command::new(kubectl)
}

/// What a program writes when it has read the text; fails if it does.
pub(crate) fn filter(command: &mut Command, text: &str) -> String {
    let name = command.get_program().display().to_string();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut input = child.stdin.take().expect("it was started with a pipe");
    input
        .write_all(text.as_bytes())
        .expect("it reads everything");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let written = String::from_utf8(output.stdout).expect("text");
    assert!(
        output.status.success(),
        "{name}: {}\n{written}",
        output.status
    );
    written
}
