//! The attribute in crates of users: editions, lints and names that this workspace does not have.
//!
//! The crates are written below the target directory and checked by a cargo of their own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EDITIONS: [&str; 3] = ["2018", "2021", "2024"];

/// All that a careful crate denies, clippy's pedantic and nursery lints and the compatibility lints among it.
const CAREFUL: &str = "\
#![forbid(unsafe_code)]
#![deny(missing_docs, warnings)]
#![deny(future_incompatible, keyword_idents, let_underscore, nonstandard_style, rust_2018_idioms)]
#![deny(rust_2018_compatibility, rust_2021_compatibility, rust_2024_compatibility)]
#![deny(missing_debug_implementations, redundant_lifetimes, single_use_lifetimes, trivial_casts, unit_bindings)]
#![deny(unreachable_pub, unused_extern_crates, unused_lifetimes, unused_qualifications, unused_results)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
";

/// Every lint that there is.
const EVERY_LINT: &str = "\
#![warn(missing_docs, unused, clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction)]
#![allow(clippy::blanket_clippy_restriction_lints)]
";

/// A workspace of a user.
struct Workspace {
    directory: PathBuf,
    members: Vec<String>,
}

impl Workspace {
    fn new(name: &str) -> Self {
        let directory = shared().join(name);
        fs::create_dir_all(&directory).expect("a directory");
        Self {
            directory,
            members: Vec::new(),
        }
    }

    fn member(&mut self, name: &str, edition: &str, runtime: &str, source: &str) {
        let directory = self.directory.join(name);
        fs::create_dir_all(directory.join("src")).expect("a directory");
        let runtime_path = format!(
            "{:?}",
            repository().join("lock-runtime").display().to_string()
        );
        let manifest = format!(
            "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = {edition:?}\n\n[features]\nplain = []\n\n\
             [dependencies]\n{runtime} = {{ package = \"lock-runtime\", path = {runtime_path} }}\n\n\
             [dev-dependencies]\ntokio = {{ version = \"1\", features = [\"macros\", \"rt\"] }}\n"
        );
        fs::write(directory.join("Cargo.toml"), manifest).expect("written");
        fs::write(directory.join("src/lib.rs"), source).expect("written");
        self.members.push(name.to_owned());
    }

    /// Runs cargo on all members.
    fn cargo(&self, arguments: &[&str]) -> Output {
        let manifest = format!(
            "[workspace]\nresolver = \"2\"\nmembers = {:?}\n",
            self.members
        );
        fs::write(self.directory.join("Cargo.toml"), manifest).expect("written");
        // The same versions, and so nothing to download.
        for file in ["Cargo.lock", "rust-toolchain.toml"] {
            fs::copy(repository().join(file), self.directory.join(file)).expect("copied");
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Command::new(cargo)
            .args(arguments)
            .args(["--offline", "--workspace", "--quiet"])
            .current_dir(&self.directory)
            .env("CARGO_TARGET_DIR", shared().join("target"))
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .expect("cargo runs")
    }
}

fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the workspace")
}

fn shared() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("user_crates")
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("user_crates")
        .join(name);
    fs::read_to_string(path).expect("a source")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_clean(output: &Output) {
    let said = said(output);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn a_careful_crate_is_clean_in_every_edition() {
    let mut workspace = Workspace::new("careful");
    for edition in EDITIONS {
        let source = format!("{CAREFUL}{}", source("careful.rs"));
        workspace.member(
            &format!("careful-{edition}"),
            edition,
            "lock-runtime",
            &source,
        );
    }
    assert_clean(&workspace.cargo(&["clippy"]));
}

#[test]
fn a_careless_crate_is_not() {
    for edition in EDITIONS {
        let name = format!("careless-{edition}");
        let mut workspace = Workspace::new(&name);
        let source = format!("{CAREFUL}{}", source("careless.rs"));
        workspace.member(&name, edition, "lock-runtime", &source);
        let output = workspace.cargo(&["clippy"]);
        assert!(!output.status.success(), "{edition}: it is not clean");
        let said = said(&output);
        for message in [
            "function `forgotten` is never used",
            "method `forgotten_too` is never used",
            "missing documentation for a function",
            "unused variable: `unused`",
            "variable does not need to be mutable",
            "unused result of type `u64`",
        ] {
            assert_eq!(
                said.matches(message).count(),
                1,
                "{edition}: {message} in\n{said}"
            );
        }
    }
}

/// What is reported, as line and message, up to the code that only the attribute makes possible.
fn lints(output: &Output, source: &str) -> BTreeSet<(usize, String)> {
    let common = source
        .lines()
        .take_while(|line| !line.contains("What only the attribute has"));
    let common = common.count();
    let said = said(output);
    let reports = said.lines().filter_map(|line| {
        let (place, message) = line.split_once(": warning: ")?;
        let line = place.split(':').nth(1)?.parse().ok()?;
        (line <= common).then(|| (line, message.to_owned()))
    });
    reports.collect()
}

#[test]
fn no_lint_is_about_our_tokens() {
    let source = format!("{EVERY_LINT}{}", source("careful.rs"));
    let mut workspace = Workspace::new("every-lint");
    workspace.member("every-lint", "2024", "lock-runtime", &source);
    let check = |features: &[&str]| {
        let output = workspace.cargo(&[&["clippy", "--message-format=short"], features].concat());
        assert!(output.status.success(), "{}", said(&output));
        lints(&output, &source)
    };
    let plain = check(&["--features", "plain"]);
    let guarded = check(&[]);
    assert!(plain.len() > 20, "the lints are on: {plain:?}");
    // That asks for `return` at the end of every function. Ours has one; what the user left out is reported at the
    // attribute instead.
    let is_known = |(_, message): &&(usize, String)| message == "missing `return` statement";
    let added: Vec<_> = guarded
        .difference(&plain)
        .filter(|lint| !is_known(lint))
        .collect();
    assert!(added.is_empty(), "{added:#?}");
    // A lifetime that only the body of a boxed future names is named by ours.
    let is_known =
        |lint: &&(usize, String)| is_known(lint) || lint.1.contains("lifetimes could be elided");
    let lost: Vec<_> = plain
        .difference(&guarded)
        .filter(|lint| !is_known(lint))
        .collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

#[test]
fn a_crate_where_every_name_means_something_else() {
    let mut workspace = Workspace::new("renamed");
    for edition in EDITIONS {
        workspace.member(
            &format!("renamed-{edition}"),
            edition,
            "locks",
            &source("renamed.rs"),
        );
    }
    assert_clean(&workspace.cargo(&["check"]));
}

#[test]
fn a_test_is_guarded_above_its_attribute() {
    let test = |attributes: [&str; 2]| {
        let [first, second] = attributes;
        format!(
            "#[cfg(test)]\nmod tests {{\n    use lock_runtime::{{LockError, distributed_lock}};\n\n    {first}\n    {second}\n    \
             async fn guarded() -> Result<(), LockError> {{\n        Ok(())\n    }}\n}}\n"
        )
    };
    let lock = "#[distributed_lock(key = \"k\", ttl = \"8s\")]";
    let check = |name, attributes| {
        let mut workspace = Workspace::new(name);
        workspace.member(name, "2024", "lock-runtime", &test(attributes));
        workspace.cargo(&["check", "--tests"])
    };
    assert_clean(&check("above", [lock, "#[tokio::test]"]));

    let below = check("below", ["#[tokio::test]", lock]);
    assert!(!below.status.success());
    let said = said(&below);
    let advice = "such as `#[tokio::test]`, write `#[distributed_lock]` above it";
    assert!(said.contains(advice), "{said}");
    assert_eq!(
        said.matches("error: `#[distributed_lock]`").count(),
        1,
        "{said}"
    );
    assert!(!said.contains("error[E"), "{said}");
}
