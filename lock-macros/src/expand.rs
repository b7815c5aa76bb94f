//! What a guarded function becomes.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Error;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::args::{Args, OnBusy, Time, Wait};
use crate::item::{Braces, Form, Function, Future};
use crate::params;
use crate::returns::Output;
use crate::span::generated_at;

/// The whole attribute. Where something is wrong, the item follows the errors unchanged, so that nothing else in the
/// file breaks and editors keep completing.
pub(crate) fn attribute(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    match guard(arguments, item.clone()) {
        Ok(expanded) => expanded,
        Err(errors) => {
            let errors = errors.into_compile_error();
            quote!(#errors #item)
        }
    }
}

fn guard(arguments: &TokenStream, item: TokenStream) -> Result<TokenStream, Error> {
    let function: Function = syn::parse2(item)?;
    let args = Args::parse(arguments.clone());
    let on_busy = args
        .as_ref()
        .map_or(&OnBusy::Skip, |args| &args.options.on_busy);
    match (
        Output::new(&function.signature, &function.form, on_busy),
        args,
    ) {
        (Ok(output), Ok(args)) => Ok(expand(&args, arguments, function, &output)),
        (Err(mut errors), Err(more)) => {
            errors.combine(more);
            Err(errors)
        }
        (Err(errors), Ok(_)) | (Ok(_), Err(errors)) => Err(errors),
    }
}

// Input:
//     #[distributed_lock(key = "order:{order.id}", ttl = "8s")]
//     async fn pay(&self, order: Order, _: Permit) -> Result<u64, Failure> { BODY }
//
// Output:
//     async fn pay(&self, order: Order, _2: Permit) -> Result<u64, Failure> {
//         let name = concat!(module_path!(), "::", "pay");
//         let keys = Keys::one(format!("order:{0}", order.id));
//         let mut guard = Guard::new(name, keys).ttl(Duration::from_millis(8000));
//         let outcome = {
//             let body = pin!(async move {
//                 if let Some(value) = None::<Result<u64, Failure>> {
//                     return value;
//                 }
//                 #[allow(clippy::used_underscore_binding)]
//                 let _ = &_2;
//                 let _ = &order;
//                 { BODY }
//             });
//             let outcome = guard.run(body).await;
//             outcome
//         };
//         guard.finish().await;
//         match outcome {
//             Ok(value) => value,
//             Err(error) => fail::<Result<u64, Failure>>(name, error),
//         }
//     }
//
// The guard is declared first and so dropped last: whichever way the function is left, the body and the parameters are
// gone before the lock is. Keys are computed in a statement of their own, or a temporary in them would live across the
// awaits. Names of ours are hygienic, everything else is an absolute path into the runtime.
fn expand(
    args: &Args,
    arguments: &TokenStream,
    function: Function,
    output: &Output,
) -> TokenStream {
    let Function {
        attrs,
        vis,
        mut signature,
        inner_attrs,
        body,
        form,
    } = function;
    let outside = signature.ident.unraw().to_string();
    let statements = match form {
        Form::Async => {
            params::name_wildcards(&mut signature);
            let captures = params::captures(&signature, arguments, &body.content, |name| {
                args.keys.take(name)
            });
            let mixed = Span::mixed_site();
            guarded(
                args,
                &outside,
                output,
                &quote_spanned!(mixed=> move),
                &captures,
                &body,
            )
        }
        Form::Future(future) => {
            let Future {
                before,
                wrapper,
                move_token,
                block,
            } = *future;
            let moved = move_token.to_token_stream();
            let statements = guarded(args, &outside, output, &moved, &TokenStream::new(), &block);
            let future = quote_spanned!(Span::mixed_site()=> async move { #statements });
            if let Some(wrapper) = wrapper {
                quote_spanned!(Span::mixed_site()=> #before #wrapper(#future))
            } else {
                quote!(#before #future)
            }
        }
    };
    let body = braces(body.span, quote!(#(#inner_attrs)* #statements));
    quote!(#(#attrs)* #vis #signature #body)
}

/// The statements that run `body` under the lock.
fn guarded(
    args: &Args,
    function: &str,
    output: &Output,
    moved: &TokenStream,
    captures: &TokenStream,
    body: &Braces,
) -> TokenStream {
    let mixed = Span::mixed_site();
    let default_crate = || quote_spanned!(mixed=> ::lock_runtime);
    let krate = args
        .options
        .krate
        .as_ref()
        .map_or_else(default_crate, ToTokens::to_token_stream);
    let default_name = || {
        quote_spanned! {mixed=>
            #krate::__private::core::concat!(#krate::__private::core::module_path!(), "::", #function)
        }
    };
    let name = args
        .options
        .name
        .as_ref()
        .map_or_else(default_name, ToTokens::to_token_stream);
    let keys = args.keys.expand(&krate);
    let settings = settings(args, &krate);
    let anchor = output.anchor(&krate);
    let body = braces(body.span, body.content.clone());
    let failure = failure(&args.options.on_busy, output, &krate);
    quote_spanned! {mixed=>
        let name = #name;
        let keys = #keys;
        let mut guard = #krate::__private::Guard::new(name, keys) #settings;
        let outcome = {
            let body = #krate::__private::core::pin::pin!(async #moved { #anchor #captures #body });
            let outcome = guard.run(body).await;
            outcome
        };
        guard.finish().await;
        match outcome {
            #krate::__private::core::result::Result::Ok(value) => value,
            #krate::__private::core::result::Result::Err(error) => #failure,
        }
    }
}

/// The calls that set the guard up, each at the position of its value, where a wrong type is then reported.
fn settings(args: &Args, krate: &TokenStream) -> TokenStream {
    let options = &args.options;
    let mut settings = TokenStream::new();
    let mut set = |method: &str, position: Span, value: TokenStream| {
        let span = generated_at(position);
        let method = Ident::new(method, span);
        settings.extend(quote_spanned!(span=> .#method(#value)));
    };
    set("ttl", args.ttl.span(), time(&args.ttl, krate));
    match &options.wait {
        Wait::OneAttempt => {}
        Wait::AtMost(limit) => set("wait", limit.span(), time(limit, krate)),
        Wait::Forever(position) => set("wait_forever", *position, TokenStream::new()),
    }
    if let Some(least) = &options.hold_at_least {
        set("hold_at_least", least.span(), time(least, krate));
    }
    if let Some(manager) = &options.manager {
        set(
            "manager",
            manager.span(),
            quote_spanned!(Span::mixed_site()=> &#manager),
        );
    }
    settings
}

fn time(time: &Time, krate: &TokenStream) -> TokenStream {
    match time {
        Time::Known(known, span) => {
            let millis = u64::try_from(known.as_millis()).unwrap_or(u64::MAX);
            quote_spanned!(generated_at(*span)=> #krate::__private::Duration::from_millis(#millis))
        }
        Time::Expr(value) => value.to_token_stream(),
    }
}

/// What a call gives back when its body did not run to its end.
fn failure(on_busy: &OnBusy, output: &Output, krate: &TokenStream) -> TokenStream {
    let mixed = Span::mixed_site();
    match on_busy {
        OnBusy::Error => output.call(krate, "fail", quote_spanned!(mixed=> name, error)),
        OnBusy::Skip => output.call(krate, "skip", quote_spanned!(mixed=> name, error)),
        OnBusy::Value(value) => output.call(
            krate,
            "busy_or",
            quote_spanned!(mixed=> name, error, |_| #value),
        ),
        OnBusy::Closure(closure) => output.call(
            krate,
            "busy_or",
            quote_spanned!(mixed=> name, error, #closure),
        ),
    }
}

/// A block with the user's position, so that errors about it point there, and with our mark, so that it follows the
/// rules of this crate's edition and lints do not take it for superfluous.
fn braces(position: Span, content: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, content);
    group.set_span(generated_at(position));
    group
}

#[cfg(test)]
mod tests;
