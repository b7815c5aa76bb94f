//! Runs the attribute on random arguments and items.
//!
//! Nothing makes it panic; what it refuses comes with a message and with the item as it was; and what it makes of a function
//! that parses is a function that parses.

mod dice;
#[path = "../../../lock-macros/src"]
mod product {
    pub(crate) mod args;
    pub(crate) mod duration;
    pub(crate) mod expand;
    pub(crate) mod groups;
    pub(crate) mod item;
    pub(crate) mod key;
    pub(crate) mod params;
    pub(crate) mod refused;
    pub(crate) mod returns;
    pub(crate) mod span;
}
mod soup;
mod template;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use proc_macro2::TokenStream;
use product::{args, duration, expand, groups, item, key, params, refused, returns, span};

use crate::dice::Dice;

const USAGE: &str = "usage: fuzz [--seconds N | --cases N] [--seed N]";

struct Options {
    seconds: Option<u64>,
    cases: u64,
    seed: u64,
}

fn options() -> Result<Options, lexopt::Error> {
    use lexopt::prelude::*;

    let mut options = Options {
        seconds: None,
        cases: 20_000,
        seed: 1,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => options.seconds = Some(parser.value()?.parse()?),
            Long("cases") => options.cases = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// How many cases ended which way.
#[derive(Debug, Default)]
struct Counts {
    not_tokens: u64,
    refused: u64,
    expanded: u64,
    parsed: u64,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("fuzz: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let end = options
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut counts = Counts::default();
    let mut case = options.seed.wrapping_mul(1 << 40);
    let mut done = 0;
    while end.map_or(done < options.cases, |end| Instant::now() < end) {
        if let Err(finding) = run(case, &mut counts) {
            eprintln!("fuzz: {finding}");
            return ExitCode::FAILURE;
        }
        case = case.wrapping_add(1);
        done += 1;
    }
    println!("{done} cases from seed {}: {counts:?}", options.seed);
    ExitCode::SUCCESS
}

/// One case, or what is wrong with it.
fn run(case: u64, counts: &mut Counts) -> Result<(), String> {
    let mut dice = Dice::new(case);
    let (arguments, item) = (soup::arguments(&mut dice), soup::item(&mut dice));
    let (Ok(mut arguments), Ok(mut item)) = (
        arguments.parse::<TokenStream>(),
        item.parse::<TokenStream>(),
    ) else {
        counts.not_tokens += 1;
        return Ok(());
    };
    if dice.one_in(3) {
        arguments = soup::damaged(&mut dice, arguments);
    }
    if dice.one_in(3) {
        item = soup::damaged(&mut dice, item);
    }
    let finding = |what: &str| format!("{what}\narguments: {arguments}\nitem: {item}");
    let expand = AssertUnwindSafe(|| expand::attribute(&arguments, &item));
    let Ok(output) = catch_unwind(expand) else {
        return Err(finding("it panics"));
    };
    let text = output.to_string();
    if text.contains("compile_error") {
        counts.refused += 1;
        // Names that only the attribute gives a meaning may get one in front of the body.
        let named = text.contains(":: Lease =") || text.contains("let _ = & ");
        return if text.ends_with(&item.to_string()) || named {
            Ok(())
        } else {
            Err(finding("after its errors the item is not as it was"))
        };
    }
    counts.expanded += 1;
    if syn::parse2::<syn::ImplItemFn>(item.clone()).is_ok() {
        counts.parsed += 1;
        if let Err(error) = syn::parse2::<syn::ImplItemFn>(output) {
            return Err(finding(&format!(
                "it expands to what does not parse, {error}"
            )));
        }
    }
    Ok(())
}
