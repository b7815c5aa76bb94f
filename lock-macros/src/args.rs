//! What was written between the parentheses of `#[distributed_lock(…)]`.
//!
//! Every argument is `name = value` with an expression for a value, which [`ARGUMENTS`] then reads. All mistakes are
//! collected before any is reported.

mod reader;
#[cfg(test)]
mod tests;
mod together;
mod unknown;
mod values;

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, Expr, Ident, LitStr, Path, Result};

use crate::groups::made_visible;
use crate::key::Keys;

use self::reader::Reader;

/// The arguments, checked.
pub(crate) struct Args {
    pub(crate) keys: Keys,
    pub(crate) ttl: Time,
    pub(crate) options: Options,
}

/// The arguments that may be left out.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) on_busy: OnBusy,
    pub(crate) on_lost: OnLost,
    pub(crate) extend: Option<Expr>,
    pub(crate) max_hold: Option<Time>,
    pub(crate) hold_at_least: Option<Time>,
    pub(crate) lease: Option<Ident>,
    pub(crate) fenced: Option<Expr>,
    pub(crate) manager: Option<Expr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) krate: Option<Path>,
}

/// A duration: read from text when compiling, or an expression for run time.
pub(crate) enum Time {
    Known(Duration, Span),
    Expr(Box<Expr>),
}

/// How long to wait for a lock that is busy.
#[derive(Default)]
pub(crate) enum Wait {
    #[default]
    OneAttempt,
    AtMost(Time),
    Forever(Span),
}

/// What a call returns when the lock is busy.
#[derive(Default)]
pub(crate) enum OnBusy {
    #[default]
    Error,
    Skip,
    Value(Expr),
    Closure(Expr),
}

/// What becomes of a body whose lease is lost.
#[derive(Default)]
pub(crate) enum OnLost {
    #[default]
    Cancel,
    Continue(Span),
}

/// Arguments that cannot be used, and what of them the item without its lock needs.
pub(crate) struct Mistakes {
    pub(crate) errors: Error,
    pub(crate) lease: Option<Ident>,
    pub(crate) krate: Option<Path>,
}

impl Mistakes {
    /// Those in the arguments, and others. There is one at least.
    pub(crate) fn of(args: std::result::Result<Args, Self>, others: [Option<Error>; 2]) -> Self {
        let (own, lease, krate) = match args {
            Ok(Args { keys, options, .. }) => (keys.faults(), options.lease, options.krate),
            Err(Self {
                errors,
                lease,
                krate,
            }) => (Some(errors), lease, krate),
        };
        let all = others.into_iter().flatten().chain(own);
        let errors = all.reduce(|mut all, error| {
            all.combine(error);
            all
        });
        let none = || Error::new(Span::call_site(), "the arguments cannot be used");
        Self {
            errors: errors.unwrap_or_else(none),
            lease,
            krate,
        }
    }
}

/// The arguments while they are read.
#[derive(Default)]
struct Draft {
    keys: Option<Keys>,
    ttl: Option<Time>,
    options: Options,
}

/// An argument that can be written.
struct Argument {
    name: &'static str,
    /// A value, for messages.
    example: &'static str,
    read: Read,
}

/// How an argument's value enters the draft.
type Read = fn(&mut Draft, Expr) -> Result<()>;

const fn argument(name: &'static str, example: &'static str, read: Read) -> Argument {
    Argument {
        name,
        example,
        read,
    }
}

/// The one list of the arguments: a new one is an entry here and its field.
const ARGUMENTS: &[Argument] = &[
    argument("key", "\"order:{id}\"", |draft, value| {
        put(&mut draft.keys, Keys::one(value))
    }),
    argument(
        "keys",
        "[\"account:{from}\", \"account:{to}\"]",
        |draft, value| put(&mut draft.keys, Keys::all(value)),
    ),
    argument("ttl", "\"30s\"", |draft, value| {
        put(&mut draft.ttl, values::ttl(value))
    }),
    argument("wait", "\"2s\"", |draft, value| {
        values::wait(value).map(|wait| draft.options.wait = wait)
    }),
    argument("on_busy", "skip", |draft, value| {
        values::on_busy(value).map(|on_busy| draft.options.on_busy = on_busy)
    }),
    argument("on_lost", "continue", |draft, value| {
        values::on_lost(&value).map(|on_lost| draft.options.on_lost = on_lost)
    }),
    argument("extend", "false", |draft, value| {
        put(&mut draft.options.extend, values::flag("extend", value))
    }),
    argument("max_hold", "\"1h\"", |draft, value| {
        put(&mut draft.options.max_hold, values::time("max_hold", value))
    }),
    argument("hold_at_least", "\"2s\"", |draft, value| {
        put(
            &mut draft.options.hold_at_least,
            values::time("hold_at_least", value),
        )
    }),
    argument("lease", "lease", |draft, value| {
        put(&mut draft.options.lease, values::lease(value))
    }),
    argument("fenced", "true", |draft, value| {
        put(&mut draft.options.fenced, values::flag("fenced", value))
    }),
    argument("manager", "self.locks", |draft, value| {
        put(&mut draft.options.manager, values::manager(value))
    }),
    argument("name", "\"billing::pay\"", |draft, value| {
        put(&mut draft.options.name, values::name(value))
    }),
    argument("crate", "my_app::lock_runtime", |draft, value| {
        put(&mut draft.options.krate, values::krate(value))
    }),
];

fn put<T>(field: &mut Option<T>, value: Result<T>) -> Result<()> {
    value.map(|value| *field = Some(value))
}

fn names() -> impl Iterator<Item = &'static str> {
    ARGUMENTS.iter().map(|argument| argument.name)
}

impl Args {
    /// Reads the arguments, or says everything that is wrong with them. `user` is a position in the user's source: what
    /// is missing is reported at the attribute, and not as if the attribute's code were wrong.
    pub(crate) fn parse(tokens: TokenStream, user: Span) -> std::result::Result<Self, Mistakes> {
        let mut reader = Reader::default();
        let all = |input: ParseStream<'_>| {
            reader.read_all(input);
            Ok(())
        };
        if let Err(error) = all.parse2(made_visible(tokens)) {
            reader.report(error);
        }
        reader.finish(Span::call_site().resolved_at(user))
    }
}

impl Time {
    /// Where it was written.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Known(_, span) => *span,
            Self::Expr(value) => value.span(),
        }
    }
}
