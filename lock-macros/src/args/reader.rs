//! Reads one argument after the other, and goes on after a mistake.

use proc_macro2::{Delimiter, Group, Span, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitStr, Result, Token};

use super::{ARGUMENTS, Args, Argument, Draft, Mistakes, names, together, unknown};
use crate::duration;
use crate::key::{Keys, peel};

#[derive(Default)]
pub(super) struct Reader {
    draft: Draft,
    seen: Vec<Ident>,
    /// What arguments with a wrong name were probably meant to be: those are not missing too.
    meant: Vec<&'static str>,
    errors: Option<Error>,
}

impl Reader {
    pub(super) fn read_all(&mut self, input: ParseStream<'_>) {
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
                    // It ends what was skipped, and no argument is missing before it.
                    input.parse::<Option<Token![,]>>().ok();
                }
            }
        }
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(self.nameless(input));
        }
        let name = input.call(Ident::parse_any)?;
        let Some(argument) = ARGUMENTS.iter().find(|known| name == known.name) else {
            self.report(self.no_such(&name));
            self.meant
                .extend(unknown::meant(&name.to_string(), names()));
            skip_to_comma(input);
            return Ok(());
        };
        self.note(&name)?;
        let equals = equals(&name, argument, input)?;
        let unfinished = || needs_value(quote!(#name #equals), argument);
        if input.is_empty() || input.peek(Token![,]) {
            return Err(unfinished());
        }
        let value: Expr = input.parse().map_err(|error| {
            if input.is_empty() {
                unfinished()
            } else {
                error
            }
        })?;
        (argument.read)(&mut self.draft, peel(value))
    }

    /// The error for what does not begin with a name.
    fn nameless(&mut self, input: ParseStream<'_>) -> Error {
        let text = input.fork().parse::<LitStr>().ok();
        let text = text.and_then(|text| Some((self.meant_by(&text)?, text.token())));
        let Some((name, text)) = text else {
            return input.error(format!(
                "arguments are written `name = value`, and the names are {}",
                listed()
            ));
        };
        self.meant.push(name);
        input.error(format!(
            "the name of this argument is missing: write `{name} = {text}`"
        ))
    }

    /// What text without a name probably is: the key comes to mind first, then the time.
    fn meant_by(&self, text: &LitStr) -> Option<&'static str> {
        if self.is_missing("key") && self.is_missing("keys") {
            Some("key")
        } else {
            let is_time = self.is_missing("ttl") && duration::parse(&text.value()).is_ok();
            is_time.then_some("ttl")
        }
    }

    fn no_such(&self, name: &Ident) -> Error {
        let meant = unknown::meant(&name.to_string(), names()).filter(|meant| !self.has(meant));
        let advice = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the arguments are {}", listed()),
        };
        Error::new(
            name.span(),
            format!("there is no argument `{name}`: {advice}"),
        )
    }

    /// Remembers an argument that was written, unless it may not stand next to one before it.
    fn note(&mut self, name: &Ident) -> Result<()> {
        if self.has(&name.to_string()) {
            return Err(Error::new(
                name.span(),
                format!("`{name}` is written twice: keep one of the two"),
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

    fn is_missing(&self, name: &str) -> bool {
        !self.has(name) && !self.meant.contains(&name)
    }

    pub(super) fn report(&mut self, error: Error) {
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
    }

    /// `whole` is where what is missing is reported.
    pub(super) fn finish(mut self, whole: Span) -> std::result::Result<Args, Mistakes> {
        if self.is_missing("key") && self.is_missing("keys") {
            self.report(Error::new(
                whole,
                "missing `key`: say what is locked, as in `key = \"order:{id}\"`",
            ));
        }
        if self.is_missing("ttl") {
            self.report(Error::new(
                whole,
                "missing `ttl`: say how long the lock lives if its holder dies, as in `ttl = \"30s\"`",
            ));
        }
        for error in together::check(self.draft.ttl.as_ref(), &self.draft.options, &self.seen) {
            self.report(error);
        }
        if self.errors.is_some()
            && let Some(faults) = self.draft.keys.as_ref().and_then(Keys::faults)
        {
            self.report(faults);
        }
        let Draft { keys, ttl, options } = self.draft;
        match (self.errors, keys, ttl) {
            (None, Some(keys), Some(ttl)) => Ok(Args { keys, ttl, options }),
            (errors, ..) => Err(Mistakes {
                errors: errors.unwrap_or_else(|| Error::new(whole, "`key` and `ttl` are required")),
                lease: options.lease,
                krate: options.krate,
            }),
        }
    }
}

fn equals(name: &Ident, argument: &Argument, input: ParseStream<'_>) -> Result<Token![=]> {
    if input.peek(Token![=]) && !input.peek(Token![==]) && !input.peek(Token![=>]) {
        return input.parse();
    }
    match input.fork().parse::<TokenTree>() {
        Ok(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            Err(in_parentheses(name, &group, argument))
        }
        Ok(TokenTree::Punct(punct)) if punct.as_char() != ',' => Err(Error::new(
            punct.span(),
            format!(
                "a value comes after `=`, as in `{} = {}`",
                argument.name, argument.example
            ),
        )),
        _ => Err(needs_value(name.to_token_stream(), argument)),
    }
}

fn in_parentheses(name: &Ident, group: &Group, argument: &Argument) -> Error {
    let value = match group.stream().to_string() {
        value if value.is_empty() || value.len() > 40 => argument.example.to_owned(),
        value => value,
    };
    Error::new_spanned(
        quote!(#name #group),
        format!("a value comes after `=`: write `{name} = {value}`"),
    )
}

fn needs_value(written: impl ToTokens, argument: &Argument) -> Error {
    let Argument { name, example, .. } = argument;
    Error::new_spanned(
        written,
        format!("`{name}` needs a value, as in `{name} = {example}`"),
    )
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) && input.parse::<TokenTree>().is_ok() {}
}

fn listed() -> String {
    let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
