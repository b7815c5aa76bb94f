//! Positions in the user's source for tokens of ours.

use proc_macro2::{Span, TokenStream};

/// A span at the user's position with our mark: names are hygienic, lints and suggestions leave it alone.
pub(crate) fn generated_at(position: Span) -> Span {
    Span::mixed_site().located_at(position)
}

/// The tokens at another position; what their names mean does not change.
pub(crate) fn moved_to(position: Span, tokens: &TokenStream) -> TokenStream {
    let moved = tokens.clone().into_iter().map(|mut tree| {
        tree.set_span(tree.span().located_at(position));
        tree
    });
    moved.collect()
}
