//! The program, for a moment: `scripts/fuzz` runs it for as long as you like.

use std::process::Command;

#[test]
fn random_input_is_no_trouble() {
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz"))
        .args(["--cases", "5000"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{errors}");
    let count = |name: &str| -> u64 {
        let (_, after) = text.split_once(name).expect("it is counted");
        let digits = after.trim_start_matches(": ");
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .expect("more follows");
        digits[..end].parse().expect("a number")
    };
    // Or the soup is too thin.
    assert!(count("refused") > 1_000 && count("parsed") > 300, "{text}");
}
