//! What is wrong only with two arguments side by side, where both are known when compiling.

use std::time::Duration;

use syn::{Error, Ident};

use super::values::{is_false, is_true};
use super::{Options, Time};

/// What contradicts what; `ttl` is there when it could be read.
pub(super) fn check(ttl: Option<&Time>, options: &Options, seen: &[Ident]) -> Vec<Error> {
    [
        max_hold_under_ttl(ttl, options),
        max_hold_without_renewal(options),
        hold_at_least_over_max_hold(options),
        fence_out_of_reach(options, seen),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn max_hold_under_ttl(ttl: Option<&Time>, options: &Options) -> Option<Error> {
    let Time::Known(max_hold, span) = options.max_hold.as_ref()? else {
        return None;
    };
    let shortest = ttl.and_then(known).unwrap_or(Duration::from_millis(1));
    (*max_hold < shortest).then(|| {
        Error::new(
            *span,
            "`max_hold` bounds the hold with all its renewals, so it cannot be shorter than `ttl`",
        )
    })
}

fn max_hold_without_renewal(options: &Options) -> Option<Error> {
    options.max_hold.as_ref()?;
    let extend = options.extend.as_ref().filter(|extend| is_false(extend))?;
    Some(Error::new_spanned(
        extend,
        "without renewal the hold ends after `ttl`, and `max_hold` says nothing: leave out `extend = false` or `max_hold`",
    ))
}

fn hold_at_least_over_max_hold(options: &Options) -> Option<Error> {
    let Time::Known(least, span) = options.hold_at_least.as_ref()? else {
        return None;
    };
    let most = options.max_hold.as_ref().and_then(known)?;
    (*least > most).then(|| {
        Error::new(
            *span,
            "`hold_at_least` is longer than `max_hold`, which bounds the whole hold: shorten the one or lengthen the other",
        )
    })
}

fn fence_out_of_reach(options: &Options, seen: &[Ident]) -> Option<Error> {
    let fenced = options.fenced.as_ref().filter(|fenced| is_true(fenced))?;
    let reachable = seen.iter().any(|name| name == "lease");
    (!reachable).then(|| {
        Error::new_spanned(
            fenced,
            "the body cannot reach the token that `fenced` asks for: add `lease = name`, and the token is `name.fence()`",
        )
    })
}

fn known(time: &Time) -> Option<Duration> {
    match time {
        Time::Known(known, _) => Some(*known),
        Time::Expr(_) => None,
    }
}
