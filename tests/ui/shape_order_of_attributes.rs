//! Below an attribute that takes the `async` away: the message says where to write this one.
use lock_runtime::{LockError, distributed_lock};

#[tokio::test]
#[distributed_lock(key = "order", ttl = "8s")]
async fn below_a_test() -> Result<(), LockError> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "order", ttl = "8s")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
