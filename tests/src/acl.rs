//! Users of a server with the permissions that the README names, and no other.

use std::sync::LazyLock;

/// Read when the tests run, so that they are not compiled again with every sentence of it.
static README: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
});

/// Before every key in the README's examples.
const PREFIX: &str = "shop:";

/// Who the library is on the servers of these tests, by the README's line for it.
pub const USER: &str = "shop";

/// The line that the README has for a user, as it stands there: `ACL SETUSER NAME on >password …`.
pub fn line(user: &str) -> Vec<&'static str> {
    let begins = format!("ACL SETUSER {user} ");
    let line = README.lines().find(|line| line.starts_with(&begins));
    let line = line.unwrap_or_else(|| panic!("the README has no line that begins with {begins:?}"));
    line.split(' ').collect()
}

/// What the README's line says of a user, for keys that have no prefix: his keys and channels are all that there are, and
/// his commands are those of the line. `ACL SETUSER` takes it behind a name.
pub fn rules(user: &str) -> Vec<String> {
    let words = line(user);
    let anywhere = words.iter().skip(3).map(|word| {
        let pattern = word.strip_suffix('*').and_then(|w| w.strip_suffix(PREFIX));
        match pattern.map(|sort| sort.trim_end_matches('{')) {
            Some(sort) => format!("{sort}*"),
            None => (*word).to_owned(),
        }
    });
    let mut rules: Vec<String> = Vec::new();
    for rule in anywhere {
        // A pattern after one that matches everything is an error.
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// The same without a password of its own: whoever may do what the README's user may.
pub fn permissions(user: &str) -> Vec<String> {
    let mut rules = rules(user);
    rules.retain(|rule| !rule.starts_with('>'));
    rules
}

/// With what the README's user logs in.
pub fn password(user: &str) -> &'static str {
    let words = line(user);
    let password = words.iter().find_map(|word| word.strip_prefix('>'));
    password.expect("the README's line has a password")
}

/// What a URL has before its hosts, so that the library logs in as [`USER`].
pub fn login() -> String {
    format!("{USER}:{}@", password(USER))
}
