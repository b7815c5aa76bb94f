//! What else a node keeps for a lock, by name: in the lock's hash slot, for a lock in a cluster.

use std::sync::Arc;

/// Slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The key under which a lock's fencing token is remembered.
pub(super) fn fence(lock: &str) -> Arc<str> {
    if tag(lock).is_some() {
        // The lock's own tag comes first in the fence's key too.
        return format!("{lock}:fence").into();
    }
    let tagged = format!("{{{lock}}}:fence");
    if slot(&tagged) == slot(lock) {
        return tagged.into();
    }
    // Braces that make no tag of their own and would end ours too early.
    numbered(&format!("{lock}:fence:"), slot(lock)).into()
}

/// The name, which has no tag, with the first number behind it that makes it a key of this slot: one in 16384 does by chance.
pub(super) fn numbered(name: &str, wanted: u16) -> String {
    // Tens of thousands may have to be tried while locks wait, so only the digits are hashed for each.
    let hashed = crc16(0, name.as_bytes());
    let fits = |number: &u32| crc16(hashed, number.to_string().as_bytes()) % SLOTS == wanted;
    let number = (0..u32::MAX).find(fits).unwrap_or(0);
    format!("{name}{number}")
}

/// The channel on which a lock's releases are published. `a` and `{a}` share one, as they do a fence: who hears of the other's
/// release looks and waits on.
///
/// Where braces make no tag of their own and would end ours too early, the name is in another slot than the lock. No number
/// is looked for as for a key: what is published on a channel reaches whoever listens to it on any node of a cluster.
pub(super) fn channel(lock: &str) -> String {
    if tag(lock).is_some() || lock.contains('}') {
        [lock, ":released"].concat()
    } else {
        ["{", lock, "}:released"].concat()
    }
}

/// Whether this is the key of the fence of some lock.
pub(super) fn is_fence(key: &str) -> bool {
    if let Some(lock) = key.strip_suffix(":fence") {
        let untagged = || lock.strip_prefix('{')?.strip_suffix('}');
        return tag(lock).is_some() || untagged().is_some_and(|lock| *fence(lock) == *key);
    }
    let numbered = |(lock, number): &(&str, &str)| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && *fence(lock) == *key
    };
    key.rsplit_once(":fence:").as_ref().is_some_and(numbered)
}

/// Whether a key that ends like this may be such a key: [`is_fence`] tells. What is short may be the end of the word.
pub(super) fn may_end_fence(end: &str) -> bool {
    let overlaps = |end: &str, word: &str| end.ends_with(word) || word.ends_with(end);
    let unnumbered = end.trim_end_matches(|c: char| c.is_ascii_digit());
    overlaps(end, ":fence") || overlaps(unnumbered, ":fence:")
}

/// What stands between the first `{` and the next `}`, if anything does: then only that is hashed.
pub(super) fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

pub(super) fn slot(key: &str) -> u16 {
    crc16(0, tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, which Redis Cluster hashes keys with: of what was hashed before, followed by these bytes.
fn crc16(before: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(before, |crc, byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from_be_bytes([low, 0]) ^ OF_BYTE[usize::from(high ^ byte)]
    })
}

/// What each byte comes to by itself.
const OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The check value of CRC-16/XMODEM, and slots that a server of Redis 7.0 answers to `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_a_server() {
        assert_eq!(crc16(0, b"123456789"), 0x31C3);
        for (key, expected) in [
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("{}foo", 9_500),
            ("a{b", 13_340),
        ] {
            assert_eq!(slot(key), expected, "{key}");
        }
    }

    #[test]
    fn a_fence_is_where_its_lock_is_and_never_the_lock_itself() {
        for lock in [
            "order:1",
            "{shop}order:1",
            "a{b",
            "a}b",
            "{}x",
            "}{",
            "{a}{b}",
            "x{}{y}",
            "ключ",
            "",
        ] {
            let fence = fence(lock);
            assert_eq!(slot(&fence), slot(lock), "{lock} {fence}");
            assert_ne!(&*fence, lock);
            assert!(is_fence(&fence), "{fence}");
            for (at, _) in fence.char_indices() {
                assert!(may_end_fence(&fence[at..]), "{}", &fence[at..]);
            }
        }
        for lock in [
            "order:1",
            "order:1:fence",
            "a}b:fence:7",
            "{a}:fence:7",
            "fence",
            ":fence",
        ] {
            assert!(!is_fence(lock), "{lock}");
        }
        for end in ["order:1", "7a", "account:12:3", "nightly", "defence:"] {
            assert!(!may_end_fence(end), "{end}");
        }
        assert_eq!(&*fence("order:1"), "{order:1}:fence");
        assert_eq!(&*fence("{shop}order:1"), "{shop}order:1:fence");
    }

    #[test]
    fn a_channel_is_where_its_lock_is_but_for_braces_that_make_no_tag() {
        for (lock, expected) in [
            ("order:1", "{order:1}:released"),
            ("a{b", "{a{b}:released"),
            ("{shop}order:1", "{shop}order:1:released"),
            ("shop:{eu}order:1", "shop:{eu}order:1:released"),
        ] {
            assert_eq!(channel(lock), expected);
            assert_eq!(slot(expected), slot(lock), "{lock}");
        }
        let odd = [
            "a}b", "{a}b}", "{a}b", "{}", "{}x", "}{", "{", "}", "{a}", "{{a}}",
        ];
        let channels: BTreeSet<_> = odd.into_iter().map(channel).collect();
        assert_eq!(channels.len(), odd.len(), "{channels:?}");
        assert_eq!(channel("a"), channel("{a}"));
    }

    /// What one version has stored is looked for under the same name by the next.
    #[test]
    fn the_name_for_braces_that_make_no_tag_is_the_first_number_that_fits() {
        for lock in ["a}b", "}{", "{}x", "user}12345"] {
            let fits = |number: &u32| slot(&format!("{lock}:fence:{number}")) == slot(lock);
            let first = (0..1 << 20).find(fits).expect("one of very many");
            assert_eq!(*fence(lock), format!("{lock}:fence:{first}"));
        }
        assert_eq!(&*fence("a}b"), "a}b:fence:1963");
    }
}
