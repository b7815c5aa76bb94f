#![allow(clippy::expect_used)]

use super::values::is_true;
use super::*;

fn read(text: &str) -> Result<Args> {
    Args::parse(text.parse().expect("these are tokens"), Span::call_site())
        .map_err(|mistakes| mistakes.errors)
}

fn messages(text: &str) -> Vec<String> {
    let errors = read(text).err().into_iter().flatten();
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn reads_every_argument_in_any_order() {
    let args = read(
        r#"crate = a::b, name = "n", manager = self.locks, fenced = true, lease = held, hold_at_least = "1s",
           max_hold = "1h", extend = true, on_lost = continue, on_busy = skip, wait = "2s", ttl = "3s", key = "k","#,
    )
    .expect("these are arguments");
    let options = args.options;
    assert!(matches!(args.keys, Keys::One(_)));
    assert!(matches!(args.ttl, Time::Known(ttl, _) if ttl == Duration::from_secs(3)));
    assert!(
        matches!(options.wait, Wait::AtMost(Time::Known(wait, _)) if wait == Duration::from_secs(2))
    );
    assert!(matches!(options.on_busy, OnBusy::Skip));
    assert!(matches!(options.on_lost, OnLost::Continue(_)));
    assert!(options.extend.is_some_and(|extend| is_true(&extend)));
    assert!(
        matches!(options.max_hold, Some(Time::Known(most, _)) if most == Duration::from_secs(3600))
    );
    assert!(options.lease.is_some_and(|name| name == "held"));
    assert!(options.fenced.is_some_and(|fenced| is_true(&fenced)));
    assert!(
        matches!(options.hold_at_least, Some(Time::Known(least, _)) if least == Duration::from_secs(1))
    );
    assert!(options.manager.is_some());
    assert_eq!(options.name.map(|name| name.value()).as_deref(), Some("n"));
    assert_eq!(options.krate.map(|path| path.segments.len()), Some(2));
}

#[test]
fn tells_words_from_expressions() {
    let wait = |value: &str| {
        read(&format!("key = K, ttl = TTL, wait = {value}")).map(|args| args.options.wait)
    };
    assert!(matches!(wait("forever"), Ok(Wait::Forever(_))));
    assert!(matches!(
        wait("\"0s\""),
        Ok(Wait::AtMost(Time::Known(Duration::ZERO, _)))
    ));
    assert!(matches!(
        wait("self.forever"),
        Ok(Wait::AtMost(Time::Expr(_)))
    ));

    let on_busy = |value: &str| {
        read(&format!("key = K, ttl = TTL, on_busy = {value}")).map(|args| args.options.on_busy)
    };
    assert!(matches!(on_busy("error"), Ok(OnBusy::Error)));
    assert!(matches!(on_busy("skip"), Ok(OnBusy::Skip)));
    assert!(matches!(
        on_busy("|busy| Err(busy)"),
        Ok(OnBusy::Closure(_))
    ));
    assert!(matches!(on_busy("move |_| 8"), Ok(OnBusy::Closure(_))));
    assert!(matches!(on_busy("Err(error)"), Ok(OnBusy::Value(_))));
    assert!(matches!(on_busy("self.skip"), Ok(OnBusy::Value(_))));

    let on_lost = |value: &str| {
        read(&format!("key = K, ttl = TTL, on_lost = {value}")).map(|args| args.options.on_lost)
    };
    assert!(matches!(on_lost("cancel"), Ok(OnLost::Cancel)));
    assert!(matches!(on_lost("continue"), Ok(OnLost::Continue(_))));
    for value in [
        "Cancel",
        "self.cancel",
        "\"cancel\"",
        "continue 'a",
        "break",
    ] {
        assert!(on_lost(value).is_err(), "{value}");
    }
}

#[test]
fn the_lease_is_a_name() {
    let lease = |value: &str| {
        read(&format!("key = K, ttl = TTL, lease = {value}"))
            .map(|args| args.options.lease.map(|name| name.to_string()))
            .ok()
            .flatten()
    };
    for name in ["lease", "_lease", "cancel", "r#type"] {
        assert_eq!(lease(name).as_deref(), Some(name));
    }
    for value in ["_", "self", "Self", "a::b", "&a", "\"a\"", "8", "a.b"] {
        assert_eq!(lease(value), None, "{value}");
    }
}

#[test]
fn what_contradicts_what() {
    let table = [
        (r#"ttl = "8s", max_hold = "7s999ms""#, false),
        (r#"ttl = "8s", max_hold = "0s""#, false),
        (r#"ttl = TTL, max_hold = "0s""#, false),
        (r#"ttl = "8s", max_hold = "8s""#, true),
        (r#"max_hold = "1h", ttl = "8s""#, true),
        (r#"ttl = TTL, max_hold = "1ms""#, true),
        (r#"ttl = "8s", max_hold = MOST"#, true),
        (r#"ttl = "8s", max_hold = "1h", extend = true"#, true),
        (r#"ttl = "8s", max_hold = "1h", extend = self.extend"#, true),
        (r#"ttl = "8s", max_hold = "1h", extend = false"#, false),
        (r#"ttl = "8s", extend = false, max_hold = MOST"#, false),
        (
            r#"ttl = "8s", max_hold = "1m", hold_at_least = "61s""#,
            false,
        ),
        (
            r#"ttl = "8s", max_hold = "1m", hold_at_least = "60s""#,
            true,
        ),
        (
            r#"ttl = "8s", max_hold = MOST, hold_at_least = "61s""#,
            true,
        ),
        (r#"ttl = "8s", hold_at_least = "1h""#, true),
        ("ttl = TTL, fenced = true", false),
        ("ttl = TTL, fenced = true, lease = l", true),
        ("lease = l, ttl = TTL, fenced = true", true),
        ("ttl = TTL, fenced = false", true),
        ("ttl = TTL, fenced = self.fenced", true),
    ];
    for (text, fits) in table {
        let messages = messages(&format!("key = K, {text}"));
        assert_eq!(messages.len(), usize::from(!fits), "{text}: {messages:?}");
    }
}

/// Arguments, and a part of each message.
const MISTAKES: &[(&str, &[&str])] = &[
    ("", &["missing `key`", "missing `ttl`"]),
    ("key = \"a\"", &["missing `ttl`"]),
    ("ttl = \"1s\"", &["missing `key`"]),
    ("keys = [\"a\"], ttl = \"0s\"", &["zero"]),
    ("key = \"a\", ttl = \"2ms\"", &["the shortest is 3ms"]),
    ("key = \"a\", ttl = \"3ms\"", &[]),
    ("key = \"a\", key = \"b\", ttl = \"1s\"", &["twice"]),
    ("key = \"a\", keys = [\"b\"], ttl = \"1s\"", &["exclude"]),
    ("keys = [\"b\"], key = \"a\", ttl = \"1s\"", &["exclude"]),
    (
        "key(\"a\"), ttl(8 + 1)",
        &["write `key = \"a\"`", "write `ttl = 8 + 1`"],
    ),
    ("key(), ttl = \"1s\"", &["write `key = \"order:{id}\"`"]),
    (
        "key: \"a\", ttl => \"1s\"",
        &["a value comes after `=`", "a value comes after `=`"],
    ),
    ("key = \"a\", ttl == \"1s\"", &["a value comes after `=`"]),
    ("\"a\", ttl = \"1s\"", &["write `key = \"a\"`"]),
    ("\"a\", ttl = \"1s\", key = \"b\"", &["write `key = \"a\"`"]),
    ("key = \"a\", \"1s\"", &["write `ttl = \"1s\"`"]),
    (
        "key = \"a\", \"b\"",
        &["arguments are written", "missing `ttl`"],
    ),
    (
        "key = a:b, ttl = 1s",
        &["a comma is missing", "in quotes: `ttl = \"1s\"`"],
    ),
    (
        "key = , ttl",
        &[
            "`key` needs a value, as in `key = \"",
            "`ttl` needs a value",
        ],
    ),
    (
        "key = \"a\", ttl =",
        &["`ttl` needs a value, as in `ttl = \"30s\"`"],
    ),
    ("key = \"a\", ttl = self.", &["`ttl` needs a value"]),
    ("key = \"a\" ttl = \"1s\"", &["comma"]),
    ("key = \"a\", ttl = \"1s\" 8 8", &["comma"]),
    (
        "key = \"a\", ttl = \"1s\", until = 8, wait = 8",
        &["no argument `until`", "write `wait = \"8s\"`"],
    ),
    (
        "kye = \"a\", tll = 8",
        &["did you mean `key`?", "did you mean `ttl`?"],
    ),
    ("key = \"a\", ttl = \"1s\", tll = 8", &["the arguments are"]),
    (
        "key = \"a\", ttl = \"1s\", extend, on_lost = stop, lease = 8",
        &["`extend` needs a value", "`on_lost` is", "`lease` is"],
    ),
    (
        "key = \"a\", ttl = \"1s\", extend = \"10s\", fenced = 1",
        &["`extend` is `true`", "`fenced` is `true`"],
    ),
    (
        "key = \"a\", ttl = \"1s\", wait = \"forever\", on_busy = \"skip\", on_lost = \"continue\"",
        &[
            "quotes: `wait = forever`",
            "quotes: `on_busy = skip`",
            "quotes: `on_lost = continue`",
        ],
    ),
    (
        "key = \"a\", ttl = \"1s\", extend = \"false\", lease = \"held\", crate = \"a::b\"",
        &[
            "quotes: `extend = false`",
            "quotes: `lease = held`",
            "quotes: `crate = a::b`",
        ],
    ),
    (
        "key = \"a\", ttl = \"1s\", manager = \"self.locks\"",
        &["`manager` is an expression"],
    ),
    (
        "key = \"a\", ttl = \"2s\", max_hold = \"1s\", fenced = true, wait = 8.5",
        &["without a unit", "shorter than `ttl`", "add `lease = name`"],
    ),
    (
        "key = \"a\", ttl = \"2s\", max_hold = 60, fenced = true, lease = _",
        &["write `max_hold = \"60s\"`", "`lease` is"],
    ),
    ("key = \"a\", ttl = \"1s\", ,", &["arguments are written"]),
    (
        "key = \"\", ttl = -8, name = n",
        &["empty", "without a unit", "label"],
    ),
    (
        "key = \"{a\", ttl = 8",
        &["`8` has no unit", "without its `}`"],
    ),
    ("key = \"a\", ttl = \"1s\", crate = \"8\"", &["path"]),
];

#[test]
fn one_message_for_each_mistake() {
    for (text, expected) in MISTAKES {
        let messages = messages(text);
        assert_eq!(messages.len(), expected.len(), "{text}: {messages:?}");
        for (message, part) in messages.iter().zip(*expected) {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn an_unknown_argument_is_answered_with_all_of_them() {
    let message = messages("key = \"a\", ttl = \"1s\", retries = 8").concat();
    for name in names() {
        assert!(
            message.contains(&format!("`{name}`")),
            "{name} is missing in: {message}"
        );
    }
}

#[test]
fn every_example_can_be_written() {
    for Argument { name, example, .. } in ARGUMENTS {
        let mut text = vec![format!("{name} = {example}")];
        for (required, value) in [("key", "K"), ("ttl", "TTL"), ("lease", "l")] {
            if required != *name && (required, *name) != ("key", "keys") {
                text.push(format!("{required} = {value}"));
            }
        }
        let text = text.join(", ");
        assert_eq!(messages(&text), [""; 0], "{text}");
    }
}
