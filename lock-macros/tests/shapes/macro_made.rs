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

/// A fragment stays one operand, wherever it stands: in the attribute, in the signature, and in both kinds of bodies.
macro_rules! with_operands {
    ($($attr:meta)?; $name:ident, $boxed:ident, $sum:expr, $no:expr, $time:expr) => {
        #[distributed_lock(
            key = $sum * 2,
            ttl = $time * 2,
            fenced = !$no,
            manager = locks(),
            lease = lease,
            on_busy = Ok($sum * 2)
        )]
        async fn $name(values: [u8; $sum * 2]) -> Outcome<usize> {
            $(#![$attr])?
            let twice = $sum * 2;
            assert_eq!(lease.key(), "6");
            assert!(lease.remaining() > Duration::from_secs(10));
            assert!(lease.fence() > 0);
            assert_eq!(twice, values.len());
            Ok(twice)
        }

        #[distributed_lock(key = $sum * 2, ttl = "8s", manager = locks())]
        fn $boxed() -> impl Future<Output = Outcome<usize>> {
            let before = $sum * 2;
            async move {
                holds("6");
                let twice = $sum * 2;
                assert_eq!(before, twice);
                Ok(twice)
            }
        }
    };
}

const ON: bool = true;
const OFF: bool = false;
const A_WHILE: Duration = Duration::from_secs(3);

with_operands!(; operands, boxed_operands, 1 + 2, ON && OFF, A_WHILE + A_WHILE);
with_operands!(allow(unused_parens); allowed_operands, more_boxed_operands, 1 + 2, ON && OFF, A_WHILE + A_WHILE);

#[tokio::test]
async fn with_sums_for_operands() -> Outcome<()> {
    assert_eq!(operands([0; 6]).await?, 6);
    assert_eq!(allowed_operands([0; 6]).await?, 6);
    assert_eq!(boxed_operands().await?, 6);
    assert_eq!(more_boxed_operands().await?, 6);
    Ok(())
}
