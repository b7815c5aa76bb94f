//! What a key can be written as, and what it then is.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex};

use lock_runtime::{LockKey, distributed_lock};

use crate::{Outcome, holds, locks};

const WIDTH: usize = 4;
const NIGHTLY: &str = "nightly:{not a template}";
static REGION: &str = "eu";

struct User {
    id: u64,
    tags: Vec<String>,
    pair: (u8, (u8, u8)),
    r#type: char,
}

struct Request {
    user: User,
}

impl Request {
    fn user(&self) -> &User {
        &self.user
    }
}

fn request() -> Request {
    Request {
        user: User {
            id: 7,
            tags: vec!["a:b".to_owned()],
            pair: (1, (2, 3)),
            r#type: 't',
        },
    }
}

#[distributed_lock(
    key = "{id}:{id:05}:{id:+}:{id:#x}:{name:?}:{name:>4}:{name:*^5}:{name:WIDTH$}:{{x}}:{part:.1}",
    ttl = "8s",
    manager = locks()
)]
async fn formatted(id: u8, name: &str, part: f32) -> Outcome<()> {
    holds("7:00007:+7:0x7:\"n\":   n:**n**:n   :{x}:1.5");
    Ok(())
}

#[tokio::test]
async fn as_format_renders_them() -> Outcome<()> {
    formatted(7, "n", 1.46).await
}

#[distributed_lock(
    key = "{req.user().id:03}:{req.user.tags[0]}:{req.user.pair.1.0}:{req.user().r#type}:{list[at]}:{REGION}",
    ttl = "8s",
    manager = locks()
)]
async fn paths(req: Request, list: &[u8], at: usize) -> Outcome<User> {
    holds("007:a:b:2:t:9:eu");
    Ok(req.user)
}

#[tokio::test]
async fn fields_methods_and_indices() -> Outcome<()> {
    assert_eq!(paths(request(), &[8, 9], 1).await?.id, 7);
    Ok(())
}

#[distributed_lock(key = NIGHTLY, ttl = "8s", manager = locks())]
async fn by_constant() -> Outcome<()> {
    holds("nightly:{not a template}");
    Ok(())
}

#[distributed_lock(key = REGION, ttl = "8s", manager = locks())]
async fn by_static() -> Outcome<()> {
    holds("eu");
    Ok(())
}

#[distributed_lock(key = id * 2, ttl = "8s", manager = locks())]
async fn by_arithmetic(id: i64) -> Outcome<()> {
    holds("-8");
    Ok(())
}

#[distributed_lock(
    key = if id > 1 { format!("many:{id}") } else { "one".to_owned() },
    ttl = "8s",
    manager = locks()
)]
async fn by_condition(id: u8) -> Outcome<()> {
    holds(if id > 1 { "many:2" } else { "one" });
    Ok(())
}

#[distributed_lock(key = &user, ttl = "8s", manager = locks())]
async fn by_conversion(user: User) -> Outcome<User> {
    holds("user:7");
    Ok(user)
}

impl From<&User> for LockKey {
    fn from(user: &User) -> Self {
        format!("user:{}", user.id).into()
    }
}

#[distributed_lock(keys = [by_hand(a), "k:{b}", b], ttl = "8s", manager = locks())]
async fn several(a: u8, b: &str) -> Outcome<()> {
    holds("a");
    Ok(())
}

fn by_hand(a: u8) -> String {
    format!("hand:{a}")
}

#[tokio::test]
async fn any_expression() -> Outcome<()> {
    by_constant().await?;
    by_static().await?;
    by_arithmetic(-4).await?;
    by_condition(1).await?;
    by_condition(2).await?;
    assert_eq!(by_conversion(request().user).await?.id, 7);
    several(1, "a").await
}

/// A guard that makes the future `!Send` if it is alive across an await, and waits for itself if it is when the body runs.
#[distributed_lock(key = *shared.lock().expect("nobody panics"), ttl = "8s", manager = locks())]
async fn from_a_mutex(shared: Arc<Mutex<u64>>) -> Outcome<u64> {
    holds("8");
    let mut shared = shared.lock().expect("nobody panics");
    *shared += 1;
    Ok(*shared)
}

#[tokio::test]
async fn temporaries_of_a_key_do_not_live_on() -> Outcome<()> {
    let spawned = tokio::spawn(from_a_mutex(Arc::new(Mutex::new(8))));
    assert_eq!(spawned.await.expect("it does not panic")?, 9);
    Ok(())
}

struct Counted(Arc<Mutex<u8>>);

impl Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut count = self.0.lock().expect("nobody panics");
        *count += 1;
        write!(f, "{count}")
    }
}

#[distributed_lock(key = "{counted}", ttl = "8s", wait = "1s", manager = locks())]
async fn counting(counted: Counted) -> Outcome<()> {
    tokio::task::yield_now().await;
    holds("1");
    Ok(())
}

#[tokio::test]
async fn a_key_is_computed_once() -> Outcome<()> {
    let count = Arc::default();
    counting(Counted(Arc::clone(&count))).await?;
    assert_eq!(*count.lock().expect("nobody panics"), 1);
    Ok(())
}

#[distributed_lock(key = "{a}:{b}", ttl = "8s", manager = locks())]
async fn joined(a: &str, b: &str) -> Outcome<()> {
    holds("a:b:c");
    Ok(())
}

/// Two lists of arguments, one key: values that can contain the separator want another template, such as `{a:?}:{b:?}`.
#[tokio::test]
async fn ambiguous_joins_are_one_key() -> Outcome<()> {
    joined("a:b", "c").await?;
    joined("a", "b:c").await
}

#[distributed_lock(key = ("{नमस्ते}:{id}"), ttl = "8s", manager = locks())]
async fn in_parentheses(id: u8, mut नमस्ते: u8) -> Outcome<u8> {
    holds("1:8");
    नमस्ते += id;
    Ok(नमस्ते)
}

#[tokio::test]
async fn a_template_in_parentheses_and_a_name_whose_letters_carry_marks() -> Outcome<()> {
    assert_eq!(in_parentheses(8, 1).await?, 9);
    Ok(())
}
