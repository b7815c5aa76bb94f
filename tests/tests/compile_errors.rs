//! Every mistake in using the attribute is one message, at what the user wrote.
//!
//! `TRYBUILD=overwrite cargo test -p lock-tests --test compile_errors` rewrites the expected messages.

#[test]
fn mistakes_are_reported_where_they_are() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
