//! In which order the nodes decide for a key after a split vote: the same order for every client that lists the same
//! nodes, and another one for every key, so that no node is everybody's first.
//!
//! Rendezvous hashing (Thaler and Ravishankar, 1998): each node is given a score for the key and the highest is first.

use std::cmp::Reverse;

/// Positions of `nodes`, the key's first node first.
pub(crate) fn for_key<'a>(key: &str, nodes: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut scored: Vec<_> = nodes
        .enumerate()
        .map(|(index, name)| (Reverse(score(key, name)), index))
        .collect();
    scored.sort_unstable();
    scored.into_iter().map(|(_, index)| index).collect()
}

/// FNV-1a over key and node, then the finaliser of `SplitMix64`: fixed for ever, as services built years apart must agree.
fn score(key: &str, node: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in key.bytes().chain([0]).chain(node.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 5] = ["a:6379", "b:6379", "c:6379", "d:6379", "e:6379"];

    #[test]
    fn every_client_finds_the_same_first_node_however_it_lists_them() {
        let turned = ["d:6379", "a:6379", "e:6379", "c:6379", "b:6379"];
        for key in ["order:1", "order:2", "cron:nightly", ""] {
            let one: Vec<_> = for_key(key, NODES.into_iter())
                .into_iter()
                .map(|i| NODES[i])
                .collect();
            let other: Vec<_> = for_key(key, turned.into_iter())
                .into_iter()
                .map(|i| turned[i])
                .collect();
            assert_eq!(one, other, "{key}");
        }
    }

    #[test]
    fn keys_spread_over_the_nodes() {
        let mut first = [0_u32; 5];
        for key in 0..5_000 {
            first[for_key(&format!("order:{key}"), NODES.into_iter())[0]] += 1;
        }
        for count in first {
            assert!((800..1_200).contains(&count), "{first:?}");
        }
    }

    #[test]
    fn the_order_never_changes_between_versions() {
        assert_eq!(for_key("order:1", NODES.into_iter()), ORDER_OF_ORDER_1);
    }

    const ORDER_OF_ORDER_1: [usize; 5] = [0, 4, 1, 2, 3];
}
