//! What is left of a function whose attribute is wrong: the function, so that its callers and its body are still checked.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::args::Mistakes;
use crate::item::Function;
use crate::params;
use crate::span::generated_at;

/// The item as it was. Names that only the attribute gives a meaning get one, or the compiler would go on about them.
pub(crate) fn without_lock(
    item: &TokenStream,
    function: Function,
    arguments: &TokenStream,
    mistakes: &Mistakes,
) -> TokenStream {
    let lease = mistakes
        .lease
        .as_ref()
        .filter(|lease| params::check_lease(&function.signature, lease).is_ok())
        .map(|lease| stand_in(lease, mistakes));
    let in_key = params::only_in(arguments, &function.signature, &function.body.content);
    if lease.is_none() && in_key.is_empty() {
        return item.clone();
    }
    let Function {
        attrs,
        vis,
        signature,
        inner_attrs,
        body,
        ..
    } = function;
    let braces = |span, content| {
        let mut group = Group::new(Delimiter::Brace, content);
        group.set_span(span);
        group
    };
    let content = body
        .unfinished
        .unwrap_or_else(|| braces(generated_at(body.span), body.content));
    let body = braces(body.span, quote!(#(#inner_attrs)* #in_key #lease #content));
    quote!(#(#attrs)* #vis #signature #body)
}

/// Gives the lease its type. The value is never made: next to an error nothing runs.
fn stand_in(lease: &Ident, mistakes: &Mistakes) -> TokenStream {
    let mixed = Span::mixed_site();
    let krate = mistakes.krate.as_ref().map_or_else(
        || quote_spanned!(mixed=> ::lock_runtime),
        ToTokens::to_token_stream,
    );
    quote_spanned! {mixed=>
        let #lease: &#krate::Lease = #krate::__private::core::option::Option::unwrap(
            #krate::__private::core::option::Option::None,
        );
    }
}
