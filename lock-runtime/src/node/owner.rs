//! Whose a lock is.

use std::fmt;
use std::sync::Arc;

/// Who an owner is: 128 random bits, drawn anew for each attempt, as lower-case hexadecimal digits; and behind a space, for
/// an operator, the label of whoever asks, if he has one.
#[derive(Clone)]
pub(crate) struct Token {
    random: [u8; 32],
    label: Option<Arc<str>>,
}

impl Token {
    pub(crate) fn fresh(label: Option<&Arc<str>>) -> Result<Self, getrandom::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut drawn = [0_u8; 16];
        getrandom::fill(&mut drawn)?;
        let mut random = [0; 32];
        for (pair, byte) in random.chunks_exact_mut(2).zip(drawn) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        let label = label.map(Arc::clone);
        Ok(Self { random, label })
    }

    /// Whether this owner is it, as a node has it.
    pub(crate) fn is(&self, owner: &[u8]) -> bool {
        let label = owner.strip_prefix(&self.random);
        label.is_some_and(|label| label.is_empty() || label.starts_with(b" "))
    }

    /// As nodes have it.
    pub(crate) fn owner(&self) -> Owner {
        let mut owner = Vec::with_capacity(self.random.len() + 1 + self.label().len());
        owner.extend_from_slice(&self.random);
        if let Some(label) = &self.label {
            owner.push(b' ');
            owner.extend_from_slice(label.as_bytes());
        }
        Owner(owner.into())
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }
}

/// No two are drawn alike.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.random == other.random
    }
}

impl Eq for Token {}

/// An argument of a command, written to where it is sent from.
impl redis::ToRedisArgs for &Token {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        if self.label.is_some() {
            out.write_arg(&self.owner().0);
        } else {
            out.write_arg(&self.random);
        }
    }
}

/// A token opens the lock, so it is not for logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// An owner as a node reports it: another client's token, in whatever form that client writes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) Box<[u8]>);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_fresh_and_never_shown() {
        let tokens: Vec<_> = (0..100)
            .map(|_| Token::fresh(None).expect("random"))
            .collect();
        for (i, token) in tokens.iter().enumerate() {
            assert!(tokens[i + 1..].iter().all(|other| other != token));
            assert!(token.owner().0.iter().all(u8::is_ascii_hexdigit));
            assert_eq!(format!("{token:?}"), "Token(…)");
        }
    }

    #[test]
    fn an_owner_is_known_by_his_token_and_shown_with_his_label() {
        let label: Arc<str> = "web-1".into();
        let plain = Token::fresh(None).expect("random");
        let labelled = Token::fresh(Some(&label)).expect("random");
        let [one, other] = [&plain, &labelled].map(Token::owner);
        assert!(plain.is(&one.0) && labelled.is(&other.0));
        assert!(!plain.is(&other.0) && !labelled.is(&one.0));
        assert!(other.0.ends_with(b" web-1"));
        assert!(!plain.is(&[&*one.0, b"x"].concat()) && !plain.is(&one.0[1..]));
    }
}
