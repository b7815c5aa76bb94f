//! A function that runs once at a time for each order, on however many replicas: start here.

use lock_runtime::{LockError, LockManager, distributed_lock, install};
use std::{env, error::Error, time::Duration};

#[distributed_lock(key = "order:{id}", ttl = "8s")]
async fn charge(id: u64) -> Result<String, LockError> {
    tokio::time::sleep(Duration::from_millis(100)).await; // nobody else charges this order meanwhile
    Ok(format!("order {id} is charged"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    lock_examples::no_options(
        "Charges order 1 twice at once, and order 2. LOCK_NODES lists Redis servers to lock on.\n",
    );
    // Without LOCK_NODES="redis://10.0.0.1:6379,redis://…": embedded nodes, for a first try and for tests.
    install(match env::var_os("LOCK_NODES") {
        Some(_) => LockManager::from_env()?,
        None => LockManager::in_memory(),
    })?;
    let (first, second, other) = tokio::join!(charge(1), charge(1), charge(2));
    for outcome in [first, second, other] {
        println!("{}", outcome.unwrap_or_else(|refused| refused.to_string()));
    }
    Ok(())
}
