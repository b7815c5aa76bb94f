use super::*;

const MAX_TTL: Duration = Duration::from_secs(60);

/// For a server by itself.
const RULE: Rule = Rule {
    max_ttl: Some(MAX_TTL),
    in_group: false,
};

const IN_GROUP: Rule = Rule {
    in_group: true,
    ..RULE
};

const NO_RULE: Rule = Rule {
    max_ttl: None,
    in_group: true,
};

fn info(uptime: u64) -> String {
    format!("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:{uptime}\r\n")
}

/// Of an old server.
fn promoted(life: &str) -> String {
    format!(
        "{}master_replid:{life}\r\nmaster_replid2:d1\r\n",
        info(1_000_000)
    )
}

fn remembers(life: &str) -> Value {
    Value::BulkString(life.into())
}

fn memory(remembered: &Value) -> Memory {
    Memory {
        voted_in: remembered.clone(),
        met_in: Value::Nil,
        met_left: Value::Int(-2),
    }
}

fn first_met(info: &str, remembered: &Value, rule: Rule) -> Life {
    Life::new(info, &memory(remembered), rule, &mut Met::default())
}

fn votes(info: &str, remembered: &Value, rule: Rule) -> bool {
    first_met(info, remembered, rule).votes().is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_young_server_votes_once_it_is_older_than_the_longest_lease() {
    let life = first_met(&info(12), &remembers("its last life"), RULE);
    assert_eq!(
        life.votes(),
        Err(NodeError::Abstains(Duration::from_secs(49)))
    );
    tokio::time::advance(Duration::from_millis(48_999)).await;
    assert!(life.votes().is_err());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(life.votes(), Ok(()));
}

#[tokio::test]
async fn a_server_votes_that_is_old_or_was_admitted_in_this_life() {
    let never_promoted = format!("{}master_replid:x\r\nmaster_replid2:000\r\n", info(61));
    assert!(votes(&never_promoted, &Value::Nil, RULE));
    assert!(votes(&info(61), &Value::Nil, RULE));
    assert!(votes(&info(1), &remembers("abc"), RULE));
    assert!(votes(&info(1), &Value::Nil, NO_RULE));
    assert!(votes(&promoted("x"), &Value::Nil, NO_RULE));
    assert!(votes("", &Value::Nil, RULE));
}

#[tokio::test(start_paused = true)]
async fn a_promoted_server_votes_when_it_has_been_known_for_as_long_as_the_longest_lease() {
    let mut met = Met::default();
    let mut votes = |life: &str, remembered: &Value| {
        let life = Life::new(&promoted(life), &memory(remembered), RULE, &mut met);
        life.votes()
    };
    let other = remembers("abc");
    let left = |seconds| Err(NodeError::Abstains(Duration::from_secs(seconds)));
    assert_eq!(votes("x", &other), left(61));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(
        votes("x", &other),
        left(1),
        "a new connection changes nothing"
    );
    assert_eq!(votes("y", &other), left(61), "promoted again");
    assert_eq!(votes("y", &remembers("abc:x")), left(61));
    assert_eq!(votes("y", &remembers("abc:y")), Ok(()));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(votes("y", &other), Ok(()));
}

#[test]
fn a_life_is_over_when_the_server_is_a_replica_or_was_promoted_again() {
    let old = |info: &str| first_met(info, &Value::Nil, RULE);
    let (first, second) = (old(&info(61)), old(&promoted("x")));
    let said = |role: &str, life: &str, before: &str| {
        format!("role:{role}\r\nmaster_replid:{life}\r\nmaster_replid2:{before}\r\n")
    };
    for (info, first_is_over, second_is_over) in [
        (said("master", "x", "000"), false, false),
        (said("master", "y", "000"), false, false),
        (said("master", "x", "d1"), true, false),
        (said("master", "y", "x"), true, true),
        (said("slave", "x", "000"), true, true),
        (String::new(), false, false),
    ] {
        assert_eq!(first.is_over(&info), first_is_over, "{info}");
        assert_eq!(second.is_over(&info), second_is_over, "{info}");
    }
    assert!(
        !old("").is_over(&said("slave", "x", "d1")),
        "it may not be asked"
    );
}

#[tokio::test(start_paused = true)]
async fn clients_that_do_not_live_so_long_go_on_from_what_the_server_remembers() {
    // The clock of these tests may have begun just now.
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    let votes = |met_in: &str, seconds_ago: u64| {
        let left = REMEMBERED.saturating_sub(Duration::from_secs(seconds_ago));
        let memory = Memory {
            voted_in: remembers("abc"),
            met_in: remembers(met_in),
            met_left: Value::Int(i64::try_from(left.as_millis()).expect("a number")),
        };
        let life = Life::new(&promoted("x"), &memory, RULE, &mut Met::default());
        (life.votes(), life.is_to_be_noted)
    };
    let left = |seconds| Err(NodeError::Abstains(Duration::from_secs(seconds)));
    assert_eq!(votes("abc:x", 0), (left(61), false));
    assert_eq!(votes("abc:x", 40), (left(21), false));
    assert_eq!(votes("abc:x", 61), (Ok(()), false));
    assert_eq!(votes("abc:y", 61), (left(61), true));
    assert_eq!(votes("abc", 61), (left(61), true));
    let without_expiry = Memory {
        voted_in: Value::Nil,
        met_in: remembers("abc:x"),
        met_left: Value::Int(-1),
    };
    assert_eq!(without_expiry.known_for("abc:x"), None);
}

#[tokio::test(start_paused = true)]
async fn in_a_group_every_server_is_kept_out_that_does_not_remember_and_for_longer() {
    let left = 60 + 1 + OLD_PRIMARY_VOTES.as_secs();
    let left = Err(NodeError::Abstains(Duration::from_secs(left)));
    let votes = |info: &str, remembered| first_met(info, &remembered, IN_GROUP).votes();
    assert_eq!(votes(&info(1_000_000), Value::Nil), left);
    assert_eq!(votes(&info(1_000_000), remembers("abcd")), left);
    assert_eq!(votes(&info(1_000_000), remembers("abc")), Ok(()));
    assert_eq!(votes(&promoted("x"), remembers("abc")), left);
    assert_eq!(votes(&promoted("x"), remembers("abc:x")), Ok(()));
    // An hour later it has forgotten that it was promoted.
    assert_eq!(votes(&info(1_000_000), remembers("abc:x")), Ok(()));
}

#[tokio::test]
async fn a_server_that_remembers_nothing_is_told_from_one_that_remembers_another_life() {
    let standing = |info: &str, remembered| first_met(info, &remembered, RULE).standing();
    let unknown = |standing| match standing {
        Standing::Abstains { unknown, .. } => unknown,
        Standing::Votes => None,
    };
    assert_eq!(
        unknown(standing(&info(1), Value::Nil)).as_deref(),
        Some("abc")
    );
    let promoted = promoted("x");
    assert_eq!(
        unknown(standing(&promoted, Value::Nil)).as_deref(),
        Some("abc:x")
    );
    assert_eq!(
        unknown(standing(&info(1), remembers("its last life"))),
        None
    );
    assert_eq!(unknown(standing(&promoted, remembers("abc"))), None);
}

#[tokio::test(start_paused = true)]
async fn who_was_kept_out_for_less_than_a_lease_may_last_does_not_vote_for_those_who_have_such_leases()
 {
    let young = |remembered| first_met(&info(1), &remembers(remembered), RULE);
    for enough in ["abc", "abc/60000", "abc/60001", "abc:x/60000"] {
        assert_eq!(young(enough).votes(), Ok(()), "{enough}");
    }
    for other in [
        "abc/59999",
        "abc/",
        "abc/-1",
        "abc/1e9",
        "/60000",
        "abcd/60000",
    ] {
        assert!(young(other).votes().is_err(), "{other}");
        assert_eq!(young(other).voted(), None, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_remembers_is_what_it_has_its_vote_for() {
    let voted = |life: &Life| life.voted();
    let old = first_met(&info(61), &Value::Nil, RULE);
    assert_eq!(voted(&old).as_deref(), Some("abc/60000"));
    old.note(&remembers("abc/90000"));
    assert_eq!(voted(&old).as_deref(), Some("abc/90000"), "as another says");
    old.note(&remembers("abc/1000"));
    assert_eq!(voted(&old).as_deref(), Some("abc/90000"));
    old.note(&remembers("abc"));
    assert_eq!(voted(&old).as_deref(), Some("abc"));
    old.note(&remembers("abc/90000"));
    assert_eq!(voted(&old).as_deref(), Some("abc"));

    let young = first_met(&info(1), &Value::Nil, RULE);
    assert_eq!(voted(&young), None);
    tokio::time::advance(MAX_TTL).await;
    assert_eq!(young.votes(), Ok(()));
    assert_eq!(voted(&young).as_deref(), Some("abc/60000"));
    let new = first_met(&info(1), &Value::Nil, RULE);
    new.admit();
    assert_eq!(voted(&new).as_deref(), Some("abc"));
}

#[tokio::test]
async fn what_another_client_admitted_votes() {
    let life = first_met(&info(1), &Value::Nil, RULE);
    assert!(life.votes().is_err());
    assert_eq!(life.note(&remembers("abc")), Standing::Votes);
    assert_eq!(life.votes(), Ok(()));
}
