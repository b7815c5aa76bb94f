//! What the future of a guarded function is larger by than that of the same function without the lock.

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome};

/// The guard, what drives the body, and a little for how the compiler lays it out.
const MOST: usize = 320;

macro_rules! both {
    ($guarded:ident $plain:ident ($($param:ident: $of:ty),*) $body:block) => {
        #[distributed_lock(key = "k", ttl = "8s", manager = locks)]
        #[allow(clippy::large_types_passed_by_value, clippy::many_single_char_names, clippy::too_many_arguments)]
        async fn $guarded(locks: &LockManager, $($param: $of),*) -> Outcome<u64> $body

        #[allow(clippy::large_types_passed_by_value, clippy::many_single_char_names, clippy::too_many_arguments)]
        async fn $plain(_locks: &LockManager, $($param: $of),*) -> Outcome<u64> $body
    };
}

both!(small plain_small(n: u64) {
    tokio::task::yield_now().await;
    Ok(n)
});

both!(many plain_many(a: u64, b: String, c: Vec<u8>, d: [u64; 8], e: Option<String>, f: u8, g: Box<u8>, h: (u64, u64)) {
    tokio::task::yield_now().await;
    let lengths = b.len() + c.len() + e.map_or(0, |e| e.len());
    Ok(a + d[0] + h.0 + u64::from(f + *g) + lengths as u64)
});

both!(large_parameter plain_large_parameter(bytes: [u8; 4096]) {
    tokio::task::yield_now().await;
    Ok(bytes[0].into())
});

both!(large_body plain_large_body(n: u8) {
    let mut bytes = [n; 4096];
    for byte in &mut bytes {
        tokio::task::yield_now().await;
        *byte += 1;
    }
    Ok(bytes[3].into())
});

both!(used_early plain_used_early(bytes: [u8; 4096]) {
    let first = bytes[0];
    tokio::task::yield_now().await;
    Ok(first.into())
});

both!(unused plain_unused(_bytes: [u8; 4096]) {
    tokio::task::yield_now().await;
    Ok(0)
});

/// Both sizes, and the name of the pair.
type Sizes = (&'static str, usize, usize);

fn sizes(locks: &LockManager) -> [Sizes; 4] {
    let text = String::new;
    let large = [0; 4096];
    [
        (
            "small",
            size_of_val(&small(locks, 1)),
            size_of_val(&plain_small(locks, 1)),
        ),
        (
            "many parameters",
            size_of_val(&many(
                locks,
                1,
                text(),
                vec![],
                [0; 8],
                None,
                1,
                1.into(),
                (1, 1),
            )),
            size_of_val(&plain_many(
                locks,
                1,
                text(),
                vec![],
                [0; 8],
                None,
                1,
                1.into(),
                (1, 1),
            )),
        ),
        (
            "a large parameter",
            size_of_val(&large_parameter(locks, large)),
            size_of_val(&plain_large_parameter(locks, large)),
        ),
        (
            "a large body",
            size_of_val(&large_body(locks, 1)),
            size_of_val(&plain_large_body(locks, 1)),
        ),
    ]
}

fn assert_little(name: &str, guarded: usize, plain: usize) {
    println!("{name}: {guarded} bytes, {plain} without the lock");
    assert!(
        guarded <= plain + MOST,
        "{name}: {guarded} bytes, and {plain} without the lock"
    );
}

#[test]
fn a_guarded_future_is_larger_by_little() {
    for (name, guarded, plain) in sizes(&LockManager::in_memory()) {
        assert_little(name, guarded, plain);
    }
}

/// The compiler stores a parameter twice: as it is given, and as the body has it. A plain function that is done with one
/// before its first await has no need for the second; a guarded one is not done with it until it is dropped.
#[test]
fn a_parameter_that_nothing_needs_later_is_stored_once_more() {
    let locks = LockManager::in_memory();
    let large = [0; 4096];
    let pairs = [
        (
            "used early",
            size_of_val(&used_early(&locks, large)),
            size_of_val(&plain_used_early(&locks, large)),
        ),
        (
            "unused",
            size_of_val(&unused(&locks, large)),
            size_of_val(&plain_unused(&locks, large)),
        ),
    ];
    for (name, guarded, plain) in pairs {
        assert_little(name, guarded, plain + 4096);
    }
}

/// What runs the body takes it where it is pinned: nested calls do not multiply it.
#[tokio::test]
async fn nested_calls_add_up() -> Outcome<()> {
    #[distributed_lock(key = "outer", ttl = "8s", manager = locks)]
    async fn outer(locks: &LockManager) -> Outcome<u64> {
        large_body(locks, 1).await
    }

    let locks = LockManager::in_memory();
    assert_little(
        "nested",
        size_of_val(&outer(&locks)),
        size_of_val(&large_body(&locks, 1)),
    );
    assert_eq!(outer(&locks).await?, 2);
    Ok(())
}
