//! What an argument that does not exist was probably meant to be.

/// What other libraries call it.
const ELSEWHERE: [(&str, &str); 11] = [
    ("resource", "key"),
    ("expire", "ttl"),
    ("expires", "ttl"),
    ("expiry", "ttl"),
    ("lock_at_most_for", "ttl"),
    ("lock_at_least_for", "hold_at_least"),
    ("timeout", "wait"),
    ("wait_timeout", "wait"),
    ("renew", "extend"),
    ("auto_extend", "extend"),
    ("fencing", "fenced"),
];

/// The one of `names` that `written` is most like, if it is like one at all.
pub(super) fn meant(
    written: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let written = written.to_lowercase();
    if let Some((_, name)) = ELSEWHERE.iter().find(|(other, _)| *other == written) {
        return Some(name);
    }
    names
        .map(|name| (distance(&written, name), name))
        .filter(|(distance, name)| *distance <= name.len() / 3)
        .min()
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out, replaced or swapped with the next to turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, letter) in from.chars().enumerate() {
        let mut costs = vec![row + 1];
        for (at, other) in to.iter().enumerate() {
            let replaced = last[at] + usize::from(letter != *other);
            let mut cost = replaced.min(last[at + 1] + 1).min(costs[at] + 1);
            if at > 0 && previous == Some(*other) && letter == to[at - 1] {
                cost = cost.min(before_last[at - 1] + 1);
            }
            costs.push(cost);
        }
        before_last = std::mem::replace(&mut last, costs);
        previous = Some(letter);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{ARGUMENTS, names};
    use super::*;

    fn guess(written: &str) -> Option<&'static str> {
        meant(written, names())
    }

    #[test]
    fn finds_what_was_meant() {
        let table = [
            ("tll", Some("ttl")),
            ("TTL", Some("ttl")),
            ("ke", Some("key")),
            ("keyss", Some("keys")),
            ("waits", Some("wait")),
            ("on_bussy", Some("on_busy")),
            ("onlost", Some("on_lost")),
            ("maxhold", Some("max_hold")),
            ("hold_at_lest", Some("hold_at_least")),
            ("fence", Some("fenced")),
            ("timeout", Some("wait")),
            ("retries", None),
            ("x", None),
            ("", None),
        ];
        for (written, expected) in table {
            assert_eq!(guess(written), expected, "{written}");
        }
    }

    #[test]
    fn what_others_call_it_is_none_of_ours_and_means_one_of_ours() {
        for (other, name) in ELSEWHERE {
            assert!(names().all(|known| known != other), "{other}");
            assert!(ARGUMENTS.iter().any(|known| known.name == name), "{name}");
        }
    }

    #[test]
    fn distances() {
        let table = [
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("wait", "wait", 0),
            ("kye", "key", 1),
            ("é", "e", 1),
        ];
        for (from, to, expected) in table {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
