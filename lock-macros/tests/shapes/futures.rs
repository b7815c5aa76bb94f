//! Functions that give back a future, and what is done with the future of a guarded function.

use std::pin::Pin;
use std::rc::Rc;

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, holds, locks};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[distributed_lock(key = "f:{text}", ttl = "8s", manager = locks())]
fn boxed<'a>(text: &'a str) -> Pin<Box<dyn Future<Output = Outcome<&'a str>> + Send + 'a>> {
    let text = text.trim();
    Box::pin(async move {
        holds("f:a");
        Ok(text)
    })
}

#[distributed_lock(key = "f", ttl = "8s", manager = locks())]
fn boxed_by_an_alias(value: u8) -> Boxed<'static, Outcome<u8>> {
    std::boxed::Box::pin(async move {
        holds("f");
        if value == 0 {
            return Ok(1);
        }
        Ok(value)
    })
}

#[distributed_lock(key = "f:{value}", ttl = "8s", manager = locks())]
fn hidden(value: u8) -> impl Future<Output = Outcome<u8>> + Send {
    let value = value + 1;
    async move {
        holds("f:8");
        Ok(value)
    }
}

#[distributed_lock(key = "f:{value}", ttl = "8s", manager = locks())]
#[allow(clippy::manual_async_fn)]
fn borrowing(value: &mut u8) -> impl Future<Output = Outcome<()>> {
    async {
        holds("f:8");
        *value += 1;
        Ok(())
    }
}

#[tokio::test]
async fn a_function_that_gives_a_boxed_future() -> Outcome<()> {
    assert_eq!(boxed(" a ").await?, "a");
    assert_eq!(boxed_by_an_alias(8).await?, 8);
    assert_eq!(boxed_by_an_alias(0).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_function_that_gives_an_impl_future() -> Outcome<()> {
    assert_eq!(hidden(7).await?, 8);
    let mut value = 8;
    borrowing(&mut value).await?;
    assert_eq!(value, 9);
    Ok(())
}

#[distributed_lock(key = "f", ttl = "8s", manager = locks())]
async fn sendable(value: u8) -> Outcome<u8> {
    tokio::task::yield_now().await;
    holds("f");
    Ok(value)
}

#[distributed_lock(key = "f", ttl = "8s", manager = locks())]
async fn not_sendable(value: Rc<u8>) -> Outcome<Rc<u8>> {
    let other = Rc::clone(&value);
    tokio::task::yield_now().await;
    holds("f");
    drop(value);
    Ok(other)
}

fn is_send_and_sync<F: Send + Sync>(future: F) -> F {
    future
}

#[tokio::test]
async fn spawned() -> Outcome<()> {
    let spawned = tokio::spawn(is_send_and_sync(sendable(8)));
    assert_eq!(spawned.await.expect("it does not panic")?, 8);
    Ok(())
}

#[tokio::test]
async fn what_is_not_send_compiles() -> Outcome<()> {
    assert_eq!(*not_sendable(8.into()).await?, 8);
    let local = tokio::task::LocalSet::new();
    let spawned = local.run_until(async { tokio::task::spawn_local(not_sendable(8.into())).await });
    assert_eq!(*spawned.await.expect("it does not panic")?, 8);
    Ok(())
}

#[tokio::test]
async fn boxed_by_the_caller() -> Outcome<()> {
    let calls: Vec<Boxed<'_, Outcome<u8>>> = vec![Box::pin(sendable(1)), Box::pin(sendable(2))];
    let mut sum = 0;
    for call in calls {
        sum += call.await?;
    }
    assert_eq!(sum, 3);
    Ok(())
}

macro_rules! chain {
    ($name:ident) => {
        #[distributed_lock(key = stringify!($name), ttl = "8s", manager = locks)]
        async fn $name(locks: &LockManager) -> Outcome<u8> {
            holds(stringify!($name));
            Ok(1)
        }
    };
    ($name:ident $next:ident $($rest:ident)*) => {
        #[distributed_lock(key = stringify!($name), ttl = "8s", manager = locks)]
        async fn $name(locks: &LockManager) -> Outcome<u8> {
            let below = $next(locks).await?;
            holds(stringify!($name));
            Ok(below + 1)
        }
        chain!($next $($rest)*);
    };
}

chain!(a b c d e f g h i j k l m n o p);

/// Under the default `recursion_limit`, and spawned, for which the compiler looks through all of them.
#[tokio::test]
async fn a_chain_of_sixteen() -> Outcome<()> {
    let all = tokio::spawn(async {
        let locks = locks();
        a(&locks)
            .await
            .map(|called| (called, locks.stats().acquired))
    });
    assert_eq!(all.await.expect("it does not panic")?, (16, 16));
    Ok(())
}
