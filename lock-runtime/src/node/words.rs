//! What servers, and what answers in their place, have against us: in words for an operator, without anything secret.

use std::sync::Arc;

use redis::{ErrorKind, RedisConnectionInfo, RedisError};

use super::trouble::{DownCause, Trouble};
use super::wire::{FirstByte, Refusal, Trust, Wire};
use crate::shown::Visible;

/// Of whatever answers what Redis does not.
pub(super) const NOT_REDIS: &str = "what answers there is not Redis";

const CLOSED_BY_PEER: &str = "connection closed";

/// An error in the words of the server where it is the server's, for an operator who knows Redis.
pub(super) fn words(error: &RedisError) -> Arc<str> {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            visible(&format!("{code} {}", without_arguments(detail))).into()
        }
        (Some(code), None) => visible(code).into(),
        (None, _) if error.is_connection_dropped() => CLOSED_BY_PEER.into(),
        // The client library quotes what it could not understand, and that may be anything.
        (None, _)
            if matches!(
                error.kind(),
                ErrorKind::Parse | ErrorKind::UnexpectedReturnType
            ) =>
        {
            NOT_REDIS.into()
        }
        (None, _) => visible(&error.to_string()).into(),
    }
}

/// For a terminal and a log: what whoever answers says may be anything.
pub(super) fn visible(said: &str) -> String {
    Visible(said).to_string()
}

/// A server quotes the arguments of a command that it does not know: of `AUTH` the password, of others the owner token.
fn without_arguments(detail: &str) -> &str {
    let quoted = detail.split_once(", with args beginning with");
    quoted.map_or(detail, |(said, _)| said)
}

/// Not quoted: it may be anything, also what was sent.
pub(super) const UNEXPECTED: &str = "an answer that Redis does not give";

/// Whatever is there may repeat what it was sent. Then nothing of its words is shown: what is left out of a sentence that everybody
/// knows is known too. In what servers say to everybody there may be a password by chance, and that is shown as ever.
pub(super) fn without_password(reason: Arc<str>, login: &RedisConnectionInfo) -> Arc<str> {
    let password = login.password().filter(|password| !password.is_empty());
    let repeats = |password: &str| reason.contains(password);
    if !password.is_some_and(repeats) || is_said_to_everybody(&reason, login.username()) {
        return reason;
    }
    let code = reason.split(' ').next().filter(|code| CODES.contains(code));
    match code {
        Some(code) => format!("{code} {REPEATED}").into(),
        None => REPEATED.into(),
    }
}

const REPEATED: &str = "(and words that are not shown, as they may repeat the password)";

/// What errors begin with that a login may meet.
const CODES: [&str; 6] = ["ERR", "WRONGPASS", "NOAUTH", "NOPERM", "LOADING", "DENIED"];

/// Whether Redis 6.2 to 8 or Valkey say this to whoever logs in and asks who they are, to the letter; or we of others.
fn is_said_to_everybody(reason: &str, user: Option<&str>) -> bool {
    const ALL_OF_IT: [&str; 10] = [
        NOT_REDIS,
        CLOSED_BY_PEER,
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOAUTH Authentication required.",
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        "ERR Client sent AUTH, but no password is set",
        "LOADING Redis is loading the dataset in memory",
        "NOPERM this user has no permissions to access one of the channels used as arguments",
        "NOPERM No permissions to access a channel",
        "NOPERM No permissions to access a key",
    ];
    const ASKED: [&str; 11] = [
        "hello",
        "select",
        "wait",
        "publish",
        "info",
        "script|load",
        "script",
        "evalsha",
        "sentinel|master",
        "sentinel|get-master-addr-by-name",
        "sentinel",
    ];
    let who = match user {
        Some(user) => format!("NOPERM User {user} has"),
        None => "NOPERM User default has".to_owned(),
    };
    let command = [&*who, "NOPERM this user has"]
        .iter()
        .find_map(|who| {
            reason
                .strip_prefix(who)?
                .strip_prefix(" no permissions to run the '")
        })
        .and_then(|command| command.split_once("' command"));
    ALL_OF_IT.contains(&reason)
        || command.is_some_and(|(command, rest)| {
            ASKED.contains(&command) && ["", " or its subcommand"].contains(&rest)
        })
}

/// What is known of whatever is at the other end of a new connection, besides its errors.
pub(super) struct Clues {
    pub(super) trust: Trust,
    first: FirstByte,
    refusal: Refusal,
    is_tls: bool,
}

impl Clues {
    pub(super) fn of(wire: &Wire, is_tls: bool) -> Self {
        Self {
            trust: wire.trust(),
            first: wire.first_byte(),
            refusal: wire.refusal(),
            is_tls,
        }
    }

    /// An error in words for an operator.
    pub(super) fn explain(&self, error: &RedisError, login: &RedisConnectionInfo) -> Trouble {
        if self.trust.is_broken() {
            return DownCause::NotRedis.because(NOT_REDIS);
        }
        match (self.refusal.get(), self.first.get()) {
            (Some(refusal), _) => refusal,
            (None, None) if error.is_connection_dropped() && self.is_tls => {
                DownCause::ClientCertificate.because(CLOSED_BEHIND_TLS)
            }
            (None, None) if error.is_connection_dropped() => DownCause::PortIsTls.because(CLOSED),
            (None, Some(first)) if !begins_an_answer(first) => stranger(first),
            _ => {
                let reason = words(error);
                let cause = cause(error, &reason);
                // The system knows nothing of it.
                if error.is_io_error() {
                    return cause.because(reason);
                }
                cause.because(without_password(reason, login))
            }
        }
    }
}

/// Redis closes a connection that does not speak TLS without a word.
const CLOSED: &str = "connection closed without an answer, as by a port for TLS (rediss://)";

/// What a server has against a certificate may be lost with the connection.
const CLOSED_BEHIND_TLS: &str = "connection closed behind the TLS handshake without an answer, as by a server that demands another client certificate";

/// What is to be mended where a server says this.
fn cause(error: &RedisError, words: &str) -> DownCause {
    // A server without a password takes none.
    const NO_PASSWORD_HERE: [&str; 2] = ["without any password configured", "no password is set"];
    match error.code() {
        Some("WRONGPASS" | "NOAUTH") => DownCause::Login,
        Some("NOPERM") => DownCause::NotPermitted,
        Some("LOADING") => DownCause::Loading,
        Some("ERR") if NO_PASSWORD_HERE.iter().any(|said| words.contains(said)) => DownCause::Login,
        None if words == NOT_REDIS => DownCause::NotRedis,
        _ => DownCause::Other,
    }
}

fn begins_an_answer(first: u8) -> bool {
    b"+-:$*_,#!=(%~>|".contains(&first)
}

/// What is there instead of Redis. The client library says only that the connection was closed.
fn stranger(first: u8) -> Trouble {
    const TLS_ALERT_AND_HANDSHAKE: [u8; 2] = [0x15, 0x16];
    if TLS_ALERT_AND_HANDSHAKE.contains(&first) {
        DownCause::PortIsTls.because("the port is one for TLS (rediss://)")
    } else {
        DownCause::NotRedis.because(NOT_REDIS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_not_repeated() {
        let answer =
            b"-ERR unknown command 'AUTH', with args beginning with: 'locks' 'hunter2' \r\n";
        let answer = redis::parse_redis_value(answer).expect("a value");
        let error = answer.extract_error().expect_err("an error");
        assert_eq!(&*words(&error), "ERR unknown command 'AUTH'");
    }

    /// Nothing is seen of it: neither itself, nor that it is a word of what everybody is told.
    #[test]
    fn a_password_leaves_no_trace() {
        let shown = |user: &str, password: &str, said: &str| {
            let login = RedisConnectionInfo::default()
                .set_username(user)
                .set_password(password);
            without_password(said.into(), &login).to_string()
        };
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        let may_not = "NOPERM User locks has no permissions to run the 'script|load' command";
        for password in [
            "password",
            "user",
            "r",
            "WRONGPASS",
            "locks",
            "command",
            "e-p",
        ] {
            assert_eq!(shown("locks", password, wrong), wrong);
            assert_eq!(shown("locks", "Redis", NOT_REDIS), NOT_REDIS);
            let tried = shown("locks", password, may_not);
            assert_eq!(tried, may_not, "{password}");
        }
        for (password, said, expected) in [
            ("hunter2", "ERR hunter2 is no command", "ERR "),
            ("hunter2", "WRONGPASS for 'locks' 'hunter2'", "WRONGPASS "),
            ("hunter2", "hunter2", ""),
            ("ERR", "ERR unknown command 'ERR'", "ERR "),
            ("command", "ERR mycommander", "ERR "),
            (
                "hunter2",
                "NOPERM User locks has no permissions to run the 'hunter2' command",
                "NOPERM ",
            ),
        ] {
            let tried = shown("locks", password, said);
            assert_eq!(tried, format!("{expected}{REPEATED}"));
        }
    }

    #[test]
    fn what_a_server_says_does_nothing_to_a_terminal() {
        let answer = b"-ERR \x1b[2Jall is \xc2\x9b31mwell\x07\r\n";
        let answer = redis::parse_redis_value(answer).expect("a value");
        let error = answer.extract_error().expect_err("an error");
        assert_eq!(&*words(&error), "ERR ?[2Jall is ?31mwell?");
    }

    #[test]
    fn strangers_are_told_by_their_first_byte() {
        assert!(b"+-$*%".iter().all(|&first| begins_an_answer(first)));
        for (first, is_tls) in [(b'H', false), (0x00, false), (0x15, true), (0x16, true)] {
            assert!(!begins_an_answer(first));
            assert_eq!(stranger(first).reason.contains("TLS"), is_tls);
        }
    }
}
