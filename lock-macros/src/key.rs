//! Keys: templates such as `"order:{order.id}"`, and expressions that are turned into a key.
//!
//! A template is `format!` syntax. One that `format!` understands is handed on untouched, so that the compiler's own
//! messages point inside the literal. Placeholders that go further (`{order.id}`) become positional arguments.

mod literal;
mod template;
#[cfg(test)]
mod tests;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Member, Result, Token};

use crate::span::{generated_at, moved_to};

use self::template::{Fault, Piece, split};

/// What `key` or `keys` asked for.
pub(crate) enum Keys {
    One(Key),
    All(Vec<Key>),
}

/// One key.
pub(crate) enum Key {
    /// Text without placeholders.
    Text(LitStr),
    /// A format string and its positional arguments.
    Format(LitStr, Vec<TokenStream>),
    /// A format string that `format!` refuses, and our words for it. The compiler says it inside the literal, where we
    /// cannot point to; so it is ours to say only next to other mistakes, with which nothing is expanded.
    Refused(LitStr, Error),
    /// Anything else that is `Into<LockKey>`.
    Expr(Box<Expr>),
}

impl Keys {
    /// `key = …`
    pub(crate) fn one(value: Expr) -> Result<Self> {
        Key::new(value).map(Self::One)
    }

    /// `keys = […]`
    pub(crate) fn all(value: Expr) -> Result<Self> {
        let Expr::Array(list) = value else {
            return Err(Error::new_spanned(
                value,
                "`keys` is a list, as in `keys = [\"account:{from}\", \"account:{to}\"]`; \
                 for keys that only run time knows there is `LockManager::lock_all`",
            ));
        };
        if list.elems.is_empty() {
            return Err(Error::new_spanned(
                list,
                "`keys` is empty: name what is locked, as in `keys = [\"account:{from}\", \"account:{to}\"]`",
            ));
        }
        let mut keys = Vec::new();
        let mut errors: Option<Error> = None;
        for element in list.elems {
            match (Key::new(element), &mut errors) {
                (Ok(key), _) => keys.push(key),
                (Err(error), Some(earlier)) => earlier.combine(error),
                (Err(error), first) => *first = Some(error),
            }
        }
        match errors {
            Some(errors) => Err(errors),
            None => Ok(Self::All(keys)),
        }
    }

    /// The mistakes that are left to the compiler.
    pub(crate) fn faults(&self) -> Option<Error> {
        let keys = match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::All(keys) => keys,
        };
        let faults = keys.iter().filter_map(|key| match key {
            Key::Refused(_, fault) => Some(fault.clone()),
            _ => None,
        });
        faults.reduce(|mut all, fault| {
            all.combine(fault);
            all
        })
    }

    /// Whether `name` itself is a key, so that computing the keys moves it.
    pub(crate) fn take(&self, name: &Ident) -> bool {
        let is_name = |key: &Key| matches!(key, Key::Expr(value) if is_path(value, name));
        match self {
            Self::One(key) => is_name(key),
            Self::All(keys) => keys.iter().any(is_name),
        }
    }

    /// An expression of the runtime's `Keys`.
    pub(crate) fn expand(&self, krate: &TokenStream) -> TokenStream {
        match self {
            Self::One(key) => {
                let at = key.position();
                let value = key.expand(krate);
                let krate = moved_to(at, krate);
                quote_spanned! {generated_at(at)=>
                    #krate::__private::Keys::one(#krate::__private::IntoKey::into_key(#value))
                }
            }
            Self::All(keys) => {
                let keys = keys.iter().map(|key| {
                    let at = key.position();
                    let value = key.expand(krate);
                    let krate = moved_to(at, krate);
                    quote_spanned! {generated_at(at)=>
                        #krate::__private::IntoKey::into_key(#value)
                    }
                });
                quote_spanned!(Span::mixed_site()=> #krate::__private::Keys::all([#(#keys),*]))
            }
        }
    }
}

impl Key {
    fn new(value: Expr) -> Result<Self> {
        let value = peel(value);
        match text(&value) {
            Some(literal) => template(literal.clone()),
            None => no_template(&value).map_or(Ok(Self::Expr(Box::new(value))), Err),
        }
    }

    /// Where it was written: that is where a wrong type is reported.
    fn position(&self) -> Span {
        match self {
            Self::Text(literal) | Self::Format(literal, _) | Self::Refused(literal, _) => {
                literal.span()
            }
            Self::Expr(value) => value.span(),
        }
    }

    fn expand(&self, krate: &TokenStream) -> TokenStream {
        match self {
            Self::Text(literal) => literal.to_token_stream(),
            Self::Format(literal, arguments) => {
                quote_spanned!(Span::mixed_site()=> #krate::__private::format!(#literal #(, #arguments)*))
            }
            Self::Refused(literal, _) => {
                quote_spanned!(Span::mixed_site()=> #krate::__private::format!(#literal))
            }
            Self::Expr(value) => value.to_token_stream(),
        }
    }
}

fn is_path(value: &Expr, name: &Ident) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident(name))
}

/// What a macro put into an invisible group, without the group.
pub(crate) fn peel(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => peel(*group.expr),
        value => value,
    }
}

/// The string literal that it is, in parentheses or not.
fn text(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(literal),
            ..
        }) => Some(literal),
        Expr::Paren(inner) => text(&inner.expr),
        Expr::Group(inner) => text(&inner.expr),
        _ => None,
    }
}

/// The error for an expression that is nothing but text with placeholders, which would be part of the key as they are.
fn no_template(value: &Expr) -> Option<Error> {
    const CONVERSIONS: [&str; 4] = ["into", "to_owned", "to_string", "as_str"];
    let literal = match value {
        Expr::MethodCall(call) if CONVERSIONS.iter().any(|name| call.method == name) => {
            text(&call.receiver)?.clone()
        }
        Expr::Macro(call) if call.mac.path.is_ident("concat") => {
            let parts = Punctuated::<LitStr, Token![,]>::parse_terminated;
            let parts = parts.parse2(call.mac.tokens.clone()).ok()?;
            let whole: String = parts.iter().map(LitStr::value).collect();
            LitStr::new(&whole, call.span())
        }
        _ => return None,
    };
    let text = literal.value();
    let is_place = |piece: &Piece<'_>| matches!(piece, Piece::Place { .. });
    split(&text).ok()?.iter().any(is_place).then(|| {
        let literal = literal.token();
        Error::new_spanned(
            value,
            format!("only a string literal by itself is a template, and this is a key with braces in it: write `{literal}`"),
        )
    })
}

fn template(literal: LitStr) -> Result<Key> {
    let text = literal.value();
    if text.trim().is_empty() {
        return Err(Error::new(
            literal.span(),
            "the key is empty: name what is locked, as in \"order:{id}\"",
        ));
    }
    let pieces = match split(&text) {
        Ok(pieces) => pieces,
        Err(fault) => return refused(literal, &text, &fault),
    };
    if let Some(text) = plain(&pieces) {
        return Ok(Key::Text(LitStr::new(&text, literal.span())));
    }
    let mut rebuilt = String::new();
    let mut arguments = Vec::new();
    let mut errors: Option<Error> = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) => rebuilt.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Piece::Place { value, spec } => {
                rebuilt.push('{');
                if captured_by_format(value) {
                    rebuilt.push_str(value);
                } else {
                    rebuilt.push_str(&arguments.len().to_string());
                    match (
                        placeholder(value, literal::part(&literal, &text, value)),
                        &mut errors,
                    ) {
                        (Ok(argument), _) => arguments.push(argument),
                        (Err(error), Some(earlier)) => earlier.combine(error),
                        (Err(error), first) => *first = Some(error),
                    }
                }
                rebuilt.push_str(spec);
                rebuilt.push('}');
            }
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let format = if rebuilt == text {
        literal
    } else {
        LitStr::new(&rebuilt, literal.span())
    };
    Ok(Key::Format(format, arguments))
}

/// A template that cannot be taken apart.
fn refused(literal: LitStr, text: &str, fault: &Fault<'_>) -> Result<Key> {
    let error = Error::new(literal::part(&literal, text, fault.at), &fault.problem);
    let names = &mut fault.before.iter().filter_map(|piece| match piece {
        Piece::Place { value, .. } => Some(*value),
        Piece::Text(_) => None,
    });
    if fault.is_for_format && names.chain(fault.value).all(captured_by_format) {
        Ok(Key::Refused(literal, error))
    } else {
        Err(error)
    }
}

/// The text of a template that has no placeholder.
fn plain(pieces: &[Piece<'_>]) -> Option<String> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Place { .. } => None,
        })
        .collect()
}

/// Whether the value can be handed to the compiler's lexer, which reports what it cannot read by itself, and gives up
/// on an unfinished comment or literal.
fn is_readable(value: &str) -> bool {
    let mut in_string = false;
    let mut before = None;
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        let readable = match character {
            '"' => {
                in_string = !in_string;
                true
            }
            '\\' | '\r' | '\n' => false,
            '#' if !in_string => {
                before == Some('r') && characters.peek().is_some_and(char::is_ascii_alphabetic)
            }
            _ => {
                in_string
                    || "_.:()[] ".contains(character)
                    || character.is_ascii_digit()
                    || character.is_alphabetic()
            }
        };
        if !readable {
            return false;
        }
        before = Some(character);
    }
    !in_string
}

/// Whether `format!` itself finds the value: a name, keywords included (`{type}` is the parameter `r#type`).
fn captured_by_format(value: &str) -> bool {
    let is_name = || {
        is_readable(value)
            && Ident::parse_any
                .parse_str(value)
                .is_ok_and(|name| name == value)
    };
    !value.starts_with("r#") && (is_name_with_marks(value) || is_name())
}

/// Whether it may be a name in a script whose letters carry marks. `format!` knows, and says so if it is none.
fn is_name_with_marks(value: &str) -> bool {
    let may_belong = |c: char| c == '_' || c.is_alphanumeric() || !c.is_ascii();
    value.starts_with(|c: char| c == '_' || c.is_alphabetic())
        && value.chars().all(may_belong)
        && !value.is_ascii()
}

/// The expression in a placeholder that `format!` does not understand.
fn placeholder(value: &str, literal: Span) -> Result<TokenStream> {
    let refused = || {
        Error::new(
            literal,
            format!(
                "`{{{value}}}`: a placeholder is a parameter, with fields, methods without arguments and indices after \
                 it, as in `{{id}}`, `{{order.id}}`, `{{self.region}}` or `{{req.user()}}`; \
                 for more, give `key` an expression such as `format!(\"…\")`"
            ),
        )
    };
    if !is_readable(value) {
        return Err(refused());
    }
    let expression: Expr = LitStr::new(value, literal).parse().map_err(|_| refused())?;
    place_expression(&expression, literal).ok_or_else(refused)
}

/// What follows the first name is marked as generated: the compiler's suggestions would otherwise replace the whole
/// literal with the name of a field.
fn place_expression(expression: &Expr, literal: Span) -> Option<TokenStream> {
    let generated = generated_at(literal);
    match expression {
        Expr::Path(path)
            if path.qself.is_none()
                && path.path.segments.iter().all(|s| s.arguments.is_empty()) =>
        {
            Some(path.to_token_stream())
        }
        Expr::Field(field) => {
            let base = place_expression(&field.base, literal)?;
            let member = match &field.member {
                Member::Named(name) => {
                    let mut name = name.clone();
                    name.set_span(generated);
                    Member::Named(name)
                }
                Member::Unnamed(index) => {
                    let mut index = index.clone();
                    index.span = generated;
                    Member::Unnamed(index)
                }
            };
            Some(quote_spanned!(generated=> #base.#member))
        }
        Expr::MethodCall(call) if call.args.is_empty() && call.turbofish.is_none() => {
            let base = place_expression(&call.receiver, literal)?;
            let method = format_ident!("{}", call.method, span = generated);
            Some(quote_spanned!(generated=> #base.#method()))
        }
        Expr::Index(index) => {
            let base = place_expression(&index.expr, literal)?;
            let index = match &*index.index {
                Expr::Lit(ExprLit {
                    lit: lit @ (Lit::Int(_) | Lit::Str(_)),
                    ..
                }) => lit.to_token_stream(),
                index => place_expression(index, literal)?,
            };
            Some(quote_spanned!(generated=> #base[#index]))
        }
        _ => None,
    }
}
