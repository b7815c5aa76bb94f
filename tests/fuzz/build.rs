//! Writes a batch of templates for `tests/templates.rs`, which is compiled with both forms of each.
//!
//! `LOCK_FUZZ_SEED` says which batch: the same seed gives the same one.

#[path = "src/dice.rs"]
mod dice;
#[path = "../../lock-macros/src"]
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
#[path = "src/template.rs"]
mod template;

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use dice::Dice;
use product::{args, duration, expand, groups, item, key, params, refused, returns, span};
use template::Template;

const WELL_FORMED: usize = 300;
const WILD: usize = 100;

fn main() {
    println!("cargo::rerun-if-env-changed=LOCK_FUZZ_SEED");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=../../lock-macros/src");
    let seed = env::var("LOCK_FUZZ_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut dice = Dice::new(seed);
    let mut templates: Vec<Template> = (0..WELL_FORMED)
        .map(|_| template::well_formed(&mut dice))
        .collect();
    while templates.len() < WELL_FORMED + WILD {
        let wild = template::wild(&mut dice);
        if is_accepted(&wild.literal) {
            templates.push(wild);
        }
    }
    let output = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("templates.rs");
    fs::write(output, file(&templates)).expect("it can be written");
}

/// Next to another mistake the attribute says what is wrong with a template, and does not leave it to the compiler.
fn is_accepted(literal: &str) -> bool {
    let arguments = format!("key = {literal}, ttl = 8");
    let function = "async fn f() -> Result<(), E> {}";
    let (Ok(arguments), Ok(function)) = (arguments.parse(), function.parse()) else {
        return false;
    };
    let expanded = expand::attribute(&arguments, &function).to_string();
    expanded.matches("compile_error").count() == 1
}

fn file(templates: &[Template]) -> String {
    let mut methods = String::new();
    let mut calls = String::new();
    for (n, Template { literal, format }) in templates.iter().enumerate() {
        let _ = write!(
            methods,
            "#[distributed_lock(key = {literal}, ttl = \"8s\", lease = lease, manager = self.locks)]
            async fn template_{n}(&self, id: u64, r#type: u8, at: usize, width: usize, name: &str, any: Any, order: &Order)
            -> Result<(), LockError> {{
                assert_eq!(lease.key(), {format});
                Ok(())
            }}\n"
        );
        let _ = writeln!(
            calls,
            "shop.template_{n}(7, 8, 1, 6, \"n\\\"é\", Any(9), &order).await.expect({literal});"
        );
    }
    format!(
        "impl Shop {{\n{methods}}}\nasync fn every_template(shop: &Shop, order: Order) {{\n{calls}}}\n"
    )
}
