//! Functions that a `macro_rules!` macro makes: its fragments arrive in invisible groups.

use std::fmt::Display;
use std::time::Duration;

use lock_runtime::distributed_lock;

use crate::{Outcome, holds, locks};

macro_rules! guarded {
    ($(#[$attr:meta])* $vis:vis $name:ident($param:pat_param, $of:ty), $key:literal, $ttl:expr, $ret:ty, $body:block) => {
        $(#[$attr])*
        #[distributed_lock(key = $key, ttl = $ttl, manager = locks())]
        $vis async fn $name($param: $of) -> $ret $body
    };
}

guarded!(
    /// Documented.
    pub(super) made(id, u8), "made:{id}", "8s", Outcome<u8>,
    {
        holds("made:8");
        Ok(id)
    }
);

guarded!(
    hidden((id, _), (u8, u8)),
    "made:{id}",
    Duration::from_secs(8),
    Outcome<impl Display>,
    {
        holds("made:8");
        Ok(id)
    }
);

#[tokio::test]
async fn from_fragments_of_every_kind() -> Outcome<()> {
    assert_eq!(made(8).await?, 8);
    assert_eq!(hidden((8, 9)).await?.to_string(), "8");
    Ok(())
}

macro_rules! whole {
    ($($item:item)*) => {
        $(
            #[distributed_lock(key = "whole", ttl = "8s", manager = locks())]
            $item
        )*
    };
}

whole! {
    async fn first(n: u8) -> Outcome<u8> {
        holds("whole");
        Ok(n)
    }

    async fn second(_: u8, mut n: u8) -> Outcome<u8> {
        holds("whole");
        n += 1;
        Ok(n)
    }
}

#[tokio::test]
async fn from_whole_items() -> Outcome<()> {
    assert_eq!(first(1).await? + second(0, 1).await?, 3);
    Ok(())
}

macro_rules! keyed {
    ($name:ident, $key:expr, $seen:literal) => {
        #[distributed_lock(key = $key, ttl = "8s", manager = locks())]
        async fn $name(n: u8) -> Outcome<u8> {
            holds($seen);
            Ok(n)
        }
    };
}

keyed!(by_expression, format!("{}", 7 + 1), "8");
keyed!(by_number, 8, "8");
keyed!(by_macro, concat!("a", "b"), "ab");

#[tokio::test]
async fn with_the_key_from_outside() -> Outcome<()> {
    assert_eq!(by_expression(1).await?, 1);
    assert_eq!(by_number(1).await?, 1);
    assert_eq!(by_macro(1).await?, 1);
    Ok(())
}

/// A name of the macro's own and one of its caller are two variables, also where both are spelled `n`.
macro_rules! with_its_own_name {
    ($name:ident, $param:ident) => {
        #[distributed_lock(key = format!("{}:{}", n, $param), ttl = "8s", manager = locks())]
        async fn $name(n: u8, $param: u8) -> Outcome<(u8, u8)> {
            holds("1:2");
            Ok((n, $param))
        }
    };
}

with_its_own_name!(hygienic, n);

#[tokio::test]
async fn with_two_parameters_of_one_spelling() -> Outcome<()> {
    assert_eq!(hygienic(1, 2).await?, (1, 2));
    Ok(())
}
