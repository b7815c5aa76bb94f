//! Return types that cannot report what was asked, underlined where they are written.
use lock_runtime::distributed_lock;

#[derive(Debug)]
struct Failure;

#[distributed_lock(key = "order", ttl = "8s")]
async fn nothing() {}

#[distributed_lock(key = "order", ttl = "8s")]
async fn unit() -> () {}

#[distributed_lock(key = "order", ttl = "8s")]
async fn number() -> u8 {
    8
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn no_conversion() -> Result<(), Failure> {
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn hidden() -> impl std::fmt::Display {
    "eight"
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn never() -> ! {
    loop {}
}

fn main() {}
