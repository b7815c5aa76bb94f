//! All mistakes in one attribute are reported in one go.
use lock_runtime::distributed_lock;

#[distributed_lock(key = "{}", ttl = 8, wait = "1 s", retries = 3, ttl = "8s")]
async fn several() {}

fn main() {}
