#![allow(clippy::panic)]

use super::*;

fn read(text: &str) -> Result<Key> {
    template(LitStr::new(text, Span::call_site()))
}

/// Each literal is compiled by `format!` too, so that the two cannot disagree about what is a template.
macro_rules! as_in_format {
    ($($literal:literal)*) => {
        $(match read($literal) {
            Ok(Key::Text(text)) => assert_eq!(text.value(), format!($literal)),
            Ok(Key::Format(literal, arguments)) => {
                assert_eq!(literal.value(), $literal, "handed on untouched");
                assert!(arguments.is_empty(), "{}", $literal);
                assert!(!format!($literal).is_empty());
            }
            Ok(Key::Refused(..) | Key::Expr(_)) => panic!("{} is a template", $literal),
            Err(error) => panic!("{}: {error}", $literal),
        })*
    };
}

#[test]
fn understands_what_format_understands() {
    let (id, name, width, r#type, नमस्ते) = (7_i32, "x", 5_usize, 1.5_f64, 8);
    as_in_format! {
        "order" "{{" "}}" "{{}}" "{{id}}" "a{{b}}c" "é{{"
        "{id}" "order:{id}" "{id}{name}" "{{{id}}}" "{id:}" "{type}" "{नमस्ते}"
        "{id:05}" "{id:+}" "{id:-}" "{id:+05}" "{id:#x}" "{id:#010b}" "{id:x?}" "{id:X?}" "{id:#?}" "{id:o}"
        "{name:?}" "{name:>8}" "{name:*<8}" "{name:^8}" "{name:é^8}" "{name:{>8}" "{name:}<8}" "{name::>8}"
        "{name:width$}" "{name:>width$}" "{name:.3}" "{name:.width$}" "{name:width$.width$}" "{name:08.3}"
        "{type:.2}" "{type:e}" "{type:E}" "{type:08.3}" "{type:+.2e}"
    }
}

#[test]
fn lowers_paths_to_positional_arguments() {
    let table: &[(&str, &str, &[&str])] = &[
        ("{order.id}", "{0}", &["order . id"]),
        ("{self.region}", "{0}", &["self . region"]),
        ("{x.0}", "{0}", &["x . 0"]),
        ("{x.0.1}", "{0}", &["x . 0 . 1"]),
        ("{req.user()}", "{0}", &["req . user ()"]),
        ("{req.user().id:05}", "{0:05}", &["req . user () . id"]),
        ("{u.tags[0]}", "{0}", &["u . tags [0]"]),
        ("{u.tags[i]:?}", "{0:?}", &["u . tags [i]"]),
        ("{map[\"a:}b\"]}", "{0}", &["map [\"a:}b\"]"]),
        ("{Self::REGION}", "{0}", &["Self :: REGION"]),
        ("{Self::REGION:>4}", "{0:>4}", &["Self :: REGION"]),
        ("{r#match}", "{0}", &["r#match"]),
        ("{a.r#type}", "{0}", &["a . r#type"]),
        (
            "{id}:{a.b}:{id:?}:{c.d}",
            "{id}:{0}:{id:?}:{1}",
            &["a . b", "c . d"],
        ),
        ("{{{a.b}}}", "{{{0}}}", &["a . b"]),
        ("{ a.b }", "{0}", &["a . b"]),
        ("{ id }", "{id}", &[]),
        ("{id: }", "{id:}", &[]),
        ("{a.b:>width$}", "{0:>width$}", &["a . b"]),
    ];
    for (text, format, expected) in table {
        match read(text) {
            Ok(Key::Format(literal, arguments)) => {
                assert_eq!(literal.value(), *format, "{text}");
                let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                assert_eq!(arguments, *expected, "{text}");
            }
            Ok(_) => panic!("{text} has placeholders"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

#[test]
fn refuses_with_the_reason() {
    let table = [
        ("", "empty"),
        (" \t\n", "empty"),
        ("{}", "names nothing"),
        ("{ }", "names nothing"),
        ("{:?}", "names nothing"),
        ("{0}", "is a position"),
        ("{12:?}", "is a position"),
        ("{_}", "has no value"),
        ("{id", "without its `}`"),
        ("{", "without its `}`"),
        ("{id:", "without its `}`"),
        ("{id:>", "without its `}`"),
        ("{a{b}}", "without its `}`"),
        ("{x[}", "without its `}`"),
        ("{m[\"k]}", "without its `}`"),
        ("}", "without its `{`"),
        ("{id}}", "without its `{`"),
        ("{id:0$}", "list of arguments"),
        ("{id:1$}", "list of arguments"),
        ("{id:.*}", "list of arguments"),
        ("{id:.1$}", "list of arguments"),
        ("{id:.}", "must follow"),
        ("{id:.e}", "must follow"),
        ("{id:5d}", "`d` is not a format"),
        ("{id:??}", "`??` is not a format"),
        ("{id:05 x}", "is not a format"),
        ("{a + b}", "a placeholder is"),
        ("{a.b(1)}", "a placeholder is"),
        ("{a.b::<u8>()}", "is not a format"),
        ("{f()}", "a placeholder is"),
        ("{a?}", "a placeholder is"),
        ("{a.await}", "a placeholder is"),
        ("{*a}", "a placeholder is"),
        ("{&a}", "a placeholder is"),
        ("{\"a\"}", "a placeholder is"),
        ("{a.}", "a placeholder is"),
        ("{a b}", "a placeholder is"),
        ("{-1}", "a placeholder is"),
        ("{a/*}", "a placeholder is"),
        ("{r##\"a\"}", "a placeholder is"),
    ];
    for (text, reason) in table {
        match read(text) {
            Ok(Key::Refused(_, error)) | Err(error) => {
                assert!(error.to_string().contains(reason), "{text}: {error}");
            }
            Ok(_) => panic!("{text} is refused"),
        }
    }
}

#[test]
fn leaves_to_format_what_it_says_inside_the_literal() {
    let table = [
        ("{id", true),
        ("{id:>", true),
        ("{", true),
        ("a:{id}:{", true),
        ("}", true),
        ("{id}}", true),
        ("{id:5d}", true),
        ("{order.id}}", false),
        ("{order.id", false),
        ("{order.id:5d}", false),
        ("{order.id}:{id:5d}", false),
        ("{}", false),
        ("{0}", false),
        ("{id:.*}", false),
        ("{id:1$}", false),
        ("{a + b}", false),
    ];
    for (text, left) in table {
        assert_eq!(matches!(read(text), Ok(Key::Refused(..))), left, "{text}");
        assert_eq!(read(text).is_err(), !left, "{text}");
    }
}

/// What the span of the literal's part is, as the compiler would underline it.
fn underlined(source: &str, text: &str, part: &str) -> Option<String> {
    let literal: LitStr = syn::parse_str(source).ok()?;
    let value = literal.value();
    assert_eq!(value, text, "the literal means");
    let at = value.find(part)?;
    literal::part(&literal, &value, &value[at..at + part.len()]).source_text()
}

#[test]
fn positions_are_inside_the_literal_where_there_is_no_escape() {
    let table = [
        (
            r#""order:{order.id}""#,
            "order:{order.id}",
            "order.id",
            "order.id",
        ),
        (
            r##"r#"order:{order.id}"#"##,
            "order:{order.id}",
            "order.id",
            "order.id",
        ),
        (
            r#""\t{order.id}""#,
            "\t{order.id}",
            "order.id",
            r#""\t{order.id}""#,
        ),
        (r#""""#, "", "", ""),
    ];
    for (source, text, part, expected) in table {
        assert_eq!(
            underlined(source, text, part).as_deref(),
            Some(expected),
            "{source}"
        );
    }
}
