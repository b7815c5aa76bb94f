//! What was written between the parentheses of `#[distributed_lock(…)]`.
//!
//! Every argument is `name = value` with an expression for a value, which [`ARGUMENTS`] then reads. All mistakes are
//! collected before any is reported.

use std::time::Duration;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprContinue, ExprLit, Ident, Lit, LitStr, Path, Result, Token, UnOp};

use crate::duration;
use crate::key::{Keys, peel};

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
    Expr(Expr),
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

/// The arguments while they are read.
#[derive(Default)]
struct Draft {
    keys: Option<Keys>,
    ttl: Option<Time>,
    options: Options,
}

/// How an argument's value enters the draft.
type Read = fn(&mut Draft, Expr) -> Result<()>;

/// The one list of the arguments: a new one is an entry here and its field.
const ARGUMENTS: &[(&str, Read)] = &[
    ("key", |draft, value| put(&mut draft.keys, Keys::one(value))),
    ("keys", |draft, value| {
        put(&mut draft.keys, Keys::all(value))
    }),
    ("ttl", |draft, value| put(&mut draft.ttl, ttl(value))),
    ("wait", |draft, value| {
        wait(value).map(|wait| draft.options.wait = wait)
    }),
    ("on_busy", |draft, value| {
        draft.options.on_busy = on_busy(value);
        Ok(())
    }),
    ("on_lost", |draft, value| {
        on_lost(&value).map(|on_lost| draft.options.on_lost = on_lost)
    }),
    ("extend", |draft, value| {
        put(&mut draft.options.extend, flag("extend", value))
    }),
    ("max_hold", |draft, value| {
        put(&mut draft.options.max_hold, Time::new("max_hold", value))
    }),
    ("hold_at_least", |draft, value| {
        put(
            &mut draft.options.hold_at_least,
            Time::new("hold_at_least", value),
        )
    }),
    ("lease", |draft, value| {
        put(&mut draft.options.lease, lease(value))
    }),
    ("fenced", |draft, value| {
        put(&mut draft.options.fenced, flag("fenced", value))
    }),
    ("manager", |draft, value| {
        put(&mut draft.options.manager, Ok(value))
    }),
    ("name", |draft, value| {
        put(&mut draft.options.name, name(value))
    }),
    ("crate", |draft, value| {
        put(&mut draft.options.krate, krate(value))
    }),
];

fn put<T>(field: &mut Option<T>, value: Result<T>) -> Result<()> {
    value.map(|value| *field = Some(value))
}

impl Args {
    /// Reads the arguments, or says everything that is wrong with them.
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut reader = Reader::default();
        let all = |input: ParseStream<'_>| {
            reader.read_all(input);
            Ok(())
        };
        if let Err(error) = all.parse2(tokens) {
            reader.report(error);
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    draft: Draft,
    seen: Vec<Ident>,
    errors: Option<Error>,
}

impl Reader {
    fn read_all(&mut self, input: ParseStream<'_>) {
        while !input.is_empty() {
            if let Err(error) = self.read_one(input) {
                self.report(error);
                skip_to_comma(input);
            }
            // After a missing comma the next argument is read all the same.
            if input
                .parse::<Option<Token![,]>>()
                .is_ok_and(|comma| comma.is_none())
                && !input.is_empty()
            {
                self.report(input.error("a comma is missing before this"));
                if !input.peek(Ident::peek_any) {
                    skip_to_comma(input);
                }
            }
        }
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!(
                "arguments are written `name = value`, and the names are {}",
                names()
            )));
        }
        let name = input.call(Ident::parse_any)?;
        let argument = ARGUMENTS.iter().find(|(known, _)| name == known);
        let Some((_, read)) = argument else {
            self.report(Error::new(
                name.span(),
                format!(
                    "there is no argument `{name}`: the arguments are {}",
                    names()
                ),
            ));
            skip_to_comma(input);
            return Ok(());
        };
        self.note(&name)?;
        if !input.peek(Token![=]) {
            return Err(Error::new(
                name.span(),
                format!("`{name}` needs a value: `{name} = …`"),
            ));
        }
        let equals = input.parse::<Token![=]>()?;
        let unfinished =
            || Error::new_spanned(quote!(#name #equals), format!("`{name} =` needs a value"));
        if input.peek(Token![,]) {
            return Err(unfinished());
        }
        let value = input.parse().map_err(|error| {
            if input.is_empty() {
                unfinished()
            } else {
                error
            }
        })?;
        read(&mut self.draft, peel(value))
    }

    /// Remembers an argument that was written, unless it may not stand next to one before it.
    fn note(&mut self, name: &Ident) -> Result<()> {
        if self.has(&name.to_string()) {
            return Err(Error::new(
                name.span(),
                format!("`{name}` is written twice"),
            ));
        }
        if (*name == "key" && self.has("keys")) || (*name == "keys" && self.has("key")) {
            return Err(Error::new(
                name.span(),
                "`key` and `keys` exclude one another: put every key into `keys`",
            ));
        }
        self.seen.push(name.clone());
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    fn report(&mut self, error: Error) {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
    }

    fn finish(mut self) -> Result<Args> {
        if !self.has("key") && !self.has("keys") {
            self.report(Error::new(
                Span::call_site(),
                "missing `key`: say what is locked, as in `key = \"order:{id}\"`",
            ));
        }
        if !self.has("ttl") {
            self.report(Error::new(
                Span::call_site(),
                "missing `ttl`: say how long the lock lives if its holder dies, as in `ttl = \"30s\"`",
            ));
        }
        self.check_together();
        match (self.errors, self.draft) {
            (
                None,
                Draft {
                    keys: Some(keys),
                    ttl: Some(ttl),
                    options,
                },
            ) => Ok(Args { keys, ttl, options }),
            (errors, _) => Err(errors
                .unwrap_or_else(|| Error::new(Span::call_site(), "`key` and `ttl` are required"))),
        }
    }

    /// What is wrong only with two arguments side by side.
    fn check_together(&mut self) {
        let options = &self.draft.options;
        let too_short = match (&self.draft.ttl, &options.max_hold) {
            (Some(Time::Known(ttl, _)), Some(Time::Known(max_hold, span))) if max_hold < ttl => {
                Some(Error::new(
                    *span,
                    "`max_hold` bounds the hold with all its renewals, so it cannot be shorter than `ttl`",
                ))
            }
            _ => None,
        };
        let out_of_reach = options
            .fenced
            .as_ref()
            .filter(|fenced| is_true(fenced) && !self.has("lease"))
            .map(|fenced| {
                Error::new_spanned(
                    fenced,
                    "the body cannot reach the token that `fenced` asks for: add `lease = name`, \
                     and the token is `name.fence()`",
                )
            });
        for error in [too_short, out_of_reach].into_iter().flatten() {
            self.report(error);
        }
    }
}

/// The names of the arguments, as messages list them.
fn names() -> String {
    let names: Vec<String> = ARGUMENTS
        .iter()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    names.join(", ")
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) && input.parse::<TokenTree>().is_ok() {}
}

impl Time {
    /// Where it was written.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Known(_, span) => *span,
            Self::Expr(value) => value.span(),
        }
    }

    fn new(argument: &str, value: Expr) -> Result<Self> {
        match &value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) => match duration::parse(&text.value()) {
                Ok(known) => Ok(Self::Known(known, text.span())),
                Err(problem) => Err(Error::new(text.span(), problem)),
            },
            literal if is_number(literal) => Err(Error::new_spanned(
                literal,
                format!(
                    "`{argument}` is a number without a unit; {}, or an expression of the type `Duration`",
                    duration::FORMS
                ),
            )),
            Expr::Lit(_) => Err(Error::new_spanned(
                value,
                format!(
                    "`{argument}` is not a duration; {}, or an expression of the type `Duration`",
                    duration::FORMS
                ),
            )),
            _ => Ok(Self::Expr(value)),
        }
    }
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_number(&unary.expr),
        _ => false,
    }
}

fn ttl(value: Expr) -> Result<Time> {
    match Time::new("ttl", value)? {
        Time::Known(Duration::ZERO, span) => Err(Error::new(
            span,
            format!("a `ttl` of zero locks nothing; {}", duration::FORMS),
        )),
        time => Ok(time),
    }
}

fn wait(value: Expr) -> Result<Wait> {
    if is_word(&value, "forever") {
        return Ok(Wait::Forever(value.span()));
    }
    Time::new("wait", value).map(Wait::AtMost)
}

fn on_busy(value: Expr) -> OnBusy {
    match value {
        value if is_word(&value, "error") => OnBusy::Error,
        value if is_word(&value, "skip") => OnBusy::Skip,
        Expr::Closure(_) => OnBusy::Closure(value),
        value => OnBusy::Value(value),
    }
}

fn on_lost(value: &Expr) -> Result<OnLost> {
    match value {
        value if is_word(value, "cancel") => Ok(OnLost::Cancel),
        Expr::Continue(ExprContinue { label: None, .. }) => Ok(OnLost::Continue(value.span())),
        value => Err(Error::new_spanned(
            value,
            "`on_lost` is `cancel`, to stop the body when its lease is lost, or `continue`, to let it run on",
        )),
    }
}

fn flag(argument: &str, value: Expr) -> Result<Expr> {
    match value {
        Expr::Lit(literal) if !matches!(literal.lit, Lit::Bool(_)) => Err(Error::new_spanned(
            literal,
            format!("`{argument}` is `true`, `false` or an expression of the type `bool`"),
        )),
        value => Ok(value),
    }
}

fn is_true(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) if flag.value)
}

fn lease(value: Expr) -> Result<Ident> {
    // Parsing it as a name once more tells names from keywords, such as `self`.
    syn::parse2(value.to_token_stream()).map_err(|_| {
        Error::new_spanned(
            value,
            "`lease` is the name that the body uses for its lease, as in `lease = lease`",
        )
    })
}

fn is_word(value: &Expr, word: &str) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident(word))
}

fn name(value: Expr) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(name),
            ..
        }) if !name.value().trim().is_empty() => Ok(name),
        value => Err(Error::new_spanned(
            value,
            "`name` is a label for logs and metrics, a string literal that is not empty, as in `name = \"billing::pay\"`",
        )),
    }
}

fn krate(value: Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(Error::new_spanned(
            value,
            "`crate` is the runtime's path, as in `crate = my_app::lock_runtime`",
        )),
    }
}

#[cfg(test)]
mod tests;
