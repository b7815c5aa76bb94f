//! Next to other attributes, and with what may stand in front of a function.

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, holds, locks};

/// Documented above
#[must_use = "it says what came of it"]
#[distributed_lock(key = "{id}", ttl = "8s", manager = locks())]
/// and below.
#[inline(never)]
#[cfg(not(any()))]
#[allow(clippy::mixed_attributes_style, unused_variables)]
async fn decorated(id: u8) -> Outcome<u8> {
    #![allow(clippy::no_effect_underscore_binding)]
    //! And inside.
    let unused = 8;
    let _unused = 8;
    holds("7");
    Ok(id)
}

#[tokio::test]
async fn attributes_and_documentation_on_all_sides() -> Outcome<()> {
    assert_eq!(decorated(7).await?, 7);
    Ok(())
}

#[cfg(any())]
#[distributed_lock(key = "{id}", ttl = "8s")]
async fn configured(id: Missing) -> Outcome<u8> {}

#[distributed_lock(key = "{id}", ttl = "8s", manager = locks())]
#[cfg(any())]
async fn configured(id: Missing) -> Outcome<u8> {}

#[cfg_attr(not(any()), distributed_lock(key = "{id}", ttl = "8s", manager = locks()))]
async fn configured(id: u8) -> Outcome<u8> {
    holds("7");
    Ok(id)
}

#[tokio::test]
async fn cfg_on_either_side_and_cfg_attr() -> Outcome<()> {
    assert_eq!(configured(7).await?, 7);
    Ok(())
}

mod old {
    use super::*;

    #[deprecated = "above"]
    #[distributed_lock(key = "{id}", ttl = "8s", manager = locks())]
    pub(super) async fn above(id: u8) -> Outcome<u8> {
        holds("7");
        Ok(id)
    }

    #[distributed_lock(key = "{id}", ttl = "8s", manager = locks())]
    #[deprecated = "below"]
    pub(in crate::attributes) async fn below(id: u8) -> Outcome<u8> {
        holds("7");
        Ok(id)
    }
}

#[tokio::test]
async fn deprecated_functions_warn_as_ever() -> Outcome<()> {
    #[expect(deprecated)]
    let above = old::above(7);
    #[expect(deprecated)]
    let below = old::below(7);
    assert_eq!(above.await? + below.await?, 14);
    Ok(())
}

#[tokio::test]
async fn a_future_that_is_not_awaited_warns_as_ever() {
    #[expect(unused_must_use)]
    {
        decorated(7);
    }
}

#[expect(dead_code)]
#[distributed_lock(key = "dead", ttl = "8s")]
async fn never_called() -> Outcome<()> {
    Ok(())
}

#[distributed_lock(key = "outer:{id}", ttl = "8s", manager = locks)]
#[distributed_lock(key = "inner:{id}", ttl = "8s", manager = locks)]
async fn stacked(locks: &LockManager, id: u8) -> Outcome<u64> {
    // The one that is written first is expanded first, and ends up innermost.
    holds("outer:7");
    Ok(locks.stats().acquired)
}

#[tokio::test]
async fn twice_on_one_function() -> Outcome<()> {
    assert_eq!(stacked(&locks(), 7).await?, 2);
    Ok(())
}

#[distributed_lock(key = "test", ttl = "8s", manager = locks())]
#[tokio::test]
async fn above_a_tokio_test() -> Outcome<()> {
    holds("test");
    Ok(())
}

#[distributed_lock(key = "main", ttl = "8s", on_busy = skip, manager = locks())]
#[tokio::main(flavor = "current_thread")]
async fn main() {
    holds("main");
    tokio::task::yield_now().await;
}

#[test]
fn above_tokio_main() {
    main();
}

#[distributed_lock(key = "extern:{value}", ttl = "8s", manager = locks())]
#[expect(improper_ctypes_definitions)]
async extern "C" fn of_another_convention(value: u8) -> Outcome<u8> {
    holds("extern:8");
    Ok(value)
}

#[tokio::test]
async fn extern_functions() -> Outcome<()> {
    assert_eq!(of_another_convention(8).await?, 8);
    Ok(())
}

#[tokio::test]
async fn a_function_inside_of_a_function() -> Outcome<()> {
    #[distributed_lock(key = "outer", ttl = "8s", manager = locks)]
    async fn outer(locks: &LockManager) -> Outcome<u8> {
        #[distributed_lock(key = "inner", ttl = "8s", manager = locks)]
        async fn inner(locks: &LockManager) -> Outcome<u8> {
            holds("inner");
            Ok(1)
        }

        let below = inner(locks).await?;
        holds("outer");
        Ok(below + 1)
    }

    assert_eq!(outer(&locks()).await?, 2);
    Ok(())
}
