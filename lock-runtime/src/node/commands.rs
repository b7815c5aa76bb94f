//! Requests as servers take them.

use std::time::Duration;

use redis::Cmd;

use super::{Ask, Extension, Fence, Raise, Return, sibling};

pub(super) fn set_nx_get(ask: &Ask) -> Cmd {
    let mut command = command("SET", &ask.key);
    command.arg(&*ask.key).arg(&ask.token).arg("NX");
    command.arg("PX").arg(whole_millis(ask.ttl)).arg("GET");
    command
}

pub(super) fn acquire(name: &str, script: &str, ask: &Ask) -> Cmd {
    let mut command = command(name, &ask.key);
    command.arg(script).arg(1).arg(&*ask.key);
    command.arg(&ask.token).arg(whole_millis(ask.ttl));
    command
}

pub(super) fn acquire_fenced(name: &str, script: &str, ask: &Ask, fence: &Fence) -> Cmd {
    let mut command = command(name, &ask.key);
    command.arg(script).arg(2).arg(&*ask.key).arg(&*fence.key);
    command.arg(&ask.token).arg(whole_millis(ask.ttl));
    command.arg(fence.token).arg(whole_millis(fence.ttl));
    command
}

pub(super) fn extend(
    name: &str,
    script: &str,
    extension: &Extension,
    fence: Option<&Fence>,
) -> Cmd {
    let mut command = command(name, &extension.key);
    command.arg(script).arg(1 + u8::from(fence.is_some()));
    command.arg(&*extension.key);
    if let Some(fence) = fence {
        command.arg(&*fence.key);
    }
    command.arg(&extension.token);
    command.arg(whole_millis(extension.ttl));
    if let Some(fence) = fence {
        command.arg(fence.token).arg(whole_millis(fence.ttl));
    }
    command
}

pub(super) fn raise_fence(name: &str, script: &str, raise: &Raise) -> Cmd {
    let fence = &raise.fence;
    let mut command = command(name, &raise.key);
    command.arg(script).arg(2).arg(&*raise.key).arg(&*fence.key);
    command.arg(&raise.token);
    command.arg(fence.token).arg(whole_millis(fence.ttl));
    command
}

pub(super) fn release(
    name: &str,
    script: &str,
    give_back: &Return,
    aloud: Option<Duration>,
) -> Cmd {
    let mut command = command(name, &give_back.key);
    command.arg(script).arg(1).arg(&*give_back.key);
    command.arg(&give_back.token);
    if let Some(waited) = aloud {
        let millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        command.arg(sibling::channel(&give_back.key)).arg(millis);
    } else {
        command.arg(give_back.keep.map_or(0, whole_millis));
    }
    command
}

/// An empty command with room for what the hot path sends.
pub(super) fn command(name: &str, key: &str) -> Cmd {
    const MOST_ARGUMENTS: usize = 7;
    const NAME_HASH_TOKEN_AND_NUMBERS: usize = 128;
    let mut command = Cmd::with_capacity(MOST_ARGUMENTS, NAME_HASH_TOKEN_AND_NUMBERS + key.len());
    command.arg(name);
    command
}

/// Redis counts in milliseconds, and takes none for an error.
pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1000))
        .unwrap_or(u64::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_never_none() {
        assert_eq!(whole_millis(Duration::ZERO), 1);
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_micros(1_001)), 2);
        assert_eq!(whole_millis(Duration::from_millis(500)), 500);
        assert_eq!(whole_millis(Duration::MAX), u64::MAX);
    }
}
