//! What is under `deploy/prometheus` and `deploy/grafana`, tried with a real Prometheus: rules by their own tests, and all that is
//! asked of the metrics by a service that has everything go wrong.

mod dashboard;
mod relabeling;
mod rules;
mod scrape;

use lock_tests::processes::python;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is deployed, as it is in the repository.
fn deploy(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a directory, in the order of their names.
fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(deploy(directory)).expect("a directory of this repository");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// What a file of YAML says, read by another program's parser.
fn yaml(path: &Path) -> Value {
    const READ: &str = "
import json, sys, yaml
loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
json.dump(yaml.load(open(sys.argv[1]), loader), sys.stdout)
";
    let output = python(&["yaml"])
        .args(["-c", READ])
        .arg(path)
        .output()
        .expect("Python was found");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", path.display());
    serde_json::from_slice(&output.stdout).expect("it wrote JSON")
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
