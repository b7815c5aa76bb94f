//! Who has a lock, as the nodes have it.

use std::fmt;

use crate::node::Owner;

/// What a client has written into a lock, to know it as its own. It is shown to be compared with what other nodes have: whoever
/// knows it can end the lock, so it is nothing for a log. [`Debug`](fmt::Debug) leaves it out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LockOwner {
    pub(super) token: Box<[u8]>,
    pub(super) forced: bool,
}

/// Several times what any client that we know writes, with the longest label.
const MOST_SHOWN: usize = 512;

impl LockOwner {
    /// What the client has written, to the byte.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.token
    }

    /// The [label](crate::LockManagerBuilder::holder_label) of the client, if it is one of this library and has one.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        let (random, label) = self.token.split_at_checked(32)?;
        let is_ours = random.iter().all(u8::is_ascii_hexdigit);
        let label = label.strip_prefix(b" ").filter(|_| is_ours)?;
        // Others write whatever they like, and a label is for terminals and logs: what no manager takes for one is none.
        let label = std::str::from_utf8(label).ok()?;
        (!label.is_empty() && !label.contains(char::is_control)).then_some(label)
    }

    /// Whether the lock was [taken from it](crate::LockManager::force_release), and what a node has is the mark of that.
    #[must_use]
    pub fn was_forced(&self) -> bool {
        self.forced
    }
}

impl From<Owner> for LockOwner {
    fn from(owner: Owner) -> Self {
        let seized = owner.seized_from();
        let forced = seized.is_some();
        Self {
            token: seized.unwrap_or(owner).0,
            forced,
        }
    }
}

/// Whatever it is, in a form that says all of it: a client in another language may write any bytes. What is not printable ASCII
/// is written as in a byte string of Rust, and so is a backslash. What is much too long for an owner is something else, by the
/// name of a lock: its beginning is shown, and its length.
impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.token.is_empty() {
            return f.write_str("\"\"");
        }
        let shown = self.token.get(..MOST_SHOWN).unwrap_or(&self.token);
        for &byte in shown {
            match byte {
                b' '..=b'[' | b']'..=b'~' => write!(f, "{}", char::from(byte))?,
                other => write!(f, "{}", other.escape_ascii())?,
            }
        }
        if shown.len() < self.token.len() {
            write!(f, "… ({} bytes)", self.token.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.forced {
            "LockOwner(forced …)"
        } else {
            "LockOwner(…)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(bytes: &[u8]) -> LockOwner {
        Owner(bytes.into()).into()
    }

    #[test]
    fn what_other_clients_write_is_shown_whole_and_kept_from_logs() {
        for (bytes, shown) in [
            (&b"5f3c"[..], "5f3c"),
            (b"web-1 \"x\"", "web-1 \"x\""),
            (b"\x00\xff\n\\", "\\x00\\xff\\n\\\\"),
            (
                "ключ".as_bytes(),
                "\\xd0\\xba\\xd0\\xbb\\xd1\\x8e\\xd1\\x87",
            ),
            (b"", "\"\""),
        ] {
            assert_eq!(owner(bytes).to_string(), shown);
            assert_eq!(owner(bytes).as_bytes(), bytes);
            assert!(!owner(bytes).was_forced());
            assert_eq!(format!("{:?}", owner(bytes)), "LockOwner(…)");
        }
        let whole = "x".repeat(MOST_SHOWN);
        assert_eq!(owner(whole.as_bytes()).to_string(), whole);
        let huge = "x".repeat(10 << 20);
        let shown = format!("{whole}… (10485760 bytes)");
        assert_eq!(owner(huge.as_bytes()).to_string(), shown);
        let digits = "0123456789abcdef".repeat(2);
        let with = |tail: &str| owner(format!("{digits}{tail}").as_bytes());
        assert_eq!(with(" web-1 (7)").label(), Some("web-1 (7)"));
        assert_eq!(
            owner(format!("forced:{digits} ключ").as_bytes()).label(),
            Some("ключ")
        );
        let others = [
            with(""),
            with(" "),
            with("web-1"),
            with(" \x1b[2Jweb-1"),
            with(" web-1\nERROR"),
            with(" \u{9b}31m"),
            owner(b"web-1 7"),
            owner(b""),
        ];
        for other in others {
            assert_eq!(other.label(), None);
        }
        let forced = owner(b"forced:5f3c");
        assert!(forced.was_forced());
        assert_eq!(forced.as_bytes(), b"5f3c");
    }
}
