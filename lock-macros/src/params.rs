//! How the parameters get into the guarded body, so that they are dropped before the lock is released.
//!
//! `async move` takes along only what the body mentions. So every name that a parameter binds is mentioned in front of
//! the body, in a way that leaves the compiler's own warnings as they were:
//!
//! - `let _ = &name;` takes it along without a copy, and counts as a use.
//! - `let name = name;` for a name that nothing mentions: the warning about an unused variable is still given, once,
//!   where the user wrote the parameter.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, Ident, Meta, Pat, PatIdent, ReceiverKind, Result, Signature};

use crate::span::generated_at;

/// A name that a parameter binds.
struct Binding<'a> {
    /// Which of the parameters.
    position: usize,
    /// Those of the parameter, and of the field in a pattern.
    attrs: Vec<&'a Attribute>,
    name: &'a Ident,
    mutable: bool,
    /// Whether the compiler warns if it is never read.
    warns: bool,
}

/// Gives every `_` parameter a name, because what has no name cannot be moved into the body.
pub(crate) fn name_wildcards(signature: &mut Signature) {
    for (position, input) in signature.inputs.iter_mut().enumerate() {
        let FnArg::Typed(input) = input else { continue };
        if let Pat::Wild(wildcard) = &*input.pat {
            let span = generated_at(wildcard.span());
            *input.pat = Pat::Ident(PatIdent {
                attrs: Vec::new(),
                by_ref: None,
                mutability: None,
                ident: format_ident!("_{position}", span = span),
                subpat: None,
            });
        }
    }
}

/// The statements in front of the body. `arguments` and `body` are looked through for the names; `taken` says which
/// names are moved away by the computation of the key.
pub(crate) fn captures(
    signature: &mut Signature,
    arguments: &TokenStream,
    body: &TokenStream,
    taken: impl Fn(&Ident) -> bool,
) -> TokenStream {
    let mut mentions = Vec::new();
    let mut rebindings = TokenStream::new();
    if let Some(receiver) = signature.receiver()
        && !matches!(receiver.kind, ReceiverKind::Reference(..))
    {
        let attrs = copied(receiver.attrs.iter());
        let this = receiver.self_token;
        mentions.push(quote_spanned!(Span::mixed_site()=> #attrs let _ = &#this;));
    }
    let mut unused = Vec::new();
    for Binding {
        position,
        attrs,
        name,
        mutable,
        warns,
    } in bindings(signature)
    {
        let expected = attrs.iter().any(|attr| attr.path().is_ident("expect"));
        let attrs = copied(attrs.into_iter());
        // A new binding would not be mutable, so what may be a mention must count as one.
        let in_body = mentioned(body, name, mutable);
        if !in_body && taken(name) {
            continue;
        }
        if !warns {
            // Clippy takes the capture for the user's own use of a name that says it is unused.
            let quiet =
                quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)]);
            mentions.push(quote_spanned!(Span::mixed_site()=> #attrs #quiet let _ = &#name;));
        } else if in_body || mentioned(arguments, name, true) {
            mentions.push(quote_spanned!(Span::mixed_site()=> #attrs let _ = &#name;));
        } else {
            let expected =
                expected.then(|| quote_spanned!(Span::mixed_site()=> #[allow(unused_variables)]));
            rebindings
                .extend(quote_spanned!(Span::mixed_site()=> #attrs #expected let #name = #name;));
            unused.push(position);
        }
    }
    for position in unused {
        allow_what_is_expected(&mut signature.inputs[position]);
    }
    // What an async block took along is dropped in the order in which it mentions it, parameters in reverse.
    mentions.reverse();
    quote!(#(#mentions)* #rebindings)
}

/// Uses the parameters that `arguments` mention and `body` does not.
pub(crate) fn only_in(
    arguments: &TokenStream,
    signature: &Signature,
    body: &TokenStream,
) -> TokenStream {
    bindings(signature)
        .into_iter()
        .filter(|binding| binding.warns)
        .filter(|binding| mentioned(arguments, binding.name, true))
        .filter(|binding| !mentioned(body, binding.name, true))
        .map(|Binding { attrs, name, .. }| {
            let attrs = copied(attrs.into_iter());
            quote_spanned!(Span::mixed_site()=> #attrs let _ = &#name;)
        })
        .collect()
}

/// Whether `body` assigns to a part of a parameter that it owns, as in `order.paid = true`.
pub(crate) fn assigns_to_part(signature: &Signature, body: &TokenStream) -> bool {
    let this = signature
        .receiver()
        .filter(|receiver| receiver.mutability.is_some())
        .map(|receiver| Ident::from(receiver.self_token));
    let bindings = bindings(signature);
    let mut owned: Vec<&Ident> = this.iter().collect();
    owned.extend(bindings.iter().filter(|b| b.mutable).map(|b| b.name));
    !owned.is_empty() && has_assignment(body.clone(), &owned)
}

fn has_assignment(tokens: TokenStream, names: &[&Ident]) -> bool {
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let found = match tree {
            TokenTree::Group(group) => has_assignment(group.stream(), names),
            TokenTree::Ident(ident) if names.contains(&&ident) => {
                let mut is_part = false;
                while let Some(TokenTree::Punct(dot)) = trees.peek()
                    && dot.as_char() == '.'
                {
                    trees.next();
                    is_part = matches!(
                        trees.next(),
                        Some(TokenTree::Ident(_) | TokenTree::Literal(_))
                    );
                }
                is_part && is_assignment(trees.clone())
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Whether `=`, or an operator with `=` such as `+=`, comes first.
fn is_assignment(trees: impl Iterator<Item = TokenTree>) -> bool {
    let mut operator = String::new();
    for tree in trees.take(3) {
        let TokenTree::Punct(punct) = tree else { break };
        operator.push(punct.as_char());
        if punct.spacing() == Spacing::Alone {
            break;
        }
    }
    let compound = ["+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<=", ">>="];
    compound.iter().any(|known| operator.starts_with(known))
        || (operator.starts_with('=') && !operator.starts_with("==") && !operator.starts_with("=>"))
}

/// The body of a future with a mention after every `let name = name;` whose name the arguments use. That is how
/// `#[async_trait]` takes parameters into the future, and where the compiler would say that they are unused.
pub(crate) fn used(body: &TokenStream, arguments: &TokenStream) -> TokenStream {
    let mut statement = Vec::new();
    let mut used = TokenStream::new();
    for tree in body.clone() {
        let ends = matches!(&tree, TokenTree::Punct(end) if end.as_char() == ';')
            || matches!(&tree, TokenTree::Group(block) if block.delimiter() == Delimiter::Brace);
        statement.push(tree);
        if !ends {
            continue;
        }
        let mention = taken_along(&statement)
            .filter(|name| mentioned(arguments, name, true))
            .map(|name| quote_spanned!(Span::mixed_site()=> let _ = &#name;));
        used.extend(statement.drain(..));
        used.extend(mention);
    }
    used.extend(statement);
    used
}

/// The name in `let name = name;`.
fn taken_along(statement: &[TokenTree]) -> Option<Ident> {
    let is = |tree: &TokenTree, word: &str| tree.to_string() == word;
    match statement {
        [
            ..,
            word,
            TokenTree::Ident(name),
            equals,
            TokenTree::Ident(value),
            _,
        ] if (is(word, "let") || is(word, "mut")) && is(equals, "=") && name == value => {
            Some(name.clone())
        }
        _ => None,
    }
}

/// The error for a lease that has the name of a parameter, which it would hide.
pub(crate) fn check_lease(signature: &Signature, lease: &Ident) -> Result<()> {
    let mut bindings = bindings(signature).into_iter();
    if bindings.all(|binding| binding.name != lease) {
        return Ok(());
    }
    Err(Error::new(
        lease.span(),
        format!("`{lease}` is a parameter already: give the lease another name"),
    ))
}

/// The attributes that decide whether a parameter exists, and what the compiler says about it. Not what it is expected to
/// say: it says that once, where the parameter is.
fn copied<'a>(attrs: impl Iterator<Item = &'a Attribute>) -> TokenStream {
    const NAMES: [&str; 5] = ["cfg", "cfg_attr", "allow", "warn", "deny"];
    attrs
        .filter(|attr| NAMES.iter().any(|name| attr.path().is_ident(name)))
        .map(ToTokens::to_token_stream)
        .collect()
}

/// `#[expect(unused_variables)]` on a parameter that is moved on, where the warning would now be given.
fn allow_what_is_expected(parameter: &mut FnArg) {
    let FnArg::Typed(parameter) = parameter else {
        return;
    };
    for attr in &mut parameter.attrs {
        if let Meta::List(list) = &mut attr.meta
            && list.path.is_ident("expect")
        {
            list.path = Ident::new("allow", list.path.span()).into();
        }
    }
}

/// Where names in a pattern come from.
struct Names<'a> {
    position: usize,
    attrs: Vec<&'a Attribute>,
}

fn bindings(signature: &Signature) -> Vec<Binding<'_>> {
    let mut found = Vec::new();
    for (position, input) in signature.inputs.iter().enumerate() {
        if let FnArg::Typed(input) = input {
            let attrs = input.attrs.iter().collect();
            Names { position, attrs }.collect(&input.pat, &mut found);
        }
    }
    found
}

impl<'a> Names<'a> {
    fn collect(&self, pattern: &'a Pat, found: &mut Vec<Binding<'a>>) {
        match pattern {
            Pat::Ident(binding) => {
                let warns = !binding.ident.to_string().starts_with('_');
                found.push(Binding {
                    position: self.position,
                    attrs: self.attrs.clone(),
                    name: &binding.ident,
                    mutable: binding.mutability.is_some(),
                    warns,
                });
                if let Some((_, inner)) = &binding.subpat {
                    self.collect(inner, found);
                }
            }
            Pat::Guard(guarded) => self.collect(&guarded.pat, found),
            // Every case binds the same names.
            Pat::Or(cases) => self.collect_all(cases.cases.first(), found),
            Pat::Paren(inner) => self.collect(&inner.pat, found),
            Pat::Reference(inner) => self.collect(&inner.pat, found),
            Pat::Slice(slice) => self.collect_all(&slice.elems, found),
            Pat::Struct(fields) => {
                for field in &fields.fields {
                    let attrs = self.attrs.iter().copied().chain(&field.attrs).collect();
                    let names = Names { attrs, ..*self };
                    names.collect(&field.pat, found);
                }
            }
            Pat::Tuple(tuple) => self.collect_all(&tuple.elems, found),
            Pat::TupleStruct(tuple) => self.collect_all(&tuple.elems, found),
            Pat::Type(typed) => self.collect(&typed.pat, found),
            _ => {}
        }
    }

    fn collect_all(
        &self,
        patterns: impl IntoIterator<Item = &'a Pat>,
        found: &mut Vec<Binding<'a>>,
    ) {
        for pattern in patterns {
            self.collect(pattern, found);
        }
    }
}

/// Whether `tokens` mention the variable `name`, in a format string too. Two things are a variable only to macros of a
/// strange kind, and `labels` says whether they count: what a single colon follows, as in `Order { id: 1 }` or `|id: u64|`,
/// and what stands between braces of a text where `format!` does not look for a name, as in JSON.
fn mentioned(tokens: &TokenStream, name: &Ident, labels: bool) -> bool {
    let word = name.unraw().to_string();
    let mut dots = 0;
    let mut trees = tokens.clone().into_iter().peekable();
    while let Some(tree) = trees.next() {
        let dots_before = std::mem::take(&mut dots);
        let found = match tree {
            TokenTree::Group(group) => mentioned(&group.stream(), name, labels),
            // One dot comes before a field or method, two or three before the end of a range.
            TokenTree::Ident(ident) => {
                ident.unraw() == word && dots_before != 1 && (labels || !is_colon(trees.peek()))
            }
            TokenTree::Punct(punct) => {
                dots = if punct.as_char() == '.' {
                    dots_before + 1
                } else {
                    0
                };
                false
            }
            TokenTree::Literal(literal) => in_format_string(&literal.to_string(), &word, labels),
        };
        if found {
            return true;
        }
    }
    false
}

fn is_colon(tree: Option<&TokenTree>) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && punct.spacing() == Spacing::Alone)
}

/// Whether `word` stands between braces in the text of a string literal: anywhere, or where `format!` looks for names.
fn in_format_string(literal: &str, word: &str, anywhere: bool) -> bool {
    let is_word = |c: char| c == '_' || c.is_alphanumeric() || !c.is_ascii();
    let mut depth = 0_usize;
    let mut first_in_braces = false;
    let mut rest = literal;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if length > 0 {
            let (found, after) = rest.split_at(length);
            let counts = anywhere || first_in_braces || after.starts_with('$');
            if depth > 0 && counts && found == word {
                return true;
            }
            first_in_braces = false;
            rest = after;
            continue;
        }
        match first {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // Twice, it is a brace of the text.
        first_in_braces = match first {
            '{' => !first_in_braces,
            _ => first_in_braces && first.is_whitespace(),
        };
        rest = &rest[first.len_utf8()..];
    }
    false
}
