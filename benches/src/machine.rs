//! Where this ran, and what it cost this process.

use std::time::Duration;

use lock_tests::RedisServer;
use rustix::time::{ClockId, clock_gettime};

/// Which machine this was, for whoever reads the table.
pub fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores of {model}")
}

/// The version that a server gives for itself.
pub fn redis_version(server: &RedisServer) -> String {
    let info: String = server.command(&["INFO", "server"]);
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    version.unwrap_or("?").trim().to_owned()
}

/// The system's one-minute load average, which tells a noisy run from a quiet one.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("?").to_owned()
}

/// Processor time that this process has used, all its threads together.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
