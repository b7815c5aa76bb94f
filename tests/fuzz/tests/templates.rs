//! A key renders as `format!` does: the batch that `build.rs` wrote, compiled with both.
#![allow(
    clippy::all,
    clippy::pedantic,
    unused_variables,
    reason = "templates are made at random"
)]

use std::collections::BTreeMap;
use std::fmt;

use lock_runtime::{LockError, LockManager, distributed_lock};

const LIMIT: u32 = 10;

struct Shop {
    region: &'static str,
    count: i64,
    locks: LockManager,
}

impl Shop {
    const LIMIT: u32 = 11;
}

struct Order {
    id: u64,
    pair: (u8, (u16, u8)),
    list: Vec<u64>,
    tags: Vec<String>,
    r#type: u8,
    map: BTreeMap<&'static str, u32>,
}

impl Order {
    fn id(&self) -> u64 {
        self.id + 1
    }

    fn first(&self) -> &str {
        &self.tags[0]
    }
}

/// A number that can be written in every way there is.
#[derive(Clone, Copy)]
struct Any(u64);

macro_rules! in_every_way {
    ($($way:ident),*) => {$(
        impl fmt::$way for Any {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::$way::fmt(&self.0, f)
            }
        }
    )*};
}

in_every_way!(
    Binary, Debug, Display, LowerExp, LowerHex, Octal, UpperExp, UpperHex
);

impl fmt::Pointer for Any {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

include!(concat!(env!("OUT_DIR"), "/templates.rs"));

#[tokio::test]
async fn a_key_renders_as_format_does() {
    let shop = Shop {
        region: "eu",
        count: -3,
        locks: LockManager::in_memory(),
    };
    let order = Order {
        id: 5,
        pair: (1, (300, 2)),
        list: vec![20, 21],
        tags: vec!["a:b".to_owned()],
        r#type: 4,
        map: BTreeMap::from([("a:}b", 6)]),
    };
    every_template(&shop, order).await;
    assert_eq!(shop.locks.stats().acquired, 400);
}
