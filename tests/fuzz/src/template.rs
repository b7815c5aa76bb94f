//! Templates, each with the `format!` that it has to render like.

use crate::dice::Dice;

/// A template, as the source of a string literal, and the same as a call of `format!`.
pub(crate) struct Template {
    pub(crate) literal: String,
    /// For `build.rs`.
    #[allow(dead_code)]
    pub(crate) format: String,
}

/// What can stand in a placeholder, and the expression for it.
const NUMBERS: &[(&str, &str)] = &[
    ("id", "id"),
    (" id ", "id"),
    ("type", "r#type"),
    ("r#type", "r#type"),
    ("LIMIT", "LIMIT"),
    ("Shop::LIMIT", "Shop::LIMIT"),
    ("Self::LIMIT", "Self::LIMIT"),
    ("self.count", "self.count"),
    ("order.id", "order.id"),
    ("order . id", "order.id"),
    ("order.id()", "order.id()"),
    ("order.pair.1.0", "order.pair.1.0"),
    ("order.list[0]", "order.list[0]"),
    ("order.list[at]", "order.list[at]"),
    ("order.r#type", "order.r#type"),
    ("order.map[\"a:}b\"]", "order.map[\"a:}b\"]"),
    ("any", "any"),
];

const TEXTS: &[(&str, &str)] = &[
    ("name", "name"),
    ("self.region", "self.region"),
    ("order.tags[0]", "order.tags[0]"),
    ("order.first()", "order.first()"),
    ("order.first().len()", "order.first().len()"),
];

const FILLS: &str = "*-0é {}<>^:\"_+#.$x?語";
const LITERALS: &str = "abz09 :/._-+#\"'\\é語\u{200d}$?*()[]<>@";

/// One that `format!` understands, so the attribute has to.
pub(crate) fn well_formed(dice: &mut Dice) -> Template {
    let mut text = "k".to_owned();
    let mut plain = "k".to_owned();
    let mut arguments = String::new();
    for count in 0..=dice.below(5) {
        for part in [literal(dice), brace(dice)] {
            text.push_str(&part);
            plain.push_str(&part);
        }
        let numeric = !dice.one_in(3);
        let (value, expression) = if numeric {
            NUMBERS[dice.below(NUMBERS.len())]
        } else {
            TEXTS[dice.below(TEXTS.len())]
        };
        let spec = spec(dice, numeric && value != "order.first().len()");
        text.extend(["{", value, &spec, "}"]);
        plain.extend(["{", &count.to_string(), &spec, "}"]);
        arguments.push_str(", ");
        arguments.push_str(expression);
    }
    Template {
        literal: source(dice, &text),
        format: format!("format!({plain:?}{arguments})"),
    }
}

/// One whose specs are made at random: where the attribute takes it, `format!` has to take it too.
pub(crate) fn wild(dice: &mut Dice) -> Template {
    let mut text = "k".to_owned();
    for _ in 0..=dice.below(2) {
        text.push_str(&literal(dice));
        text.push_str(&brace(dice));
        let mut spec = dice.text("<^>+-#0123456789.*?xXobeEp wé{}:$", 6);
        if spec.contains('{') {
            // It could become a name, and of those only a few are parameters.
            spec.retain(|c| !c.is_alphabetic());
        }
        if spec.matches(|c: char| c.is_ascii_digit()).count() > 2 {
            // A wider key than a key may be.
            spec.clear();
        }
        let spec = match spec.split_once('$') {
            // Any other name before a `$` would have to be a parameter.
            Some((before, after)) => {
                let before = before.trim_end_matches(char::is_alphanumeric);
                let count = dice.pick(&["width$", ".width$", "3$"]);
                [before, count, &after.replace('$', "")].concat()
            }
            None => spec,
        };
        // Two colons would be a path, of which `format!` knows nothing.
        let spec = spec.trim_start_matches(':');
        text.extend(["{any:", spec, "}"]);
        if dice.one_in(4) {
            text.push_str(&dice.text("{}:", 3));
        }
    }
    Template {
        literal: source(dice, &text),
        format: format!("format!({text:?})"),
    }
}

fn literal(dice: &mut Dice) -> String {
    dice.text(LITERALS, 4)
}

fn brace(dice: &mut Dice) -> String {
    dice.pick(&["", "", "", "{{", "}}", "{{}}", "}}{{"])
        .to_owned()
}

fn spec(dice: &mut Dice, numeric: bool) -> String {
    if dice.one_in(3) {
        return dice.pick(&["", ":?"]).to_owned();
    }
    let mut spec = ":".to_owned();
    if dice.one_in(2) {
        if dice.one_in(2) {
            let fills: Vec<char> = FILLS.chars().collect();
            spec.push(fills[dice.below(fills.len())]);
        }
        spec.push_str(dice.pick(&["<", "^", ">"]));
    }
    spec.push_str(dice.pick(&["", "", "+", "-"]));
    let alternate = dice.one_in(4);
    spec.push_str(if alternate { "#" } else { "" });
    spec.push_str(dice.pick(&["", "", "0"]));
    spec.push_str(dice.pick(&["", "5", "12", "width$"]));
    spec.push_str(dice.pick(&["", "", ".3", ".width$"]));
    spec.push_str(if numeric {
        dice.pick(&["", "", "?", "x", "X", "o", "b", "e", "E", "x?", "X?"])
    } else {
        dice.pick(&["", "", "?"])
    });
    spec.push_str(dice.pick(&["", "", " "]));
    // A `}` that an alignment follows would be taken for a fill.
    if spec.trim_end() == ":" {
        String::new()
    } else {
        spec
    }
}

/// The text as a string literal, escaped or raw.
fn source(dice: &mut Dice, text: &str) -> String {
    if dice.one_in(3) {
        return format!("r####\"{text}\"####");
    }
    format!("{text:?}")
}
