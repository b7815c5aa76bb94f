//! The compiler's own warnings about parameters are neither lost nor doubled.
#![deny(warnings)]

use lock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "order:{in_key}", ttl = "8s")]
async fn unused(
    in_key: u8,
    in_body: u8,
    unused: u8,
    _ignored: u8,
    mut changed: u8,
) -> Result<u8, LockError> {
    changed += in_body;
    Ok(changed)
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn not_changed(mut number: u8) -> Result<u8, LockError> {
    Ok(number)
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn set_for_nobody(mut order: Order) -> Result<(), LockError> {
    order.lines.clear();
    let mut lines = order.lines.len();
    lines += 1;
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s")]
async fn only_in_text(id: u8, width: usize) -> Result<String, LockError> {
    let json = r#"{"id": 8}"#;
    Ok(format!("{{id}} {json:width$}"))
}

struct Order {
    lines: Vec<u8>,
}

fn main() {
    drop(unused(1, 2, 3, 4, 5));
    drop(set_for_nobody(Order { lines: Vec::new() }));
    drop(not_changed(1));
    drop(only_in_text(1, 2));
}
