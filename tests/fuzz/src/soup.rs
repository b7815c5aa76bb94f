//! Arguments and items: well-formed ones, and what becomes of them by accident.

use proc_macro2::{Group, Literal, TokenStream, TokenTree};

use crate::dice::Dice;
use crate::template;

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "key", "key", "keys", "ttl", "ttl", "wait", "on_busy", "on_lost", "extend", "max_hold", "hold_at_least", "lease",
    "fenced", "manager", "name", "crate", "tll", "r#type", "self",
];

#[rustfmt::skip]
const VALUES: &[&str] = &[
    "\"order:{id}\"", "\"{order.id():05}\"", "\"8s\"", "\"1m30s\"", "\"0s\"", "\"\"", "8", "1.5", "-1", "true", "false",
    "forever", "skip", "error", "cancel", "continue", "continue 'a", "lease", "self.locks", "app::locks", "K",
    "[\"a\", b]", "[]", "[\"{}\"; 2]", "|busy| Err(busy)", "move |_| ()", "async { }", "format!(\"{id}\")",
    "if a { b } else { c }", "b\"x\"", "'c'", "c\"x\"", "&id", "*id", "_", "..", "return", "a = b", "x?", "<T as U>::V",
    "a.await", "{ }", "unsafe { f() }", "a as u8", "(a, b)", "S { a, ..b }", "r#\"{a}\"#", "loop { break }", "!",
];

#[rustfmt::skip]
const PATTERNS: &[&str] = &[
    "&self", "&mut self", "self", "mut self", "self: Arc<Self>", "self: Pin<&mut Self>", "id: u64", "mut n: u8", "_: T",
    "_x: T", "(a, mut b): (A, B)", "Path(id): Path<u64>", "Order { id, ref tags, .. }: Order", "[first, ..]: [u8; 3]",
    "whole @ B(..): B", "#[cfg(x)] a: impl T", "ref x: X", "&(a, b): &(A, B)", "A(a) | B(a): C", "r#type: u8",
    "f: impl FnOnce(&str) -> T", "x: &'a dyn T", "#[expect(unused)] e: u8", "_: impl T", "...", "m!(a): T",
];

#[rustfmt::skip]
const RETURNS: &[&str] = &[
    "", "-> Result<u64, E>", "-> ()", "-> !", "-> impl T", "-> Result<impl T, E>", "-> Option<T>", "-> u8",
    "-> impl Future<Output = T> + Send + 'a", "-> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>",
    "-> BoxFuture<'a, T>", "-> (A, impl B)", "-> [impl T; 2]", "-> fn() -> T", "-> *const impl T", "-> m!()", "-> <A as B>::C",
    "-> _", "-> dyn T", "-> &mut impl T", "->",
];

#[rustfmt::skip]
const BODIES: &[&str] = &[
    "{ }", "{ Ok(id) }", "{ #![allow(unused)] //! docs\n id.await? }", "{ Box::pin(async move { id }) }",
    "{ let a = 1; async { a } }", "{ Box::pin(async move { let id = id; id }) }", "{ self. }", "{ let x = self.; }",
    "{ return \"{id}\" }", "{ async {} }", "{ Box::pin() }", "{ Box::pin(x) }", "{ pin(async || {}) }", "{ 'a: loop {} }",
    "{ macro_rules! m { () => {} } m!{} }", "{ fn g() {} ; }", "{ (Box::pin(async move {})) }", ";", "{ $x }", "{ #! }",
];

#[rustfmt::skip]
const ITEMS: &[&str] = &[
    "struct S;", "impl S { async fn f() {} }", "trait T { }", "mod m { }", "const K: u8 = 8;", "static S: u8 = 8;", "use a::b;",
    "type A = B;", "union U { a: u8 }", "extern \"C\" { }", "macro_rules! m { }", "unsafe impl A for B {}", "enum E { A }", "",
    "let x = async { };", "8", "async", "fn", "async fn", "async fn f", "async fn f(", "pub(in a::b)", "#[x]", "auto trait A {}",
];

/// Text for the argument list, most of the time one that is understood.
pub(crate) fn arguments(dice: &mut Dice) -> String {
    if dice.one_in(2) {
        return "key = \"a:{a.b}\", ttl = \"8s\", on_busy = skip".to_owned();
    }
    let mut arguments = Vec::new();
    if dice.one_in(2) {
        arguments.push(format!("key = {}", template::wild(dice).literal));
        arguments.push("ttl = TTL".to_owned());
    }
    for _ in 0..dice.below(5) {
        let value = match dice.below(6) {
            0 => text_literal(dice),
            1 => template::well_formed(dice).literal,
            _ => dice.pick(VALUES).to_owned(),
        };
        arguments.push(format!("{} = {value}", dice.pick(NAMES)));
    }
    arguments.join(dice.pick(&[", ", ", ", ", ", " ", ",, "]))
}

/// A literal of any text at all.
fn text_literal(dice: &mut Dice) -> String {
    let text = dice.text("{}{}:.()[]\"\\#r'/*a1_ µé語\u{0}\n\r\t-hms08$?<>&|!;,=", 12);
    Literal::string(&text).to_string()
}

/// Text for the item.
pub(crate) fn item(dice: &mut Dice) -> String {
    if dice.one_in(12) {
        return dice.pick(ITEMS).to_owned();
    }
    let parameters: Vec<_> = (0..dice.below(4)).map(|_| dice.pick(PATTERNS)).collect();
    [
        dice.pick(&["", "", "/// Docs\n", "#[must_use]", "#[doc = \"{\"]"]),
        dice.pick(&["", "", "pub", "pub(crate)", "pub(in a::b)"]),
        dice.pick(&[
            "async",
            "async",
            "async",
            "async",
            "",
            "const",
            "async unsafe",
            "async extern \"C\"",
        ]),
        "fn",
        dice.pick(&["f", "f", "r#fn", "été"]),
        dice.pick(&[
            "",
            "",
            "<T>",
            "<'a, T: 'a, const N: usize>",
            "<#[cfg(x)] T>",
        ]),
        &format!("({})", parameters.join(", ")),
        dice.pick(RETURNS),
        dice.pick(&["", "", "where T: U", "where"]),
        dice.pick(BODIES),
    ]
    .join(" ")
}

/// The same tokens, except that some are missing, or twice, or somewhere else.
pub(crate) fn damaged(dice: &mut Dice, tokens: TokenStream) -> TokenStream {
    let mut trees: Vec<TokenTree> = tokens.into_iter().collect();
    for _ in 0..=dice.below(2) {
        if trees.is_empty() {
            break;
        }
        let at = dice.below(trees.len());
        match dice.below(5) {
            0 => drop(trees.remove(at)),
            1 => trees.insert(at, trees[at].clone()),
            2 => {
                let other = dice.below(trees.len());
                trees.swap(at, other);
            }
            _ => {
                if let TokenTree::Group(group) = &trees[at] {
                    let inside = damaged(dice, group.stream());
                    trees[at] = Group::new(group.delimiter(), inside).into();
                }
            }
        }
    }
    trees.into_iter().collect()
}
