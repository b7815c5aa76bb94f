//! Tests of where the expansion's tokens come from: an editor finds by that what a name in the attribute means.

#![allow(clippy::expect_used)]

use proc_macro2::{TokenStream, TokenTree};

use crate::expand::attribute;

const ITEM: &str =
    "async fn pay(&self, order: Order, id: u64) -> Result<u64, Failure> { held.fence(); Ok(id) }";

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("these are tokens")
}

/// The source of each token of the expansion that reads `word`.
fn sources(arguments: &str, word: &str) -> Vec<String> {
    fn collect(tokens: TokenStream, word: &str, found: &mut Vec<String>) {
        for tree in tokens {
            match tree {
                TokenTree::Group(group) => collect(group.stream(), word, found),
                tree if tree.to_string() == word => {
                    found.push(tree.span().source_text().unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    let expanded = attribute(&tokens(arguments), &tokens(ITEM));
    collect(expanded, word, &mut found);
    found
}

#[test]
fn names_in_the_attribute_are_where_the_user_wrote_them() {
    let arguments = r#"key = "k", ttl = TTL, wait = WAIT, manager = self.locks, lease = held, on_busy = Err(BUSY)"#;
    for (word, times) in [
        ("TTL", 1),
        ("WAIT", 1),
        ("locks", 1),
        ("BUSY", 1),
        ("held", 2),
    ] {
        assert_eq!(sources(arguments, word), vec![word; times], "{word}");
    }
}

#[test]
fn a_template_of_names_is_the_users_own_literal() {
    for literal in [r#""order:{id}""#, r#"r"{id:05}:{id}""#, r#""\t{id}""#] {
        let arguments = format!("key = {literal}, ttl = TTL");
        assert_eq!(sources(&arguments, literal), [literal]);
    }
}

/// The tests' compiler is one that can say where a part of a literal is; on stable ones it is the whole.
#[test]
fn a_placeholder_is_where_it_stands_in_the_literal() {
    let arguments = r#"key = "order:{order.id}:{self.region().name}", ttl = TTL"#;
    assert_eq!(sources(arguments, "region"), ["self.region().name"]);
    assert_eq!(sources(arguments, "name"), ["self.region().name"]);
    let order = sources(arguments, "order");
    assert!(order.contains(&"order.id".to_owned()), "{order:?}");
    for source in order {
        assert!(["order", "order.id"].contains(&&*source), "{source}");
    }
}

#[test]
fn a_refused_template_is_underlined_where_it_is_wrong() {
    let places = [
        (r#"key = "order:{}", ttl = TTL"#, "{}"),
        (r#"key = "order:{id + 1}", ttl = TTL"#, "id + 1"),
        (r#"keys = ["a", "{order.id}:{0}"], ttl = TTL"#, "{0}"),
        (r#"key = "{id", ttl = 8"#, "{"),
    ];
    for (arguments, place) in places {
        let at = sources(arguments, "compile_error");
        assert!(at.contains(&place.to_owned()), "{arguments}: {at:?}");
    }
}

#[test]
fn a_refused_function_keeps_its_tokens() {
    let arguments = "key = , ttl = TTL, lease = held";
    for word in ["pay", "Failure", "held", "Ok"] {
        let kept = sources(arguments, word);
        assert!(!kept.is_empty(), "{word}");
        assert!(kept.iter().all(|source| source == word), "{word}: {kept:?}");
    }
}
