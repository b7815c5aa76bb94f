//! What a lock is called.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The name of a lock, as the caller wrote it: the manager puts its prefix in front before a node sees it.
///
/// Anything a key is usually made from converts into one. Whether it can be locked is looked at when the lock is
/// asked for: an empty key, one of white space only, one longer than [`LockKey::MAX_LEN`] bytes, or one under which the nodes
/// keep something else, as `{order:1}:fence`, gives [`LockError::InvalidKey`](crate::LockError::InvalidKey).
///
/// ```
/// use lock_runtime::LockKey;
///
/// assert_eq!(LockKey::from(17_u64).as_str(), "17");
/// assert_eq!(LockKey::from(format!("order:{}", 17)).as_str(), "order:17");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// The longest key, in bytes, prefix not counted. Redis takes more; a key this long is a payload by mistake.
    pub const MAX_LEN: usize = 1024;

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Why this key cannot be locked, if it cannot.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.0.trim().is_empty() {
            Some("it is empty or all white space")
        } else if self.0.len() > Self::MAX_LEN {
            Some("it is longer than 1024 bytes")
        } else {
            None
        }
    }

    /// The name that the nodes see.
    pub(crate) fn prefixed(&self, prefix: &str) -> Arc<str> {
        if prefix.is_empty() {
            Arc::clone(&self.0)
        } else {
            [prefix, &self.0].concat().into()
        }
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&LockKey> for LockKey {
    fn from(key: &LockKey) -> Self {
        key.clone()
    }
}

macro_rules! from_text {
    ($($text:ty),+) => {$(
        impl From<$text> for LockKey {
            fn from(text: $text) -> Self {
                Self(text.into())
            }
        }
    )+};
}

from_text!(&str, String, Box<str>, Arc<str>, Cow<'_, str>);

impl From<&String> for LockKey {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

macro_rules! from_number {
    ($($number:ty),+) => {$(
        impl From<$number> for LockKey {
            fn from(number: $number) -> Self {
                number.to_string().into()
            }
        }
    )+};
}

from_number!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize
);

/// What the attribute takes for a key: `Into<LockKey>`, under a name with a message of its own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a lock",
    label = "not text, not a whole number, and not `Into<LockKey>`",
    note = "a template shows a part of it: `key = \"order:{{order.id}}\"`",
    note = "or write `impl From<{Self}> for lock_runtime::LockKey`"
)]
pub trait IntoKey {
    /// The key.
    fn into_key(self) -> LockKey;
}

#[diagnostic::do_not_recommend]
impl<T: Into<LockKey>> IntoKey for T {
    fn into_key(self) -> LockKey {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_locked_says_why() {
        for empty in ["", " ", "\t\n", "\u{3000}"] {
            assert!(LockKey::from(empty).fault().is_some(), "{empty:?}");
        }
        let longest = "x".repeat(LockKey::MAX_LEN);
        assert_eq!(LockKey::from(&longest).fault(), None);
        assert!(LockKey::from(longest + "x").fault().is_some());
        for odd in ["{a}b", "}{", "a b", "ключ", "a\0b", ":"] {
            assert_eq!(LockKey::from(odd).fault(), None, "{odd:?}");
        }
    }

    #[test]
    fn the_prefix_stands_in_front() {
        assert_eq!(&*LockKey::from("order:1").prefixed("shop:"), "shop:order:1");
        assert_eq!(&*LockKey::from("order:1").prefixed(""), "order:1");
    }
}
