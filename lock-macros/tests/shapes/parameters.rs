//! Every way to write a parameter.

use std::time::Duration;

use lock_runtime::distributed_lock;

use crate::{Outcome, holds, locks};

/// As web frameworks have them: a value that a pattern takes out.
struct Extracted<T>(T);

struct Order {
    id: u64,
    tags: Vec<String>,
}

fn order(id: u64) -> Order {
    Order {
        id,
        tags: vec!["a".to_owned()],
    }
}

#[distributed_lock(key = "{n}", ttl = "8s", manager = locks())]
async fn mutable(mut n: u32, mut names: Vec<String>) -> Outcome<(u32, Vec<String>)> {
    holds("1");
    n += 1;
    names.push(n.to_string());
    Ok((n, names))
}

#[tokio::test]
async fn mut_parameters() -> Outcome<()> {
    assert_eq!(mutable(1, Vec::new()).await?, (2, vec!["2".to_owned()]));
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", manager = locks())]
async fn unnamed(_: Order, id: u64, _: Order) -> Outcome<u64> {
    holds("order");
    Ok(id)
}

#[distributed_lock(key = "order", ttl = "8s", manager = locks())]
async fn said_to_be_unused(_order: Order, _id: u64) -> Outcome<()> {
    holds("order");
    Ok(())
}

#[tokio::test]
async fn underscores() -> Outcome<()> {
    assert_eq!(unnamed(order(1), 2, order(3)).await?, 2);
    said_to_be_unused(order(1), 2).await
}

#[distributed_lock(key = "{a}{b}:{order_id}:{first}{last}", ttl = "8s", manager = locks())]
async fn patterns(
    (a, (mut b, _)): (u64, (u64, u64)),
    Order { id: order_id, .. }: Order,
    [first, .., last]: [u64; 3],
) -> Outcome<u64> {
    holds("12:4:57");
    b += 10;
    Ok(a + b + order_id + first + last)
}

#[tokio::test]
async fn patterns_of_tuples_structs_and_arrays() -> Outcome<()> {
    let sum = patterns((1, (2, 3)), order(4), [5, 6, 7]).await?;
    assert_eq!(sum, 1 + 12 + 4 + 5 + 7);
    Ok(())
}

#[distributed_lock(key = "{id}:{a}:{b}", ttl = "8s", manager = locks())]
async fn extracted(
    Extracted(id): Extracted<u64>,
    Extracted((a, b)): Extracted<(String, u64)>,
    Extracted(mut body): Extracted<Vec<u64>>,
) -> Outcome<(String, Vec<u64>)> {
    holds("1:a:2");
    body.push(id + b);
    Ok((a, body))
}

#[tokio::test]
async fn extractors() -> Outcome<()> {
    let given = (Extracted("a".to_owned()), Extracted(vec![0]));
    let (a, body) = extracted(Extracted(1), Extracted((given.0.0, 2)), given.1).await?;
    assert_eq!((&*a, &*body), ("a", &[0, 3][..]));
    Ok(())
}

#[distributed_lock(key = "{text}:{a}", ttl = "8s", manager = locks())]
async fn references(ref text: String, (ref mut a, b): (u64, u64)) -> Outcome<u64> {
    holds("abc:1");
    *a += b;
    Ok(*a + text.len() as u64)
}

#[tokio::test]
async fn ref_and_ref_mut() -> Outcome<()> {
    assert_eq!(references("abc".to_owned(), (1, 2)).await?, 6);
    Ok(())
}

#[distributed_lock(key = "{small}:{whole.0}:{part}", ttl = "8s", manager = locks())]
async fn at(small @ 0..=u8::MAX: u8, whole @ Copied(part): Copied) -> Outcome<u8> {
    holds("1:2:2");
    Ok(small + whole.0 + part)
}

#[derive(Clone, Copy)]
struct Copied(u8);

#[tokio::test]
async fn at_patterns() -> Outcome<()> {
    assert_eq!(at(1, Copied(2)).await?, 5);
    Ok(())
}

#[derive(Clone, Copy)]
struct Unit;

const LIMIT: u8 = 8;

/// Patterns that look like names: the expansion mentions them, and a constant can be mentioned too.
#[distributed_lock(key = "{LIMIT}", ttl = "8s", manager = locks())]
async fn constants(Unit: Unit, (LIMIT | _): u8, n: u8) -> Outcome<u8> {
    holds("8");
    Ok(LIMIT + n)
}

#[tokio::test]
async fn patterns_that_are_constants() -> Outcome<()> {
    assert_eq!(constants(Unit, 0, 1).await?, 9);
    Ok(())
}

#[distributed_lock(key = name.as_ref(), ttl = "8s", manager = locks())]
async fn hidden(name: impl AsRef<str>, mut each: impl FnMut(&str) -> usize) -> Outcome<usize> {
    holds("abc");
    Ok(each(name.as_ref()) + each("d"))
}

#[tokio::test]
async fn impl_trait() -> Outcome<()> {
    let mut calls = 0;
    let sum = hidden("abc", |text| {
        calls += 1;
        text.len()
    })
    .await?;
    assert_eq!((sum, calls), (4, 2));
    Ok(())
}

#[distributed_lock(key = "{name}", ttl = "8s", manager = locks())]
async fn objects(
    name: &dyn std::fmt::Display,
    out: &mut dyn std::fmt::Write,
    boxed: Box<dyn Fn(&str) -> String>,
) -> Outcome<()> {
    holds("abc");
    tokio::task::yield_now().await;
    let written = out.write_str(&boxed(&name.to_string()));
    assert!(written.is_ok());
    Ok(())
}

#[tokio::test]
async fn trait_objects() -> Outcome<()> {
    let mut out = String::new();
    objects(&"abc", &mut out, Box::new(str::to_uppercase)).await?;
    assert_eq!(out, "ABC");
    Ok(())
}

struct Field {
    #[cfg(any())]
    missing: Missing,
    present: u8,
}

#[distributed_lock(key = "{present}", ttl = "8s", manager = locks())]
async fn configured<#[cfg(any())] M, #[cfg(not(any()))] T: std::fmt::Display>(
    #[cfg(any())] missing: Missing<M>,
    #[cfg(any())] _: Missing<M>,
    #[cfg(not(any()))] present: u8,
    #[cfg_attr(any(), cfg(any()))] text: T,
    #[cfg(any())] (a, b): Missing<M>,
    Field {
        #[cfg(any())]
        missing,
        #[cfg(not(any()))]
            present: field,
    }: Field,
) -> Outcome<String> {
    holds("5");
    assert_eq!(field, 8);
    Ok(format!("{present}{text}"))
}

#[tokio::test]
async fn cfg_on_parameters_and_generics() -> Outcome<()> {
    assert_eq!(configured(5, "a", Field { present: 8 }).await?, "5a");
    Ok(())
}

#[distributed_lock(key = "order", ttl = "8s", manager = locks())]
async fn allowed(
    #[allow(unused)] one: u8,
    #[expect(unused_variables)] two: u8,
    #[allow(unused_mut)] mut three: u8,
    #[expect(unused_mut, reason = "it is tested")] mut four: u8,
    #[expect(unused_variables)] (five, six): (u8, u8),
) -> Outcome<u8> {
    holds("order");
    Ok(three + four + six)
}

#[tokio::test]
async fn lints_on_a_parameter() -> Outcome<()> {
    assert_eq!(allowed(1, 2, 3, 4, (5, 6)).await?, 13);
    Ok(())
}

#[distributed_lock(key = key, ttl = ttl, wait = ttl, hold_at_least = Duration::ZERO, manager = locks())]
async fn only_in_arguments(key: String, ttl: Duration) -> Outcome<()> {
    holds("key");
    Ok(())
}

#[tokio::test]
async fn parameters_that_only_the_arguments_use() -> Outcome<()> {
    only_in_arguments("key".to_owned(), Duration::from_secs(8)).await
}

#[distributed_lock(
    keys = ["{order.id:05}:{order.tags[0]:?}", order.id, "plain"],
    ttl = "8s",
    manager = locks()
)]
async fn moved_by_the_body(mut order: Order) -> Outcome<Vec<String>> {
    holds("00003:\"a\"");
    order.id += 1;
    let Order { mut tags, id } = order;
    tags.push(id.to_string());
    Ok(tags)
}

#[tokio::test]
async fn a_body_that_changes_and_moves_what_the_key_was_made_of() -> Outcome<()> {
    assert_eq!(moved_by_the_body(order(3)).await?, ["a", "4"]);
    Ok(())
}

#[distributed_lock(key = "{r#type}:{type}:{r#match.0}", ttl = "8s", manager = locks())]
async fn r#fn(r#type: u8, r#match: (u8,), mut r#loop: u8) -> Outcome<u8> {
    holds("1:1:2");
    r#loop += r#type;
    Ok(r#loop + r#match.0)
}

#[tokio::test]
async fn raw_identifiers() -> Outcome<()> {
    assert_eq!(r#fn(1, (2,), 3).await?, 6);
    Ok(())
}

#[distributed_lock(key = "{id}:{r#count}", ttl = "8s", manager = locks())]
async fn raw_or_not(r#id: u8, mut count: u8) -> Outcome<u8> {
    holds("1:2");
    r#count += id;
    Ok(count)
}

#[tokio::test]
async fn a_name_in_both_spellings() -> Outcome<()> {
    assert_eq!(raw_or_not(1, 2).await?, 3);
    Ok(())
}
