//! Macros that put the whole function into another one, as those do that keep results: the inner one is guarded all the
//! same, whichever of the two is written on the other's.

use std::cell::Cell;

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, holds};

thread_local! {
    static KEPT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What such an attribute makes of a function, with the attributes that stood below it on the inner one.
macro_rules! memoized {
    ($(#[$inner:meta])* async fn $name:ident($locks:ident: $manager:ty, $param:ident: $of:ty) -> $ret:ty $body:block) => {
        async fn $name($locks: $manager, $param: $of) -> $ret {
            $(#[$inner])*
            async fn inner($locks: $manager, $param: $of) -> $ret $body

            if let Some(kept) = KEPT.get() {
                return Ok(kept);
            }
            let value = inner($locks, $param).await?;
            KEPT.set(Some(value));
            Ok(value)
        }
    };
}

memoized! {
    #[distributed_lock(key = "{id}", ttl = "8s", manager = locks)]
    async fn keeping(locks: &LockManager, id: u64) -> Outcome<u64> {
        holds("7");
        Ok(id)
    }
}

#[tokio::test]
async fn what_is_kept_needs_no_lock() -> Outcome<()> {
    let locks = LockManager::in_memory();
    assert_eq!(keeping(&locks, 7).await?, 7);
    assert_eq!(keeping(&locks, 7).await?, 7);
    assert_eq!(locks.stats().acquired, 1);
    Ok(())
}
