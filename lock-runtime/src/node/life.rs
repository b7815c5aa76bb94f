//! Whether a server has lived long enough to vote.
//!
//! A server that crashed may come back without its last writes, and grant a lock that somebody holds. The Redlock
//! description has a rule for it: keep it out for as long as the longest lease. A restart always breaks the connection,
//! so every new connection asks how long the server has been up. Younger than `max_ttl`: it has no vote until it is older.
//! No clocks are compared; but the server counts its uptime with its own, so one that is set forward ages it.
//!
//! A deployment that is brand-new need not wait, and a client that comes to it a moment later neither. So each server
//! remembers, under a key of its own, in which life (`run_id`) it was last known to have a vote: while it is in that life
//! it has lost nothing. If all nodes are young and none remembers anything, the deployment is new, and all are admitted; so
//! not all nodes that were told may forget it at the same time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::role::info_field;
use super::target::Target;
use super::{NodeError, Standing};

/// For how long a server remembers. It is told again with every connection, and every hour.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// An uptime is the difference of two moments that were both cut to seconds, so it may be almost this much too long.
const ROUNDING: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Life {
    /// Which life of the server this is. `None`: it may not be asked.
    run_id: Option<Arc<str>>,
    standing: Mutex<Known>,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Votes,
    Young { until: Instant, unknown: bool },
}

impl Life {
    /// From what a server says of itself: `INFO server`, and what it remembers.
    pub(super) fn new(info: &str, remembered: &Value, max_ttl: Option<Duration>) -> Self {
        let run_id = info_field(info, "run_id").map(Into::into);
        let uptime = info_field(info, "uptime_in_seconds")
            .and_then(|seconds| seconds.parse().ok())
            .map(Duration::from_secs);
        let left = match (max_ttl, uptime) {
            (Some(max_ttl), Some(uptime)) => {
                max_ttl.saturating_add(ROUNDING).saturating_sub(uptime)
            }
            // The rule is off, or the server may not be asked.
            (None, _) | (_, None) => Duration::ZERO,
        };
        let now = Instant::now();
        let life = Self {
            run_id,
            standing: Mutex::new(match now.checked_add(left) {
                Some(until) if !left.is_zero() => Known::Young {
                    until,
                    unknown: false,
                },
                _ => Known::Votes,
            }),
        };
        if !left.is_zero() {
            life.note(remembered);
        }
        life
    }

    pub(super) fn votes(&self) -> Result<(), NodeError> {
        match self.standing() {
            Standing::Votes => Ok(()),
            Standing::Abstains { for_another, .. } => Err(NodeError::Abstains(for_another)),
        }
    }

    /// Takes note of what the server remembers.
    pub(super) fn note(&self, remembered: &Value) -> Standing {
        let in_this_life = match (remembered, &self.run_id) {
            (Value::BulkString(remembered), Some(run_id)) => remembered == run_id.as_bytes(),
            _ => false,
        };
        if in_this_life {
            self.admit();
        } else {
            let mut known = self.known();
            if let Known::Young { unknown, .. } = &mut *known {
                *unknown = *remembered == Value::Nil;
            }
        }
        self.standing()
    }

    pub(super) fn is(&self, life: &str) -> bool {
        self.run_id.as_deref() == Some(life)
    }

    pub(super) fn admit(&self) {
        *self.known() = Known::Votes;
    }

    /// The command that makes the server remember that it has a vote in this life.
    pub(super) fn mark(&self, target: &Target) -> Option<Cmd> {
        let mut command = redis::cmd("SET");
        command.arg(target.marker()?).arg(self.run_id.as_deref()?);
        command.arg("EX").arg(REMEMBERED.as_secs());
        Some(command)
    }

    fn standing(&self) -> Standing {
        let mut known = self.known();
        if let Known::Young { until, unknown } = *known {
            let for_another = until.saturating_duration_since(Instant::now());
            if !for_another.is_zero() {
                return Standing::Abstains {
                    for_another,
                    unknown: self.run_id.clone().filter(|_| unknown),
                };
            }
            *known = Known::Votes;
        }
        Standing::Votes
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_TTL: Option<Duration> = Some(Duration::from_secs(60));

    fn info(uptime: u64) -> String {
        format!("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:{uptime}\r\n")
    }

    fn remembers(run_id: &str) -> Value {
        Value::BulkString(run_id.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_young_server_votes_once_it_is_older_than_the_longest_lease() {
        let life = Life::new(&info(12), &remembers("its last life"), MAX_TTL);
        assert_eq!(
            life.votes(),
            Err(NodeError::Abstains(Duration::from_secs(49)))
        );
        tokio::time::advance(Duration::from_millis(48_999)).await;
        assert!(life.votes().is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(life.votes(), Ok(()));
    }

    #[tokio::test]
    async fn a_server_votes_that_is_old_or_was_admitted_in_this_life() {
        assert_eq!(Life::new(&info(61), &Value::Nil, MAX_TTL).votes(), Ok(()));
        assert_eq!(
            Life::new(&info(1), &remembers("abc"), MAX_TTL).votes(),
            Ok(())
        );
        assert_eq!(Life::new(&info(1), &Value::Nil, None).votes(), Ok(()));
        assert_eq!(Life::new("", &Value::Nil, MAX_TTL).votes(), Ok(()));
    }

    #[tokio::test]
    async fn a_server_that_remembers_nothing_is_told_from_one_that_remembers_another_life() {
        let standing = |remembered| Life::new(&info(1), &remembered, MAX_TTL).standing();
        let unknown = |standing| {
            matches!(
                standing,
                Standing::Abstains {
                    unknown: Some(_),
                    ..
                }
            )
        };
        assert!(unknown(standing(Value::Nil)));
        assert!(!unknown(standing(remembers("its last life"))));
    }

    #[tokio::test]
    async fn what_another_client_admitted_votes() {
        let life = Life::new(&info(1), &Value::Nil, MAX_TTL);
        assert!(life.votes().is_err());
        assert_eq!(life.note(&remembers("abc")), Standing::Votes);
        assert_eq!(life.votes(), Ok(()));
    }
}
