//! Asking a server what a check wants to know, over a connection that locks use too: with short commands, each of which leaves
//! everything as it is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use std::time::Instant;

use super::address::Address;
use super::facts::{Facts, Found, Info, Missing, Reading, Sentinels, Server, Transport};
use super::link::Link;
use super::listening::Subscriptions;
use super::pool::Slot;
use super::script::NOTHING;
use super::sentinel::Group;
use super::target::{Place, Target};
use super::trouble::Trouble;
use super::words::words;
use super::{Limit, NodeError, sibling};

/// How often it is asked for a sign of life, to see how long that takes.
const PINGS: usize = 5;

/// A server, as it is found now.
pub(super) async fn examine(slot: &Slot, target: &Target, limit: &Limit) -> Server {
    let found = match ask(slot, target, limit).await {
        Ok(facts) => Found::Facts(Box::new(facts)),
        Err(trouble) => Found::Trouble(trouble),
    };
    Server {
        name: Arc::clone(&target.name),
        found,
    }
}

/// The answer to a command, or what the server has against it.
type Answer = Result<Value, Arc<str>>;

async fn ask(slot: &Slot, target: &Target, limit: &Limit) -> Result<Facts, Trouble> {
    let link = &*slot.known(limit).await?;
    link.mandate()?;
    let mut round_trips = [Duration::ZERO; PINGS];
    let mut ping = Ok(Value::Nil);
    for round_trip in &mut round_trips {
        (ping, *round_trip) = ask_one(link, &redis::cmd("PING"), limit).await?;
    }
    round_trips.sort_unstable();

    let (info, taken) = ask_one(link, &redis::cmd("INFO"), limit).await?;
    let info = read::<String>(info).map(|info| Info::read(&info));
    let mut clock = info.as_ref().ok().and_then(|info| info.time);
    let mut read_at = (Instant::now(), taken);
    if clock.is_none() {
        let (time, taken) = ask_one(link, &redis::cmd("TIME"), limit).await?;
        clock = read(time).ok().map(since_1970);
        read_at = (Instant::now(), taken);
    }
    let clock = clock.map(|said| Reading {
        at: read_at.0.checked_sub(read_at.1 / 2).unwrap_or(read_at.0),
        said,
        uncertain: read_at.1 / 2,
    });

    let mut settings = redis::pipe();
    for name in ["appendfsync", "save"] {
        settings.cmd("CONFIG").arg("GET").arg(name);
    }
    let settings = answers(link, &settings, limit).await?;
    let mut settings = settings.into_iter().map(|answer| {
        let found = read::<HashMap<String, String>>(answer)?;
        Ok(found.into_values().next().unwrap_or_default())
    });
    let unasked = || Err("it was not asked".into());
    let appendfsync = settings.next().unwrap_or_else(unasked);
    let save = settings.next().unwrap_or_else(unasked);

    let mut probing = Probing::new(link, target, limit);
    probing.note("ping", None, &ping);
    probing.commands().await?;
    probing.subscriptions().await?;
    Ok(Facts {
        round_trip: round_trips[PINGS / 2],
        standing: link.ask_standing(target, limit).await?,
        transport: transport(target),
        waits_for: target.replicas,
        sentinels: slot.group.as_ref().and_then(sentinels),
        info,
        appendfsync,
        save,
        clock,
        missing: probing.missing,
        refuses_writes: probing.refuses_writes,
        is_deaf: probing.is_deaf,
    })
}

/// Where its sentinels know of more of them than are configured.
fn sentinels(group: &Group) -> Option<Sentinels> {
    let named = group.sentinels();
    let known = group.known().filter(|known| *known > named)?;
    Some(Sentinels { named, known })
}

async fn answers(
    link: &Link,
    commands: &Pipeline,
    limit: &Limit,
) -> Result<Vec<Answer>, NodeError> {
    let answers = link.send_each(commands, limit).await?.into_iter();
    Ok(answers
        .map(|answer| answer.map_err(NodeError::into_words))
        .collect())
}

async fn ask_one(
    link: &Link,
    command: &Cmd,
    limit: &Limit,
) -> Result<(Answer, Duration), NodeError> {
    let mut alone = Pipeline::new();
    alone.add_command(command.clone());
    let asked = Instant::now();
    let answer = answers(link, &alone, limit).await?.pop();
    let answer = answer.unwrap_or_else(|| Err("no answer".into()));
    Ok((answer, asked.elapsed()))
}

fn read<T: FromRedisValue>(answer: Answer) -> Result<T, Arc<str>> {
    redis::from_redis_value(answer?).map_err(|_| "an answer that Redis does not give".into())
}

/// From the answer to `TIME`, which may be anything where that is no Redis.
fn since_1970((seconds, micros): (u64, u32)) -> Duration {
    Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros.into()))
}

fn transport(target: &Target) -> Transport {
    if target.tls.is_some() {
        return Transport::Tls;
    }
    let is_local = |address: &Address| match address {
        Address::Unix(_) => true,
        Address::Tcp(host, _) => {
            let address = host.parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
    };
    let local = match &target.place {
        Place::Server(address) => is_local(address),
        // Its servers are where they are.
        Place::Sentinels(sentinels) => sentinels.hosts.iter().all(is_local),
        Place::Cluster(hosts) => hosts.iter().all(is_local),
    };
    if local {
        Transport::Local
    } else {
        Transport::Plain
    }
}

/// What the server has against what locks need. It has its say before a command is carried out, so these change nothing: their
/// keys are never written, and nobody listens to their channels.
struct Probing<'a> {
    link: &'a Link,
    target: &'a Target,
    limit: &'a Limit,
    missing: Vec<Missing>,
    refuses_writes: Option<Arc<str>>,
    is_deaf: Option<Arc<str>>,
}

impl<'a> Probing<'a> {
    fn new(link: &'a Link, target: &'a Target, limit: &'a Limit) -> Self {
        Self {
            link,
            target,
            limit,
            missing: Vec::new(),
            refuses_writes: None,
            is_deaf: link.hears.as_ref().err().map(Arc::clone),
        }
    }

    async fn commands(&mut self) -> Result<(), NodeError> {
        let lock = self.target.probe();
        let fence = sibling::fence(&lock);
        let channels = self.target.channels();
        let mut commands = redis::pipe();
        let mut asked = Vec::new();
        let mut ask = |command: &'static str, on: Option<(char, &str)>, arguments: &[&str]| {
            let mut words = command.split('|').map(str::to_uppercase);
            let first = commands.cmd(&words.next().unwrap_or_default());
            for argument in words {
                first.arg(argument);
            }
            first.arg(arguments);
            asked.push((
                command,
                on.map(|(sign, name)| self.target.pattern(sign, name)),
            ));
        };
        for key in [&*lock, &*fence] {
            let on = Some(('~', key));
            ask("get", on, &[key]);
            // There is no such key, so nothing is set.
            ask("set", on, &[key, "", "XX", "PX", "1"]);
        }
        let on = Some(('~', &*lock));
        ask("del", on, &[&lock]);
        ask("pttl", on, &[&lock]);
        ask("pexpire", on, &[&lock, "1"]);
        ask("eval", on, &[NOTHING.source, "1", &lock]);
        ask("evalsha", on, &[NOTHING.hash(), "1", &lock]);
        ask("script|load", None, &[NOTHING.source]);
        for channel in &channels {
            ask("publish", Some(('&', channel)), &[channel, ""]);
        }
        if self.target.replicas > 0 {
            ask("wait", None, &["0", "1"]);
        }
        if self.target.member.is_some() {
            ask("cluster|info", None, &[]);
            ask("pubsub|numsub", None, &[]);
            // It is about the next command over the connection, which must not be anybody else's.
            ask("asking", None, &[]);
            ask("ping", None, &[]);
        }
        let answers = answers(self.link, &commands, self.limit).await?;
        for ((command, pattern), answer) in asked.into_iter().zip(answers) {
            let is_missing = self.note(command, pattern, &answer);
            if let Err(reason) = answer
                && command == "set"
                && !is_missing
                && !is_sent_elsewhere(&reason)
            {
                self.refuses_writes.get_or_insert(reason);
            }
        }
        Ok(())
    }

    /// Begins to listen where that is possible, and ends it at once.
    async fn subscriptions(&mut self) -> Result<(), NodeError> {
        if self.is_deaf.is_some() {
            return Ok(());
        }
        for channel in self.target.channels() {
            let pattern = self.target.pattern('&', &channel);
            let names = [Arc::from(channel)];
            // Both are sent before either is answered: what was begun is ended also where the answer does not come in time.
            let both = join(self.link.subscribe(&names), self.link.unsubscribe(&names));
            let both = pin!(async { Ok(both.await) });
            let (began, ended) = self.link.answered(both, self.limit).await?;
            for (command, answer) in [("subscribe", began), ("unsubscribe", ended)] {
                let answer = answer.map(|()| Value::Nil).map_err(|error| words(&error));
                self.note(command, Some(pattern.clone()), &answer);
                if let Err(reason) = answer {
                    self.is_deaf.get_or_insert(reason);
                }
            }
        }
        Ok(())
    }

    /// Takes note of what a command lacks, or the names that it is about. Whether it lacks anything.
    fn note(&mut self, command: &str, pattern: Option<String>, answer: &Answer) -> bool {
        let Some(missing) = answer
            .as_ref()
            .err()
            .and_then(|reason| missing(reason, command, pattern))
        else {
            return false;
        };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
        true
    }
}

/// Its slots have changed since it was asked which it has.
fn is_sent_elsewhere(reason: &str) -> bool {
    ["MOVED ", "ASK ", "TRYAGAIN "]
        .iter()
        .any(|word| reason.starts_with(word))
}

/// What a server misses that refuses a command in these words.
fn missing(reason: &str, command: &str, pattern: Option<String>) -> Option<Missing> {
    if reason.starts_with("ERR unknown command") || reason.starts_with("ERR unknown subcommand") {
        return Some(Missing::Command(command.into()));
    }
    let refused = reason.strip_prefix("NOPERM")?;
    let names_command = refused.contains("command");
    let permission = pattern.filter(|_| !names_command);
    Some(Missing::Permission(
        permission.unwrap_or_else(|| ["+", command].concat()).into(),
    ))
}

impl Target {
    /// As a rule of the server permits this name and all that are like it.
    fn pattern(&self, sign: char, name: &str) -> String {
        let prefix = self.prefix();
        let tag = if name.starts_with(prefix) { "" } else { "{" };
        format!("{sign}{tag}{}*", literally(prefix))
    }
}

/// As patterns of a server write what is no pattern.
fn literally(name: &str) -> String {
    let is_special = |letter: &char| "*?[]^\\".contains(*letter);
    let mut written = String::with_capacity(name.len());
    for letter in name.chars() {
        if is_special(&letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_whatever_it_is() {
        assert_eq!(since_1970((7, 5)), Duration::from_micros(7_000_005));
        assert_eq!(since_1970((u64::MAX, u32::MAX)), Duration::MAX);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literally("shop:{eu}"), "shop:{eu}");
        assert_eq!(literally(r"a*b?[c]\"), r"a\*b\?\[c\]\\");
    }

    /// In the words of Redis 6.2, 7.0 and 7.4.
    #[test]
    fn what_is_missing_is_named_as_a_rule_names_it() {
        let permission = |rule: &str| Some(Missing::Permission(rule.into()));
        for (reason, expected) in [
            (
                "NOPERM this user has no permissions to run the 'set' command or its subcommand",
                permission("+set"),
            ),
            (
                "NOPERM User locks has no permissions to run the 'set' command",
                permission("+set"),
            ),
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                permission("~shop:*"),
            ),
            (
                "NOPERM No permissions to access a key",
                permission("~shop:*"),
            ),
            (
                "ERR unknown command 'SET'",
                Some(Missing::Command("set".into())),
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                None,
            ),
        ] {
            let found = missing(reason, "set", Some("~shop:*".to_owned()));
            assert_eq!(found, expected, "{reason}");
        }
    }
}
