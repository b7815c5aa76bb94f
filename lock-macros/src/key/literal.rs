//! Positions inside a string literal.

use proc_macro2::Span;
use syn::LitStr;

/// The position of `part`, a slice of the literal's `text`. Stable compilers know the position of the whole literal
/// only, and nobody that of what follows an escape: then it is that.
pub(super) fn part(literal: &LitStr, text: &str, part: &str) -> Span {
    let whole = literal.span();
    let token = literal.token();
    let source = token.to_string();
    let inside = source.find('"').map(|quote| quote + 1);
    let offset = part.as_ptr().addr().checked_sub(text.as_ptr().addr());
    let (Some(inside), Some(offset)) = (inside, offset) else {
        return whole;
    };
    if !source[inside..].starts_with(text) {
        return whole;
    }
    let start = inside + offset;
    token.subspan(start..start + part.len()).unwrap_or(whole)
}
