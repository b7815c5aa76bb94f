//! Generic parameters, lifetimes, and what they are bounded by.

use std::borrow::Cow;
use std::fmt::{Debug, Display};

use lock_runtime::distributed_lock;

use crate::{Outcome, holds, locks};

#[distributed_lock(key = "{value:?}", ttl = "8s", manager = locks())]
async fn bounded<T, U: Default>(value: T, len: impl Fn(&T) -> usize) -> Outcome<(T, usize, U)>
where
    T: Debug + PartialEq<u8>,
    for<'a> &'a T: PartialEq<&'a T>,
{
    holds("8");
    let len = len(&value);
    Ok((value, len, U::default()))
}

#[tokio::test]
async fn type_parameters_and_where_clauses() -> Outcome<()> {
    assert_eq!(bounded(8_u8, |_| 1).await?, (8, 1, String::new()));
    Ok(())
}

#[distributed_lock(key = "{N}:{LAST}", ttl = "8s", manager = locks())]
async fn sized<const N: usize, const LAST: char>(values: [u8; N]) -> Outcome<[u8; N]> {
    holds("2:z");
    Ok(values.map(|value| value + 1))
}

#[tokio::test]
async fn const_generics_in_the_key() -> Outcome<()> {
    assert_eq!(sized::<2, 'z'>([1, 2]).await?, [2, 3]);
    Ok(())
}

struct Parts<'a>(&'a str);

#[distributed_lock(key = "{text}", ttl = "8s", manager = locks())]
async fn named_lifetime<'a>(text: &'a str, _other: &str) -> Outcome<&'a str> {
    holds("a b");
    Ok(&text[..1])
}

#[distributed_lock(key = "{text}", ttl = "8s", manager = locks())]
async fn elided_lifetime(text: &str) -> Outcome<&str> {
    holds("a b");
    Ok(&text[1..])
}

#[distributed_lock(key = "{parts.0}", ttl = "8s", manager = locks())]
async fn anonymous_lifetime(parts: Parts<'_>) -> Outcome<Parts<'_>> {
    holds("a b");
    Ok(Parts(&parts.0[2..]))
}

#[tokio::test]
async fn lifetimes_named_elided_and_anonymous() -> Outcome<()> {
    assert_eq!(named_lifetime("a b", "").await?, "a");
    assert_eq!(elided_lifetime("a b").await?, " b");
    assert_eq!(anonymous_lifetime(Parts("a b")).await?.0, "b");
    Ok(())
}

#[distributed_lock(key = "bytes", ttl = "8s", manager = locks())]
async fn borrowed_or_owned(bytes: Cow<'_, [u8]>, more: bool) -> Outcome<Cow<'_, [u8]>> {
    holds("bytes");
    if more {
        return Ok([&*bytes, b"!"].concat().into());
    }
    Ok(bytes)
}

#[tokio::test]
async fn cow() -> Outcome<()> {
    for (more, expected) in [(true, "ab!"), (false, "ab")] {
        let bytes = borrowed_or_owned(Cow::Borrowed(b"ab"), more).await?;
        assert_eq!(bytes, expected.as_bytes());
    }
    Ok(())
}

#[distributed_lock(key = "{value}", ttl = "8s", manager = locks())]
async fn outlives<'a, 'b: 'a, T: ?Sized + Display + 'b>(
    value: &'b T,
    short: &mut &'a T,
) -> Outcome<&'b T> {
    holds("long");
    *short = value;
    Ok(value)
}

#[tokio::test]
async fn bounds_by_lifetimes() -> Outcome<()> {
    let mut short = "short";
    assert_eq!(outlives::<str>("long", &mut short).await?, "long");
    assert_eq!(short, "long");
    Ok(())
}

#[distributed_lock(key = "{text}", ttl = "8s", manager = locks())]
async fn captures_nothing(text: &str) -> Outcome<impl Display + use<>> {
    holds("abc");
    Ok(text.len())
}

#[distributed_lock(key = "{text}", ttl = "8s", manager = locks())]
async fn captures_one<'a>(text: &'a str, other: &mut u8) -> Outcome<impl Display + use<'a>> {
    holds("abc");
    *other += 1;
    Ok(text)
}

#[tokio::test]
async fn what_an_impl_trait_captures() -> Outcome<()> {
    let text = "abc".to_owned();
    let nothing = captures_nothing(&text).await?;
    drop(text);
    assert_eq!(nothing.to_string(), "3");
    let mut other = 1;
    let one = captures_one("abc", &mut other).await?;
    assert_eq!(other, 2);
    assert_eq!(one.to_string(), "abc");
    Ok(())
}

#[distributed_lock(key = "callbacks", ttl = "8s", manager = locks())]
async fn callbacks<F, Fut>(once: F, again: impl AsyncFn(&str) -> usize) -> Outcome<usize>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = usize>,
{
    holds("callbacks");
    Ok(once().await + again("ab").await + again("c").await)
}

#[tokio::test]
async fn functions_that_give_futures() -> Outcome<()> {
    let sum = callbacks(|| async { 1 }, async |text: &str| text.len()).await?;
    assert_eq!(sum, 4);
    Ok(())
}

async fn called_with_a_function(function: impl AsyncFn(&str) -> Outcome<&str>) -> Outcome<String> {
    Ok(function("a b").await?.to_owned())
}

#[tokio::test]
async fn a_guarded_function_as_a_value() -> Outcome<()> {
    assert_eq!(called_with_a_function(elided_lifetime).await?, " b");
    Ok(())
}
