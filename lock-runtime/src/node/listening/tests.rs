//! What the server is told, command by command, with answers that the tests give.

use std::collections::BTreeSet;

use futures_util::FutureExt;

use super::*;

const NAME: &str = "{shop:order:1}:released";

fn server_error(line: &str) -> RedisError {
    let answer = redis::parse_redis_value(line.as_bytes()).expect("a value");
    answer.extract_error().expect_err("an error")
}

fn not_permitted() -> RedisError {
    server_error("-NOPERM this user has no permissions to access one of the channels\r\n")
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

/// A round of nothing but subscriptions of the shape of [`NAME`].
fn subscribes(wanted: &[&str]) -> Round {
    Round {
        subscribe: [Vec::new(), names(wanted)],
        ..Round::default()
    }
}

fn unsubscribes(unwanted: &[&str]) -> Round {
    Round {
        unsubscribe: names(unwanted),
        ..Round::default()
    }
}

fn nothing() -> Round {
    Round::default()
}

impl Listening {
    fn round(&self) -> Round {
        self.state().next_round()
    }

    /// Another listener, who waits for the confirmation.
    fn another(self: &Arc<Self>, name: &str) -> Listener {
        self.join(&name.into())
    }

    /// One whom the server has confirmed.
    fn confirmed(self: &Arc<Self>, name: &str) -> Listener {
        let mut listener = self.another(name);
        assert_eq!(self.round(), subscribes(&[name]));
        assert_eq!(self.subscribed(&names(&[name]), Ok(())), Told::Done);
        assert_eq!(is_subscribed(&mut listener), Some(Ok(())));
        listener
    }
}

fn is_subscribed(listener: &mut Listener) -> Option<Result<(), Arc<str>>> {
    listener.subscribed().now_or_never()
}

fn hears(listener: &mut Listener) -> bool {
    listener.heard().now_or_never().is_some()
}

#[test]
fn a_listener_is_answered_when_the_server_has_confirmed() {
    let listening = Arc::new(Listening::default());
    let mut first = listening.another(NAME);
    let mut second = listening.another(NAME);
    assert_eq!(is_subscribed(&mut first), None);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    assert_eq!(listening.round(), nothing(), "it is on its way");
    assert_eq!(is_subscribed(&mut first), None);
    assert!(!listening.is_subscribed(NAME));
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert!(listening.is_subscribed(NAME));
    for listener in [&mut first, &mut second] {
        assert_eq!(is_subscribed(listener), Some(Ok(())));
        assert!(!hears(listener), "nothing happened since");
    }
    let mut third = listening.another(NAME);
    assert_eq!(is_subscribed(&mut third), Some(Ok(())), "at once");
    assert_eq!(listening.round(), nothing());

    drop((first, second));
    assert_eq!(listening.round(), nothing(), "there is a third");
    drop(third);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    assert_eq!(listening.unsubscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert!(listening.is_empty());
}

#[test]
fn who_gives_up_before_the_server_is_told_leaves_nothing() {
    let listening = Arc::new(Listening::default());
    drop(listening.another(NAME));
    assert!(listening.is_empty());
    assert_eq!(listening.round(), nothing());

    // While the command is on its way.
    let mut listener = listening.another(NAME);
    assert_eq!(is_subscribed(&mut listener), None);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    drop(listener);
    assert_eq!(listening.round(), nothing());
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    assert_eq!(listening.unsubscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert!(listening.is_empty());
}

#[test]
fn who_comes_while_the_subscription_is_being_ended_waits_for_the_next() {
    let listening = Arc::new(Listening::default());
    drop(listening.confirmed(NAME));
    let mut in_time = listening.another(NAME);
    assert_eq!(is_subscribed(&mut in_time), Some(Ok(())));
    assert_eq!(listening.round(), nothing(), "nothing was said");

    drop(in_time);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    let mut late = listening.another(NAME);
    assert_eq!(is_subscribed(&mut late), None);
    assert_eq!(listening.unsubscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert_eq!(is_subscribed(&mut late), None);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert_eq!(is_subscribed(&mut late), Some(Ok(())));
}

#[test]
fn a_new_connection_is_told_of_everything_and_listeners_wake() {
    let listening = Arc::new(Listening::default());
    let mut stays = listening.confirmed(NAME);
    let on_its_way = listening.another("{shop:order:2}:released");
    assert_eq!(listening.round(), subscribes(&["{shop:order:2}:released"]));
    drop(on_its_way);
    listening.lost();
    assert!(hears(&mut stays), "it broke");
    assert!(!listening.is_subscribed(NAME));
    let mut comes = listening.another(NAME);
    assert_eq!(is_subscribed(&mut comes), None);

    assert_eq!(listening.round(), subscribes(&[NAME]));
    assert!(!hears(&mut stays));
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert!(hears(&mut stays), "something may have been missed");
    assert!(!hears(&mut stays), "once");
    assert_eq!(is_subscribed(&mut comes), Some(Ok(())));
    assert!(!hears(&mut comes));

    // Nobody is left when it breaks: there is nobody to tell.
    drop((stays, comes));
    listening.lost();
    assert!(listening.is_empty());
}

#[test]
fn what_is_refused_is_asked_for_once_per_connection() {
    let listening = Arc::new(Listening::default());
    let mut waits = listening.another(NAME);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    let mut next = listening.another("{shop:order:2}:released");
    let told = listening.subscribed(&names(&[NAME]), Err(not_permitted()));
    let Told::Refused { reason, again } = told else {
        panic!("{told:?}");
    };
    assert!(reason.starts_with("NOPERM"), "{reason}");
    assert!(!again);
    assert_eq!(is_subscribed(&mut waits), Some(Err(Arc::clone(&reason))));
    assert_eq!(is_subscribed(&mut next), Some(Err(Arc::clone(&reason))));
    let mut third = listening.another("{shop:order:3}:released");
    assert_eq!(is_subscribed(&mut third), Some(Err(reason)));
    assert_eq!(listening.round(), nothing());

    // Names of the other shape may be permitted, and if not: that is not worth a second warning.
    let other = "shop:{eu}order:1:released";
    let tagged = listening.another(other);
    let round = listening.round();
    assert_eq!(round.subscribe, [names(&[other]), Vec::new()]);
    let told = listening.subscribed(&names(&[other]), Err(not_permitted()));
    assert!(
        matches!(told, Told::Refused { again: true, .. }),
        "{told:?}"
    );

    drop((next, third, tagged));
    listening.lost();
    assert_eq!(listening.round(), subscribes(&[NAME]), "tried again");
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert_eq!(is_subscribed(&mut waits), Some(Ok(())));
}

#[test]
fn where_no_subscription_can_be_ended_no_other_is_begun() {
    let listening = Arc::new(Listening::default());
    drop(listening.confirmed(NAME));
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    let told = listening.unsubscribed(&names(&[NAME]), Err(not_permitted()));
    assert!(matches!(told, Told::Refused { .. }), "{told:?}");
    assert!(listening.is_empty());
    for name in [NAME, "shop:{eu}order:1:released"] {
        let mut refused = listening.another(name);
        assert!(matches!(is_subscribed(&mut refused), Some(Err(_))));
    }
    assert_eq!(listening.round(), nothing());
}

#[test]
fn what_fails_otherwise_is_tried_again() {
    let busy = || server_error("-BUSY Redis is busy running a script.\r\n");
    let listening = Arc::new(Listening::default());
    let mut waits = listening.another(NAME);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    let told = listening.subscribed(&names(&[NAME]), Err(busy()));
    assert_eq!(told, Told::Failed);
    assert_eq!(is_subscribed(&mut waits), None);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    assert_eq!(listening.subscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert_eq!(is_subscribed(&mut waits), Some(Ok(())));

    drop(waits);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    let told = listening.unsubscribed(&names(&[NAME]), Err(busy()));
    assert_eq!(told, Told::Failed);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));

    // Whether the server has done it is not known, so nobody may rely on either.
    let told = listening.unsubscribed(&names(&[NAME]), Err(busy()));
    assert_eq!(told, Told::Failed);
    let mut comes = listening.another(NAME);
    assert_eq!(is_subscribed(&mut comes), None);
    assert_eq!(listening.round(), subscribes(&[NAME]));
    drop(comes);
    let told = listening.subscribed(&names(&[NAME]), Err(busy()));
    assert_eq!(told, Told::Failed);
    assert_eq!(listening.round(), unsubscribes(&[NAME]));
    assert_eq!(listening.unsubscribed(&names(&[NAME]), Ok(())), Told::Done);
    assert!(listening.is_empty());
}

/// Anybody who may publish can say anything.
#[test]
fn what_is_published_says_for_how_long_the_holder_had_waited() {
    let listening = Arc::new(Listening::default());
    let mut listener = listening.confirmed(NAME);
    hears(&mut listener);
    for (said, understood) in [
        ("0", 0),
        ("1250", 1_250),
        ("", 0),
        ("-3", 0),
        ("12 ms", 0),
        ("18446744073709551615", u64::MAX),
        ("99999999999999999999999", 0),
    ] {
        let data = [NAME, said].map(|text| Value::BulkString(text.into()));
        listening.hear(&PushInfo {
            kind: PushKind::Message,
            data: data.into(),
        });
        let heard = listener.heard().now_or_never();
        assert_eq!(heard, Some(Duration::from_millis(understood)), "{said}");
    }
}

#[test]
fn what_is_published_wakes_who_listens_there_and_nobody_else() {
    let push = |kind, name: &str| PushInfo {
        kind,
        data: vec![
            Value::BulkString(name.into()),
            Value::BulkString(Vec::new()),
        ],
    };
    let listening = Arc::new(Listening::default());
    let mut listener = listening.confirmed(NAME);
    let mut other = listening.confirmed("{shop:order:2}:released");
    for _ in 0..1000 {
        listening.hear(&push(PushKind::Message, NAME));
    }
    assert!(hears(&mut listener));
    assert!(!hears(&mut listener), "many are one");
    assert!(!hears(&mut other));
    for unwanted in [
        push(PushKind::Message, "{shop:order:3}:released"),
        push(PushKind::Subscribe, NAME),
        push(PushKind::Invalidate, NAME),
        PushInfo {
            kind: PushKind::Message,
            data: Vec::new(),
        },
        PushInfo {
            kind: PushKind::Message,
            data: vec![Value::BulkString(vec![0xff]), Value::Nil],
        },
    ] {
        listening.hear(&unwanted);
    }
    assert!(!hears(&mut listener));
    assert!(!hears(&mut other));
    assert_eq!(listening.state().channels.len(), 2);
}

/// Listeners come and go, and the connection breaks, at any moment between a command and its answer.
#[test]
fn a_confirmed_listener_is_subscribed_whatever_crosses() {
    const CHANNELS: [&str; 4] = [
        "{a}:released",
        "{b}:released",
        "x{c}:released",
        "x{d}:released",
    ];
    for seed in 1..500_u64 {
        let mut chance = seed;
        let mut below = |bound: usize| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(chance >> 33).expect("31 bits") % bound
        };
        let listening = Arc::new(Listening::default());
        // With the number of the connection over which they were confirmed.
        let mut listeners: Vec<(usize, Listener, Option<usize>)> = Vec::new();
        let mut connection = 0;
        let mut server = BTreeSet::new();
        // Commands that the server has executed, and whose answers are not here yet.
        let mut executed: Option<Round> = None;
        let answer = |round: Round| {
            if !round.unsubscribe.is_empty() {
                listening.unsubscribed(&round.unsubscribe, Ok(()));
            }
            for names in round.subscribe.iter().filter(|names| !names.is_empty()) {
                listening.subscribed(names, Ok(()));
            }
        };
        let execute = |round: &Round, server: &mut BTreeSet<Arc<str>>| {
            for name in &round.unsubscribe {
                assert!(server.remove(name), "it was subscribed to");
            }
            server.extend(round.subscribe.iter().flatten().cloned());
        };
        for _ in 0..200 {
            match below(9) {
                0..=2 => {
                    let channel = below(CHANNELS.len());
                    listeners.push((channel, listening.another(CHANNELS[channel]), None));
                }
                3 | 4 if !listeners.is_empty() => {
                    drop(listeners.swap_remove(below(listeners.len())));
                }
                5 | 6 if executed.is_none() => {
                    let round = listening.round();
                    execute(&round, &mut server);
                    executed = Some(round);
                }
                7 => {
                    if let Some(round) = executed.take() {
                        answer(round);
                    }
                }
                8 if below(5) == 0 => {
                    connection += 1;
                    executed = None;
                    server.clear();
                    listening.lost();
                }
                _ => {}
            }
            for (channel, listener, confirmed) in &mut listeners {
                if confirmed.is_none() && is_subscribed(listener).is_some() {
                    *confirmed = Some(connection);
                }
                if *confirmed == Some(connection) {
                    assert!(server.contains(CHANNELS[*channel]), "seed {seed}");
                }
            }
        }
        let settle = |executed: &mut Option<Round>, server: &mut BTreeSet<Arc<str>>| {
            while let Some(round) = executed.take() {
                let is_last = round == nothing();
                answer(round);
                let next = listening.round();
                if next == nothing() && is_last {
                    return;
                }
                execute(&next, server);
                *executed = Some(next);
            }
        };
        executed = executed.or(Some(nothing()));
        settle(&mut executed, &mut server);
        let wanted = listeners.iter().map(|(channel, ..)| CHANNELS[*channel]);
        let wanted: BTreeSet<_> = wanted.map(Arc::<str>::from).collect();
        assert_eq!(server, wanted, "seed {seed}");
        drop(listeners);
        executed = Some(nothing());
        settle(&mut executed, &mut server);
        assert!(server.is_empty() && listening.is_empty(), "seed {seed}");
    }
}
