#![allow(clippy::expect_used)]

use super::*;

fn read(text: &str) -> Result<Args> {
    Args::parse(text.parse().expect("these are tokens"))
}

fn messages(text: &str) -> Vec<String> {
    let errors = read(text).err().into_iter().flatten();
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn reads_every_argument_in_any_order() {
    let args = read(
        r#"crate = a::b, name = "n", manager = self.locks, fenced = true, lease = held, hold_at_least = "1s",
           max_hold = "1h", extend = false, on_lost = continue, on_busy = skip, wait = "2s", ttl = "3s", key = "k","#,
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
    assert!(options.extend.is_some_and(|extend| !is_true(&extend)));
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
fn a_hold_is_compared_with_a_ttl_where_both_are_known() {
    let table = [
        ("\"8s\"", "\"7s999ms\"", false),
        ("\"8s\"", "\"0s\"", false),
        ("\"8s\"", "\"8s\"", true),
        ("\"8s\"", "\"1h\"", true),
        ("TTL", "\"1ms\"", true),
        ("\"8s\"", "MOST", true),
    ];
    for extend in ["", ", extend = false"] {
        for (ttl, max_hold, fits) in table {
            let text = format!("max_hold = {max_hold}, key = K, ttl = {ttl}{extend}");
            assert_eq!(read(&text).is_ok(), fits, "{text}");
        }
    }
}

#[test]
fn a_token_is_asked_for_with_a_lease_to_read_it_from() {
    for (arguments, reachable) in [
        ("fenced = true", false),
        ("fenced = true, lease = l", true),
        ("lease = l, fenced = true", true),
        ("fenced = false", true),
        ("fenced = self.fenced", true),
    ] {
        let text = format!("{arguments}, key = K, ttl = TTL");
        assert_eq!(read(&text).is_ok(), reachable, "{text}");
    }
}

#[test]
fn one_message_for_each_mistake() {
    let table: &[(&str, &[&str])] = &[
        ("", &["missing `key`", "missing `ttl`"]),
        ("key = \"a\"", &["missing `ttl`"]),
        ("ttl = \"1s\"", &["missing `key`"]),
        ("keys = [\"a\"], ttl = \"0s\"", &["zero"]),
        ("key = \"a\", key = \"b\", ttl = \"1s\"", &["twice"]),
        ("key = \"a\", keys = [\"b\"], ttl = \"1s\"", &["exclude"]),
        ("keys = [\"b\"], key = \"a\", ttl = \"1s\"", &["exclude"]),
        ("key(\"a\"), ttl = \"1s\"", &["needs a value"]),
        (
            "key = , ttl",
            &["`key =` needs a value", "`ttl` needs a value"],
        ),
        ("key = \"a\", ttl =", &["`ttl =` needs a value"]),
        ("key = \"a\", ttl = self.", &["`ttl =` needs a value"]),
        ("key = \"a\" ttl = \"1s\"", &["comma"]),
        ("key = \"a\", ttl = \"1s\" 8 8", &["comma"]),
        (
            "key = \"a\", ttl = \"1s\", until = 8, wait = 8",
            &["no argument `until`", "without a unit"],
        ),
        (
            "key = \"a\", ttl = \"1s\", extend, on_lost = stop, lease = 8",
            &["`extend` needs a value", "`on_lost` is", "`lease` is"],
        ),
        (
            "key = \"a\", ttl = \"1s\", extend = \"10s\", fenced = 1",
            &["`extend` is `true`", "`fenced` is `true`"],
        ),
        (
            "key = \"a\", ttl = \"2s\", max_hold = \"1s\", fenced = true, wait = 8",
            &["without a unit", "shorter than `ttl`", "add `lease = name`"],
        ),
        (
            "key = \"a\", ttl = \"2s\", max_hold = 60, fenced = true, lease = _",
            &["`max_hold` is a number", "`lease` is"],
        ),
        ("key = \"a\", ttl = \"1s\", ,", &["arguments are written"]),
        (
            "key = \"\", ttl = 8, name = n",
            &["empty", "without a unit", "label"],
        ),
        ("key = \"a\", ttl = \"1s\", crate = \"x\"", &["path"]),
    ];
    for (text, expected) in table {
        let messages = messages(text);
        assert_eq!(messages.len(), expected.len(), "{text}: {messages:?}");
        for (message, part) in messages.iter().zip(*expected) {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn an_unknown_argument_is_answered_with_all_of_them() {
    let message = messages("key = \"a\", ttl = \"1s\", timeout = 8").concat();
    for (name, _) in ARGUMENTS {
        assert!(
            message.contains(&format!("`{name}`")),
            "{name} is missing in: {message}"
        );
    }
}
