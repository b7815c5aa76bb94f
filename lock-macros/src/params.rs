//! How the parameters get into the guarded body, so that they are dropped before the lock is released.
//!
//! `async move` takes along only what the body mentions. So every name that a parameter binds is mentioned in front of
//! the body, in a way that leaves the compiler's own warnings as they were:
//!
//! - `let _ = &name;` takes it along without a copy, and counts as a use.
//! - `let name = name;` for a name that nothing mentions: the warning about an unused variable is still given, once,
//!   where the user wrote the parameter.

use proc_macro2::{Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, Ident, Pat, PatIdent, ReceiverKind, Result, Signature};

use crate::span::generated_at;

/// A name that a parameter binds.
struct Binding<'a> {
    attrs: &'a [Attribute],
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
    signature: &Signature,
    arguments: &TokenStream,
    body: &TokenStream,
    taken: impl Fn(&Ident) -> bool,
) -> TokenStream {
    let mut mentions = Vec::new();
    let mut rebindings = TokenStream::new();
    if let Some(receiver) = signature.receiver()
        && !matches!(receiver.kind, ReceiverKind::Reference(..))
    {
        let attrs = copied(&receiver.attrs);
        let this = receiver.self_token;
        mentions.push(quote_spanned!(Span::mixed_site()=> #attrs let _ = &#this;));
    }
    for Binding {
        attrs,
        name,
        mutable,
        warns,
    } in bindings(signature)
    {
        let attrs = copied(attrs);
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
            rebindings.extend(quote_spanned!(Span::mixed_site()=> #attrs let #name = #name;));
        }
    }
    // What an async block took along is dropped in the order in which it mentions it, parameters in reverse.
    mentions.reverse();
    quote!(#(#mentions)* #rebindings)
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

/// The attributes that decide whether a parameter exists, and what the compiler says about it.
fn copied(attrs: &[Attribute]) -> TokenStream {
    const NAMES: [&str; 6] = ["cfg", "cfg_attr", "allow", "expect", "warn", "deny"];
    attrs
        .iter()
        .filter(|attr| NAMES.iter().any(|name| attr.path().is_ident(name)))
        .map(ToTokens::to_token_stream)
        .collect()
}

fn bindings(signature: &Signature) -> Vec<Binding<'_>> {
    let mut found = Vec::new();
    for input in &signature.inputs {
        if let FnArg::Typed(input) = input {
            collect(&input.attrs, &input.pat, &mut found);
        }
    }
    found
}

fn collect<'a>(attrs: &'a [Attribute], pattern: &'a Pat, found: &mut Vec<Binding<'a>>) {
    match pattern {
        Pat::Ident(binding) => {
            let warns = !binding.ident.to_string().starts_with('_');
            found.push(Binding {
                attrs,
                name: &binding.ident,
                mutable: binding.mutability.is_some(),
                warns,
            });
            if let Some((_, inner)) = &binding.subpat {
                collect(attrs, inner, found);
            }
        }
        Pat::Guard(guarded) => collect(attrs, &guarded.pat, found),
        // Every case binds the same names.
        Pat::Or(cases) => cases
            .cases
            .first()
            .into_iter()
            .for_each(|case| collect(attrs, case, found)),
        Pat::Paren(inner) => collect(attrs, &inner.pat, found),
        Pat::Reference(inner) => collect(attrs, &inner.pat, found),
        Pat::Slice(slice) => slice
            .elems
            .iter()
            .for_each(|inner| collect(attrs, inner, found)),
        Pat::Struct(fields) => fields
            .fields
            .iter()
            .for_each(|field| collect(attrs, &field.pat, found)),
        Pat::Tuple(tuple) => tuple
            .elems
            .iter()
            .for_each(|inner| collect(attrs, inner, found)),
        Pat::TupleStruct(tuple) => tuple
            .elems
            .iter()
            .for_each(|inner| collect(attrs, inner, found)),
        Pat::Type(typed) => collect(attrs, &typed.pat, found),
        _ => {}
    }
}

/// Whether `tokens` mention the variable `name`, in a format string too. What a single colon follows, as in
/// `Order { id: 1 }` or `|id: u64|`, is a variable only to macros of a strange kind: `labels` says whether it counts.
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
                ident == *name && dots_before != 1 && (labels || !is_colon(trees.peek()))
            }
            TokenTree::Punct(punct) => {
                dots = if punct.as_char() == '.' {
                    dots_before + 1
                } else {
                    0
                };
                false
            }
            TokenTree::Literal(literal) => in_format_string(&literal.to_string(), &word),
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

/// Whether `word` stands between braces in the text of a string literal.
fn in_format_string(literal: &str, word: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut depth = 0_usize;
    let mut rest = literal;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if length > 0 {
            if depth > 0 && &rest[..length] == word {
                return true;
            }
            rest = &rest[length..];
            continue;
        }
        match first {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    false
}
