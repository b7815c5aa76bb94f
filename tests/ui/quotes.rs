//! Words, names and expressions are written without quotes.
use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "8s", wait = "forever", on_busy = "skip", on_lost = "continue")]
async fn words() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", extend = "false", lease = "lease", crate = "my_app::locks")]
async fn flags_names_and_paths() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", manager = "self.locks")]
async fn expressions() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
