//! Who the library is on a server: the README's user, who may do no more than the README says.

use super::{Options, RedisServer};
use crate::acl;
use std::collections::BTreeMap;

impl Options {
    /// There is no user but the default one, who may do everything; [`RedisServer::url`] is his.
    #[must_use]
    pub fn everything_permitted(mut self) -> Self {
        self.everything = true;
        self
    }

    /// The library may do this as well, in the words of `ACL SETUSER`, as `+config|get`.
    #[must_use]
    pub fn also_permitted(mut self, rule: &str) -> Self {
        self.more_rules.push(rule.to_owned());
        self
    }

    /// One more user, who may do what the README's may. Kept over restarts.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.arguments.extend(["--user", name].map(str::to_owned));
        self.arguments.extend(acl::permissions(acl::USER));
        self.arguments.push(format!(">{password}"));
        self
    }

    /// What tells the server of the README's user.
    pub(super) fn user_arguments(&self) -> Vec<String> {
        // A Sentinel keeps no keys, and knows few of the commands.
        if self.everything || self.sentinel.is_some() {
            return Vec::new();
        }
        let user = ["--user", acl::USER].map(str::to_owned);
        let rules = acl::rules(acl::USER);
        let more = self.more_rules.iter().cloned();
        user.into_iter().chain(rules).chain(more).collect()
    }
}

impl RedisServer {
    /// Before the `@` of the library's URL, and with it.
    pub(crate) fn login(&self) -> String {
        let options = &self.options;
        if options.password.is_some() || options.everything || options.sentinel.is_some() {
            self.default_login()
        } else {
            acl::login()
        }
    }

    /// Before the `@` of the harness's own URL, and with it; nothing where there is no password.
    pub(super) fn default_login(&self) -> String {
        let password = self.options.password.as_ref();
        password.map_or_else(String::new, |password| format!(":{password}@"))
    }

    /// What the library was refused although the README says that it needs no more.
    fn refused(&self) -> Vec<String> {
        let log: Vec<BTreeMap<String, redis::Value>> =
            self.try_command(&["ACL", "LOG"]).unwrap_or_default();
        let word = |entry: &BTreeMap<String, redis::Value>, name: &str| {
            let value = entry.get(name).cloned().unwrap_or(redis::Value::Nil);
            redis::from_redis_value::<String>(value).unwrap_or_default()
        };
        log.iter()
            .filter(|entry| word(entry, "username") == acl::USER)
            .filter(|entry| word(entry, "reason") != "auth")
            .map(|entry| format!("{} {}", word(entry, "reason"), word(entry, "object")))
            .collect()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // One that is down or stands still has nothing to say, and of a test that fails one failure is enough. Where the
        // harness did not make the user, a test may have made one of its own by that name.
        if self.options.everything || !self.is_running() || std::thread::panicking() {
            return;
        }
        let refused = self.refused();
        assert!(
            refused.is_empty(),
            "{} refused the README's user {refused:?}",
            self.name()
        );
    }
}
