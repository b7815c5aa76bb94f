//! Takes a template apart, with `format!`'s own grammar around the placeholders' values.

/// A part of a template.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    /// Text between placeholders, its braces no longer doubled.
    Text(String),
    /// What stands between braces; the spec includes its colon and may be empty.
    Place { value: &'a str, spec: &'a str },
}

/// Why a template cannot be taken apart.
#[derive(Debug)]
pub(super) struct Fault<'a> {
    pub(super) problem: String,
    /// Where: a part of the template.
    pub(super) at: &'a str,
    /// Whether `format!` refuses it for the same reason.
    pub(super) is_for_format: bool,
    /// The value of the placeholder that is at fault, if it has one.
    pub(super) value: Option<&'a str>,
    pub(super) before: Vec<Piece<'a>>,
}

impl<'a> Fault<'a> {
    /// A fault that `format!` finds as well.
    fn of_format(problem: impl Into<String>, at: &'a str, value: Option<&'a str>) -> Self {
        Self {
            problem: problem.into(),
            at,
            is_for_format: true,
            value,
            before: Vec::new(),
        }
    }

    /// A fault because a key has no list of arguments.
    fn of_keys(problem: impl Into<String>, at: &'a str) -> Self {
        Self {
            is_for_format: false,
            ..Self::of_format(problem, at, None)
        }
    }
}

pub(super) fn split(template: &str) -> Result<Vec<Piece<'_>>, Fault<'_>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(brace) = ["{{", "}}"]
            .into_iter()
            .find(|brace| rest.starts_with(brace))
        {
            text.push_str(&brace[1..]);
            rest = &rest[2..];
        } else if rest.starts_with('}') {
            return Err(Fault {
                before: pieces,
                ..Fault::of_format(
                    "a `}` without its `{`: write `}}` for a brace in the key",
                    &rest[..1],
                    None,
                )
            });
        } else {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            match place(rest) {
                Ok((piece, after)) => {
                    pieces.push(piece);
                    rest = after;
                }
                Err(fault) => {
                    return Err(Fault {
                        before: pieces,
                        ..fault
                    });
                }
            }
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Reads a placeholder from its `{`, and gives what follows its `}`.
fn place(from: &str) -> Result<(Piece<'_>, &str), Fault<'_>> {
    let text = &from[1..];
    let unclosed = |value| {
        let problem = "a `{` without its `}`: write `{{` for a brace in the key";
        Fault::of_format(problem, &from[..1], value)
    };
    let Some(end) = value_end(text) else {
        let value = text.trim();
        return Err(unclosed((!value.is_empty()).then_some(value)));
    };
    let (value, rest) = (text[..end].trim(), &text[end..]);
    let Some(spec_end) = spec_end(rest) else {
        return Err(unclosed(Some(value)));
    };
    let spec = rest[..spec_end].trim_end();
    let shown = &from[..end + spec_end + 2];
    if value.is_empty() {
        return Err(Fault::of_keys(
            format!("`{shown}` names nothing: write a parameter, as in `{{id}}`"),
            shown,
        ));
    }
    if value.chars().all(|c| c.is_ascii_digit()) {
        return Err(Fault::of_keys(
            format!(
                "`{shown}` is a position, and a key has no list of arguments: write a parameter's name"
            ),
            shown,
        ));
    }
    if value == "_" {
        return Err(Fault::of_keys(
            "`{_}` has no value: give the parameter a name",
            shown,
        ));
    }
    if let Some(spec) = spec.strip_prefix(':') {
        check_spec(spec).map_err(|problem| Fault {
            is_for_format: problem.is_for_format,
            ..Fault::of_format(format!("`{shown}`: {}", problem.text), shown, Some(value))
        })?;
    }
    Ok((Piece::Place { value, spec }, &rest[spec_end + 1..]))
}

/// Where the value of a placeholder ends: at a brace or a single colon outside brackets and strings.
fn value_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if in_string => drop(characters.next()),
            '"' => in_string = !in_string,
            _ if in_string => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' => return None,
            '}' if depth == 0 => return Some(at),
            ':' if depth == 0 && !continues_path(&text[at..]) => return Some(at),
            ':' if depth == 0 => drop(characters.next()),
            _ => {}
        }
    }
    None
}

/// Whether the text begins with the `::` of a path, and not with the `:` of a spec whose fill is a colon.
fn continues_path(text: &str) -> bool {
    let next = text.strip_prefix("::").and_then(|rest| rest.chars().next());
    next.is_some_and(|next| next == '_' || next.is_alphabetic())
}

/// Where the spec ends, given the text from its colon (or from the `}` when there is none). A fill may be a brace.
fn spec_end(text: &str) -> Option<usize> {
    let mut characters = text.chars();
    let fill = match (characters.next(), characters.next(), characters.next()) {
        (Some(':'), Some(fill), Some('<' | '^' | '>')) => 1 + fill.len_utf8(),
        _ => 0,
    };
    text[fill..].find('}').map(|at| at + fill)
}

/// What is wrong with a spec.
struct BadSpec {
    text: String,
    is_for_format: bool,
}

impl BadSpec {
    fn of_keys(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_for_format: false,
        }
    }
}

/// `[[fill]align][sign]['#']['0'][width]['.' precision][type]`, without what takes a value from a list of arguments.
fn check_spec(spec: &str) -> Result<(), BadSpec> {
    let mut rest = spec;
    let mut characters = spec.chars();
    match (characters.next(), characters.next()) {
        (Some(fill), Some('<' | '^' | '>')) => rest = &spec[fill.len_utf8() + 1..],
        (Some('<' | '^' | '>'), _) => rest = &spec[1..],
        _ => {}
    }
    rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest = rest.strip_prefix('#').unwrap_or(rest);
    if !rest.starts_with("0$") {
        rest = rest.strip_prefix('0').unwrap_or(rest);
    }
    rest = after_count(rest)?;
    if let Some(precision) = rest.strip_prefix('.') {
        if precision.starts_with('*') {
            return Err(BadSpec::of_keys(
                "`.*` takes a value from a list of arguments, and a key has none: write a number",
            ));
        }
        let after = after_count(precision)?;
        if after.len() == precision.len() {
            return Err(BadSpec::of_keys("a number must follow the `.`"));
        }
        rest = after;
    }
    match rest {
        "" | "?" | "x?" | "X?" | "x" | "X" | "o" | "b" | "p" | "e" | "E" => Ok(()),
        unknown => Err(BadSpec {
            text: format!("`{unknown}` is not a format that `format!` knows"),
            is_for_format: true,
        }),
    }
}

/// Skips a width or precision: a number, or a name with `$`.
fn after_count(text: &str) -> Result<&str, BadSpec> {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() < text.len() {
        if digits.starts_with('$') {
            return Err(BadSpec::of_keys(
                "`$` after a number takes a value from a list of arguments, and a key has none",
            ));
        }
        return Ok(digits);
    }
    let name = text.trim_start_matches(|c: char| c == '_' || c.is_alphanumeric());
    match name.strip_prefix('$') {
        Some(after) if name.len() < text.len() => Ok(after),
        _ => Ok(text),
    }
}
