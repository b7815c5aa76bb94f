//! A body that is not `Send` is reported where the user awaits, and only when `Send` is asked for.
use std::rc::Rc;

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s")]
async fn count(rc: Rc<u8>) -> Result<u8, LockError> {
    std::future::ready(()).await;
    Ok(*rc)
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn local() -> Result<u8, LockError> {
    let rc = Rc::new(8);
    std::future::ready(()).await;
    Ok(*rc)
}

/// What a body gives is kept while the lock is released.
#[distributed_lock(key = "order", ttl = "8s")]
async fn gives() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn is_send(_: impl Send) {}

#[tokio::main]
async fn main() {
    let _ = tokio::spawn(local()).await;
    is_send(count(Rc::new(8)));
    is_send(local());
    is_send(gives());
}
