//! The values of the arguments: what each may be, and what to write instead of what it may not.

use std::time::Duration;

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprContinue, ExprLit, Ident, Lit, LitStr, Path, Result, UnOp};

use super::{OnBusy, OnLost, Time, Wait};
use crate::duration;

/// A shorter lease is used up by the drift of the clocks that the runtime allows for, a hundredth and two milliseconds.
const SHORTEST_TTL: Duration = Duration::from_millis(3);

pub(super) fn time(argument: &str, value: Expr) -> Result<Time> {
    if let Some(text) = text(&value) {
        return match duration::parse(&text.value()) {
            Ok(known) => Ok(Time::Known(known, text.span())),
            Err(problem) => Err(Error::new(text.span(), problem)),
        };
    }
    if let Some(text) = without_quotes(&value) {
        let problem = format!("`{text}` is written in quotes: `{argument} = \"{text}\"`");
        return Err(Error::new_spanned(value, problem));
    }
    let problem = match &value {
        number if is_number(number) => match whole(number) {
            Some(digits) => {
                format!("`{digits}` has no unit: write `{argument} = \"{digits}s\"` for seconds")
            }
            None => format!("`{argument}` is a number without a unit"),
        },
        Expr::Lit(_) => format!("`{argument}` is not a duration"),
        _ => return Ok(Time::Expr(Box::new(value))),
    };
    Err(Error::new_spanned(
        value,
        format!(
            "{problem}; {}, or an expression of the type `Duration`",
            duration::FORMS
        ),
    ))
}

/// A duration that would be one in quotes: a number whose suffix is a unit.
fn without_quotes(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Some(number.to_string()).filter(|text| duration::parse(text).is_ok()),
        _ => None,
    }
}

/// The digits of a number that could have a unit.
fn whole(value: &Expr) -> Option<&str> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) if number.suffix().is_empty() && number.base10_digits() != "0" => {
            Some(number.base10_digits())
        }
        _ => None,
    }
}

fn is_number(value: &Expr) -> bool {
    match value {
        Expr::Lit(literal) => matches!(literal.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_number(&unary.expr),
        _ => false,
    }
}

pub(super) fn ttl(value: Expr) -> Result<Time> {
    match time("ttl", value)? {
        Time::Known(Duration::ZERO, span) => Err(Error::new(
            span,
            format!("a `ttl` of zero locks nothing; {}", duration::FORMS),
        )),
        Time::Known(known, span) if known < SHORTEST_TTL => Err(Error::new(
            span,
            format!(
                "a `ttl` of {known:?} is used up by the clock drift that is allowed for: the shortest is {SHORTEST_TTL:?}, and a \
                 usual one is seconds, as in \"8s\""
            ),
        )),
        time => Ok(time),
    }
}

pub(super) fn wait(value: Expr) -> Result<Wait> {
    if is_word(&value, "forever") {
        return Ok(Wait::Forever(value.span()));
    }
    check_quotes("wait", &value, &["forever"])?;
    let written = value.clone();
    match time("wait", value) {
        Ok(limit) => Ok(Wait::AtMost(limit)),
        Err(problem) => Err(Error::new_spanned(
            written,
            format!("{problem}, or the word `forever`"),
        )),
    }
}

pub(super) fn on_busy(value: Expr) -> Result<OnBusy> {
    check_quotes("on_busy", &value, &["skip", "error"])?;
    Ok(match value {
        value if is_word(&value, "error") => OnBusy::Error,
        value if is_word(&value, "skip") => OnBusy::Skip,
        Expr::Closure(_) => OnBusy::Closure(value),
        value => OnBusy::Value(value),
    })
}

pub(super) fn on_lost(value: &Expr) -> Result<OnLost> {
    check_quotes("on_lost", value, &["cancel", "continue"])?;
    match value {
        value if is_word(value, "cancel") => Ok(OnLost::Cancel),
        Expr::Continue(ExprContinue { label: None, .. }) => Ok(OnLost::Continue(value.span())),
        value => Err(Error::new_spanned(
            value,
            "`on_lost` is `cancel`, to stop the body when its lease is lost, or `continue`, to let it run on",
        )),
    }
}

pub(super) fn flag(argument: &str, value: Expr) -> Result<Expr> {
    check_quotes(argument, &value, &["true", "false"])?;
    match value {
        Expr::Lit(literal) if !matches!(literal.lit, Lit::Bool(_)) => Err(Error::new_spanned(
            literal,
            format!("`{argument}` is `true`, `false` or an expression of the type `bool`"),
        )),
        value => Ok(value),
    }
}

pub(super) fn is_true(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) if flag.value)
}

pub(super) fn is_false(value: &Expr) -> bool {
    matches!(value, Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) if !flag.value)
}

pub(super) fn lease(value: Expr) -> Result<Ident> {
    if let Some(text) = text(&value)
        && let Ok(name) = text.parse::<Ident>()
    {
        return Err(quoted("lease", text.span(), &name));
    }
    // Parsing it as a name once more tells names from keywords, such as `self`.
    syn::parse2(value.to_token_stream()).map_err(|_| {
        Error::new_spanned(
            value,
            "`lease` is the name that the body uses for its lease, as in `lease = lease`",
        )
    })
}

pub(super) fn manager(value: Expr) -> Result<Expr> {
    match value {
        Expr::Lit(literal) => Err(Error::new_spanned(
            literal,
            "`manager` is an expression for a `LockManager`, written without quotes, as in `manager = self.locks`",
        )),
        value => Ok(value),
    }
}

pub(super) fn name(value: Expr) -> Result<LitStr> {
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

pub(super) fn krate(value: Expr) -> Result<Path> {
    if let Some(text) = text(&value)
        && let Ok(path) = text.parse::<Path>()
    {
        let path = path.to_token_stream().to_string().replace(' ', "");
        return Err(quoted("crate", text.span(), &path));
    }
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        value => Err(Error::new_spanned(
            value,
            "`crate` is the runtime's path, as in `crate = my_app::lock_runtime`",
        )),
    }
}

fn is_word(value: &Expr, word: &str) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident(word))
}

fn text(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// The error for one of `words` in quotes.
fn check_quotes(argument: &str, value: &Expr, words: &[&str]) -> Result<()> {
    let Some(text) = text(value) else {
        return Ok(());
    };
    match words.iter().find(|word| text.value() == **word) {
        Some(word) => Err(quoted(argument, text.span(), word)),
        None => Ok(()),
    }
}

fn quoted(argument: &str, at: Span, word: &impl std::fmt::Display) -> Error {
    Error::new(
        at,
        format!("`{word}` is written without quotes: `{argument} = {word}`"),
    )
}
