//! Which server the tests run with, for what differs between versions: a test asserts the difference and does not skip it.

use crate::server::binary;
use std::process::Command;
use std::sync::LazyLock;

/// What `--version` says, as `Redis server v=6.2.14 sha=…`.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let binary = binary();
    let output = Command::new(&binary).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    String::from_utf8_lossy(&output.stdout).into_owned()
});

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
