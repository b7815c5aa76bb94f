#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use super::*;

/// Compares with `tests/expansions/<name>.rs`; with `EXPANSIONS=overwrite` in the environment, writes that file.
fn expands_to(name: &str, arguments: &str, item: &str) {
    let expanded = attribute(&tokens(arguments), &tokens(item));
    // Only a whole file can be formatted, and a method is none.
    let file = syn::parse2(quote!(impl Service { #expanded })).expect("the expansion is a method");
    let expanded = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/expansions")
        .join(name)
        .with_extension("rs");
    if std::env::var_os("EXPANSIONS").is_some_and(|value| value == "overwrite") {
        fs::write(&path, &expanded).expect("the expansion can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expanded == expected,
        "{} differs from what it is now:\n{expanded}",
        path.display()
    );
}

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("these are tokens")
}

#[test]
fn a_method_with_a_template() {
    expands_to(
        "method",
        r#"key = "order:{order.id}", ttl = "8s""#,
        "/// Pays.
         #[must_use]
         pub async fn pay(&self, order: Order, mut tries: u32, unused: u8, _: Permit) -> Result<u64, Failure> {
             #![allow(clippy::unused_async)]
             tries += 1;
             Ok(order.total)
         }",
    );
}

#[test]
fn every_argument() {
    expands_to(
        "arguments",
        r#"keys = ["account:{from}", ACCOUNT], ttl = self.ttl, wait = forever, hold_at_least = "1m30s",
           manager = self.locks, name = "transfer", on_busy = |busy| Err(busy.into()), crate = app::locks,"#,
        "async fn transfer(self: Arc<Self>, from: u64) -> Result<impl Reply, Failure> { self.run(from).await }",
    );
}

#[test]
fn a_function_that_returns_nothing() {
    expands_to(
        "unit",
        r#"key = "report", ttl = "1h", on_busy = skip"#,
        "async fn report() { write().await }",
    );
}

#[test]
fn what_async_trait_leaves() {
    expands_to(
        "boxed",
        r#"key = "{self.region}", ttl = "8s", wait = "500ms", on_busy = Ok(0)"#,
        "fn count<'a>(&'a self, n: u64) -> Pin<Box<dyn Future<Output = Result<u64, Failure>> + Send + 'a>> {
             let n = n + 1;
             Box::pin(async move { self.count(n).await })
         }",
    );
}

#[test]
fn how_the_lock_is_held() {
    expands_to(
        "hold",
        r#"key = id, ttl = "8s", on_lost = continue, extend = self.extends(), max_hold = "1h", lease = held,
           fenced = true"#,
        "async fn write(&self, id: u64) -> Result<u64, Failure> { self.store(id, held.fence()).await }",
    );
}

#[test]
fn a_lease_does_not_hide_a_parameter() {
    let parameters = [
        "lease: u8",
        "mut lease: u8",
        "(_, lease): (u8, u8)",
        "Order { id: lease, .. }: Order",
    ];
    for parameter in parameters {
        let item = format!("async fn f({parameter}) -> u8 {{ 8 }}");
        let arguments = tokens("key = K, ttl = TTL, lease = lease");
        let expanded = attribute(&arguments, &tokens(&item)).to_string();
        assert!(
            expanded.contains("`lease` is a parameter already"),
            "{expanded}"
        );
    }
    let arguments = tokens("key = K, ttl = TTL, lease = lease");
    let item = tokens("async fn f(other: lease::Kind) -> u8 { let lease = lease; 8 }");
    let expanded = attribute(&arguments, &item).to_string();
    assert!(!expanded.contains("compile_error"), "{expanded}");
}

#[test]
fn after_an_error_the_item_stays_as_it_was() {
    let items = [
        "async fn f() -> Result<(), E> { half. ; written }",
        "fn f() -> u8 { 8 }",
        "struct S { f: u8 }",
        "impl S { async fn f() {} }",
        "async fn f();",
        "async fn f() -> ! { loop {} }",
    ];
    for item in items {
        let expanded = attribute(&tokens("ttl = 8"), &tokens(item)).to_string();
        assert!(expanded.contains("compile_error"), "{item}");
        assert!(expanded.ends_with(&tokens(item).to_string()), "{item}");
    }
}

#[rustfmt::skip]
const ARGUMENT_SOUP: &[&str] = &[
    "key", "keys", "ttl", "wait", "on_busy", "crate", "name", "manager", "=", "=", "=", ",", ",", ",", "forever", "skip",
    "on_lost", "extend", "max_hold", "lease", "fenced", "continue", "true",
    "|", "|busy| busy", "[]", "[\"a\", \"{}\"]", "(\"x\")", "{ }", "8", "-", "\"8s\"", "\"1h1h\"", "\"{a.b}\"", "\"{\"",
    "\"{x:é>5}\"", "\"{é[\"", "\"\"", "::", "self", "'a", "#", "!", "..", "r#type", "b\"x\"", "1.5", "µ",
];

#[rustfmt::skip]
const ITEM_SOUP: &[&str] = &[
    "async", "async", "fn", "fn", "f", "f", "()", "()", "(self)", "(&mut self, a: u8)", "(mut (a, _): T, _: U)",
    "(#[cfg(x)] a: impl T)", "<T>", "-> T", "-> !", "-> ()", "-> impl T", "-> Pin<Box<dyn Future<Output = T>>>", "{ }",
    "{ a }", "{ Box::pin(async move { }) }", "{ Box::pin() }", "{ async { } }", "{ #![x] }", "{ #! }", ";", "pub", "const",
    "unsafe", "extern \"C\"", "#[x]", "impl", "struct", "trait", "S", "where", "dyn", "=", "*",
];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll<'a>(&mut self, from: &[&'a str]) -> &'a str {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let sides = u64::try_from(from.len()).expect("a short list");
        from[usize::try_from(self.0 % sides).expect("an index")]
    }

    fn soup(&mut self, from: &[&str], length: usize) -> String {
        (0..length)
            .map(|_| self.roll(from))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[test]
fn no_input_makes_it_panic() {
    const GOOD: &str = r#"key = "a:{a.b}", ttl = "8s", on_busy = skip"#;

    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut refused, mut expanded) = (0, 0);
    for round in 0..4_000 {
        let arguments = if round % 2 == 0 {
            GOOD.to_owned()
        } else {
            dice.soup(ARGUMENT_SOUP, round % 9)
        };
        let item = if round % 3 == 0 {
            "async fn f(a: A) { a }".to_owned()
        } else {
            dice.soup(ITEM_SOUP, round % 8)
        };
        let (Ok(arguments), Ok(item)) = (
            arguments.parse::<TokenStream>(),
            item.parse::<TokenStream>(),
        ) else {
            panic!("not tokens: {arguments} / {item}");
        };
        let output = attribute(&arguments, &item).to_string();
        if output.contains("compile_error") {
            let unchanged = output.ends_with(&item.to_string());
            assert!(unchanged || output.contains(":: Lease ="), "{output}");
            refused += 1;
        } else {
            assert!(
                output.contains("__lock_guard . finish () . await"),
                "{output}"
            );
            expanded += 1;
        }
    }
    assert!(
        refused > 1_000 && expanded > 500,
        "{refused} refused, {expanded} expanded: the soup is too thin"
    );
}
