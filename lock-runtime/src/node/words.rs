//! What servers, and what answers in their place, have against us: in words for an operator, without anything secret.

use std::sync::Arc;

use redis::{ErrorKind, RedisConnectionInfo, RedisError};

use super::wire::{FirstByte, Refusal, Trust, Wire};

/// Of whatever answers what Redis does not.
pub(super) const NOT_REDIS: &str = "what answers there is not Redis";

/// An error in the words of the server where it is the server's, for an operator who knows Redis.
pub(super) fn words(error: &RedisError) -> Arc<str> {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            visible(&format!("{code} {}", without_arguments(detail))).into()
        }
        (Some(code), None) => visible(code).into(),
        (None, _) if error.is_connection_dropped() => "connection closed".into(),
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
    let visible = |letter: char| if letter.is_control() { '?' } else { letter };
    said.chars().map(visible).collect()
}

/// A server quotes the arguments of a command that it does not know: of `AUTH` the password, of others the owner token.
fn without_arguments(detail: &str) -> &str {
    let quoted = detail.split_once(", with args beginning with");
    quoted.map_or(detail, |(said, _)| said)
}

/// Not quoted: it may be anything, also what was sent.
pub(super) const UNEXPECTED: &str = "an answer that Redis does not give";

/// Whatever is there may repeat what it was sent.
pub(super) fn without_password(reason: Arc<str>, login: &RedisConnectionInfo) -> Arc<str> {
    match login.password() {
        Some(password) if !password.is_empty() && reason.contains(password) => {
            reason.replace(password, "…").into()
        }
        _ => reason,
    }
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
    pub(super) fn explain(&self, error: &RedisError, login: &RedisConnectionInfo) -> Arc<str> {
        if self.trust.is_broken() {
            return NOT_REDIS.into();
        }
        match (self.refusal.get(), self.first.get()) {
            (Some(refusal), _) => refusal,
            (None, None) if error.is_connection_dropped() && self.is_tls => {
                CLOSED_BEHIND_TLS.into()
            }
            (None, None) if error.is_connection_dropped() => CLOSED.into(),
            (None, Some(first)) if !begins_an_answer(first) => stranger(first).into(),
            _ => without_password(words(error), login),
        }
    }
}

/// Redis closes a connection that does not speak TLS without a word.
const CLOSED: &str = "connection closed without an answer, as by a port for TLS (rediss://)";

/// What a server has against a certificate may be lost with the connection.
const CLOSED_BEHIND_TLS: &str = "connection closed behind the TLS handshake without an answer, as by a server that demands another client certificate";

fn begins_an_answer(first: u8) -> bool {
    b"+-:$*_,#!=(%~>|".contains(&first)
}

/// What is there instead of Redis. The client library says only that the connection was closed.
fn stranger(first: u8) -> &'static str {
    const TLS_ALERT_AND_HANDSHAKE: [u8; 2] = [0x15, 0x16];
    if TLS_ALERT_AND_HANDSHAKE.contains(&first) {
        "the port is one for TLS (rediss://)"
    } else {
        NOT_REDIS
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
            assert_eq!(stranger(first).contains("TLS"), is_tls);
        }
    }
}
