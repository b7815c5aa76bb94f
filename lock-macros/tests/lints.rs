//! The compiler has nothing to say that it would not say without the attribute.
//!
//! What it must go on saying is in `tests/ui/unused_variable.rs` and `tests/ui/dead_code.rs`.
#![deny(warnings)]

use std::cell::RefCell;

use lock_runtime::{LockError, LockManager, distributed_lock};

thread_local! {
    static DROPPED: RefCell<Vec<(u8, u8)>> = const { RefCell::new(Vec::new()) };
}

/// What is assigned to it is read when it is dropped.
struct Total {
    net: u8,
    tax: u8,
}

impl Drop for Total {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push((self.net, self.tax)));
    }
}

impl Total {
    #[distributed_lock(key = "k", ttl = "8s", manager = locks)]
    async fn double(mut self, locks: &LockManager) -> Result<(), LockError> {
        self.net *= 2;
        self.tax = self.net;
        Ok(())
    }
}

#[distributed_lock(key = "k", ttl = "8s", manager = locks)]
async fn set(locks: &LockManager, mut total: Total) -> Result<(), LockError> {
    total.net = 3;
    total.tax += 1;
    Ok(())
}

#[distributed_lock(key = "k", ttl = "8s", manager = locks)]
async fn set_one_of_two(
    locks: &LockManager,
    (mut total, net): (Total, u8),
) -> Result<(), LockError> {
    if net > 0 {
        total.net = net;
    }
    Ok(())
}

#[tokio::test]
async fn a_part_that_only_a_drop_reads() -> Result<(), LockError> {
    let locks = LockManager::in_memory();
    Total { net: 4, tax: 0 }.double(&locks).await?;
    set(&locks, Total { net: 1, tax: 1 }).await?;
    set_one_of_two(&locks, (Total { net: 1, tax: 1 }, 9)).await?;
    assert_eq!(DROPPED.take(), [(8, 8), (3, 2), (9, 1)]);
    Ok(())
}
