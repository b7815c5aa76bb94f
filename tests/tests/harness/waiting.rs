//! Waits that end, and waits that fail with a reason.

use crate::{SILENCE, block_on, failure};
use lock_tests::{DEADLINE, eventually, eventually_async, stays};

#[test]
fn a_wait_ends_with_the_value_or_says_what_was_there_instead() {
    let mut left = 3;
    let counted = block_on(eventually(DEADLINE, "counted down", || {
        left -= 1;
        if left == 0 {
            Ok("done")
        } else {
            Err(format!("{left} left"))
        }
    }));
    assert_eq!(counted, "done");
    assert_eq!(
        block_on(eventually_async(DEADLINE, "at once", async || Some(7))),
        7
    );

    let message = failure(|| {
        block_on(eventually(SILENCE, "pigs fly", || {
            Err::<(), _>("they walk")
        }));
    });
    assert!(
        message.contains("pigs fly; last state: they walk"),
        "{message}"
    );
    assert!(message.contains("waiting.rs:"), "{message}");

    block_on(stays(SILENCE, "the sun is there", || true));
    let message = failure(|| {
        block_on(stays(DEADLINE, "the sun is there", || {
            Err::<(), _>("night")
        }));
    });
    assert!(
        message.contains("no longer holds") && message.contains("night"),
        "{message}"
    );
}
