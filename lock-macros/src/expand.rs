//! What a guarded function becomes.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::args::{Args, Mistakes, OnBusy, OnLost, Time, Wait};
use crate::groups::made_visible_before_body;
use crate::item::{Braces, Form, Function, Future};
use crate::params;
use crate::refused::without_lock;
use crate::returns::Output;
use crate::span::{generated_at, moved_to};

/// The whole attribute. Where something is wrong, the item follows the errors without its lock, so that nothing else in
/// the file breaks and editors keep completing.
pub(crate) fn attribute(arguments: &TokenStream, item: &TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(made_visible_before_body(item)) {
        Ok(function) => function,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    match guard(arguments, &function) {
        Ok((args, output)) => expand(&args, arguments, function, &output),
        Err(mistakes) => {
            let errors = mistakes.errors.to_compile_error();
            let item = without_lock(item, function, arguments, &mistakes);
            quote!(#errors #item)
        }
    }
}

fn guard(arguments: &TokenStream, function: &Function) -> Result<(Args, Output), Mistakes> {
    let signature = &function.signature;
    let args = Args::parse(arguments.clone(), signature.fn_token.span);
    let on_busy = args
        .as_ref()
        .map_or(&OnBusy::Skip, |args| &args.options.on_busy);
    let output = Output::new(signature, &function.form, on_busy);
    let lease = match &args {
        Ok(args) => &args.options.lease,
        Err(mistakes) => &mistakes.lease,
    };
    let lease = lease
        .as_ref()
        .map_or(Ok(()), |lease| params::check_lease(signature, lease));
    match (args, output, lease) {
        (Ok(args), Ok(output), Ok(())) => Ok((args, output)),
        (args, output, lease) => Err(Mistakes::of(args, [output.err(), lease.err()])),
    }
}

// Input:
//     #[distributed_lock(key = "order:{order.id}", ttl = "8s", lease = lease)]
//     async fn pay(&self, order: Order, _: Permit) -> Result<u64, Failure> { BODY }
//
// Output:
//     async fn pay(&self, order: Order, _2: Permit) -> Result<u64, Failure> {
//         let name = concat!(module_path!(), "::", "pay");
//         let keys = Keys::one(IntoKey::into_key(format!("order:{0}", order.id)));
//         let mut guard = Guard::new(name, keys).ttl(Duration::from_millis(8000));
//         let outcome = {
//             let body = pin!(async move {
//                 if let Some(value) = None::<Result<u64, Failure>> {
//                     return value;
//                 }
//                 #[allow(clippy::used_underscore_binding)]
//                 let _ = &_2;
//                 let _ = &order;
//                 let running = running_lease();
//                 let lease: &Lease = &running;
//                 { BODY }
//             });
//             guard.run(body).await
//         };
//         guard.finish().await;
//         return match outcome {
//             Ok(value) => value,
//             Err(error) => <Result<u64, Failure> as FromLockError>::fail(name, error),
//         };
//     }
//
// The guard is declared first and so dropped last: whichever way the function is left, the body and the parameters are
// gone before the lock is. Keys are computed in a statement of their own, or a temporary in them would live across the
// awaits. Everything that is not ours is an absolute path into the runtime. Locals of ours are hygienic, and written
// with the prefix `__lock_`: hygiene does not keep a pattern from meaning a constant or static that is in scope.
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
    let outer = body.span;
    let statements = match form {
        Form::Async => {
            params::name_wildcards(&mut signature);
            let captures = params::captures(&mut signature, arguments, &body.content, |name| {
                args.keys.take(name)
            });
            // A part that is assigned last and read by a `Drop` only is never read for the compiler, once the parameter
            // is a captured one.
            let quiet = params::assigns_to_part(&signature, &body.content)
                .then(|| quote_spanned!(Span::mixed_site()=> #[allow(unused_assignments)]));
            let inside = Inside {
                quiet,
                moved: quote_spanned!(generated_at(body.span)=> move),
                captures,
                body: &body,
            };
            guarded(args, &outside, output, &inside)
        }
        Form::Future(future) => {
            let Future {
                before,
                wrapper,
                move_token,
                block,
            } = *future;
            let block = Braces {
                span: block.span,
                content: params::used(&block.content, arguments),
                unfinished: None,
            };
            let inside = Inside {
                quiet: None,
                moved: move_token.to_token_stream(),
                captures: TokenStream::new(),
                body: &block,
            };
            let statements = guarded(args, &outside, output, &inside);
            let guarded = users_braces(block.span, statements);
            let at = generated_at(block.span);
            let future = quote_spanned!(at=> async move #guarded);
            if let Some(wrapper) = wrapper {
                quote_spanned!(at=> #before #wrapper(#future))
            } else {
                quote!(#before #future)
            }
        }
    };
    let body = users_braces(outer, quote!(#(#inner_attrs)* #statements));
    quote!(#(#attrs)* #vis #signature #body)
}

/// What runs under the lock.
struct Inside<'a> {
    /// Lints that would be wrong about it.
    quiet: Option<TokenStream>,
    moved: TokenStream,
    captures: TokenStream,
    body: &'a Braces,
}

/// The statements that run the body under the lock.
fn guarded(args: &Args, function: &str, output: &Output, inside: &Inside<'_>) -> TokenStream {
    let Inside {
        quiet,
        moved,
        captures,
        body,
    } = inside;
    let mixed = Span::mixed_site();
    let default_crate = || quote_spanned!(mixed=> ::lock_runtime);
    let krate = args
        .options
        .krate
        .as_ref()
        .map_or_else(default_crate, ToTokens::to_token_stream);
    let default_name = || {
        quote_spanned! {mixed=>
            #krate::__private::concat!(#krate::__private::module_path!(), "::", #function)
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
    let lease = args.options.lease.as_ref();
    let lease = lease.map(|name| lease_binding(name, &krate));
    // A parameter that was moved away before is missed by the body, and that is where it is said. Without our mark: in a
    // block with it, the compiler calls parameters "value".
    let position = body.span;
    let at = generated_at(position);
    let body = body
        .unfinished
        .clone()
        .unwrap_or_else(|| braces(body.span, body.content.clone()));
    let body = users_braces(
        position,
        quote_spanned!(at=> #anchor #captures #lease #body),
    );
    let body = quote_spanned!(position=> async #moved #body);
    let failure = failure(&args.options.on_busy, output, &krate);
    // What is wrong with what comes out, such as that it is not `Send`, although it is kept while the lock is released, or
    // does not live long enough, is said at the return type.
    let outcome = Ident::new("__lock_outcome", output.position());
    let at_output = moved_to(output.position(), &krate);
    let end = quote_spanned! {output.position()=>
        return match #outcome {
            #at_output::__private::Ok(__lock_value) => __lock_value,
            #at_output::__private::Err(__lock_error) => #failure,
        };
    };
    quote_spanned! {mixed=>
        let __lock_name = #name;
        let __lock_keys = #keys;
        let mut __lock_guard = #krate::__private::Guard::new(__lock_name, __lock_keys) #settings;
        let #outcome = {
            #quiet
            let __lock_body = #krate::__private::pin!(#body);
            __lock_guard.run(__lock_body).await
        };
        __lock_guard.finish().await;
        #end
    }
}

/// Binds the lease where it can be had: the body is made before the lock is acquired, and polled after.
fn lease_binding(name: &Ident, krate: &TokenStream) -> TokenStream {
    let span = generated_at(name.span());
    let krate = moved_to(name.span(), krate);
    quote_spanned! {span=>
        let __lock_running = #krate::__private::running_lease();
        let #name: &#krate::Lease = &__lock_running;
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
    if let OnLost::Continue(position) = options.on_lost {
        set("continue_when_lost", position, TokenStream::new());
    }
    if let Some(extend) = &options.extend {
        set("extend", extend.span(), extend.to_token_stream());
    }
    if let Some(most) = &options.max_hold {
        set("max_hold", most.span(), time(most, krate));
    }
    if let Some(least) = &options.hold_at_least {
        set("hold_at_least", least.span(), time(least, krate));
    }
    if let Some(fenced) = &options.fenced {
        set("fenced", fenced.span(), fenced.to_token_stream());
    }
    if let Some(manager) = &options.manager {
        set(
            "manager",
            manager.span(),
            quote_spanned!(generated_at(manager.span())=> &#manager),
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
    let given = quote_spanned!(Span::mixed_site()=> __lock_name, __lock_error);
    match on_busy {
        OnBusy::Error => output.call(krate, ("FromLockError", "fail"), given),
        OnBusy::Skip => output.call(krate, ("Skipped", "skip"), given),
        OnBusy::Value(value) => output.call(
            krate,
            ("FromOutage", "busy_or"),
            quote_spanned!(Span::mixed_site()=> #given, |_| #value),
        ),
        OnBusy::Closure(closure) => output.call(
            krate,
            ("FromOutage", "busy_or"),
            quote_spanned!(Span::mixed_site()=> #given, #closure),
        ),
    }
}

/// A block that is the user's: with our mark on it, the compiler would take the whole function for ours, and no longer
/// warn that it is unused or undocumented.
fn users_braces(position: Span, content: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, content);
    group.set_span(position);
    group
}

/// A block with the user's position, so that errors about it point there, and with our mark, so that it follows the
/// rules of this crate's edition and lints do not take it for superfluous.
fn braces(position: Span, content: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, content);
    group.set_span(generated_at(position));
    group
}

/// Tested here because no package of the workspace may have an `unsafe` block:
///
/// ```
/// use lock_runtime::{LockError, LockManager, assert_held, distributed_lock};
///
/// /// # Safety
/// ///
/// /// `value` must point to a value.
/// #[distributed_lock(key = "unsafe", ttl = "8s", manager = LockManager::in_memory())]
/// async unsafe fn read(value: *const u8) -> Result<u8, LockError> {
///     assert_held();
///     // SAFETY: the caller promises that it points to a value.
///     Ok(unsafe { *value })
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// // SAFETY: it points to a value.
/// assert_eq!(unsafe { read(&8) }.await?, 8);
/// # Ok(()) }
/// ```
#[cfg(doctest)]
struct UnsafeFunctions;

#[cfg(test)]
mod tests;
