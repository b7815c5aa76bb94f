//! A function that is not async, or not any more, and has no future to guard either.
use std::pin::Pin;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
fn plain() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s")]
const fn constant() -> u8 {
    8
}

#[distributed_lock(key = "order", ttl = "8s")]
fn pair() -> (impl Future<Output = Result<(), LockError>>, u8) {
    (async { Ok(()) }, 8)
}

#[distributed_lock(key = "order", ttl = "8s")]
fn early(known: bool) -> Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    if known {
        return Box::pin(async { Ok(()) });
    }
    let later = async { return 8 };
    Box::pin(async move {
        if later.await == 8 {
            return Ok(());
        }
        Ok(())
    })
}

#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "order", ttl = "8s")]
async fn main() -> Result<(), LockError> {
    plain().ok();
    let _ = (constant(), pair(), early(true));
    Ok(())
}
