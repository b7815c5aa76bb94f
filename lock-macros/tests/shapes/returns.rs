//! What functions return, and the ways that lead there.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::io;

use lock_runtime::distributed_lock;
use tokio::sync::mpsc;

use crate::{LockError, LockManager, Outcome, holds, locks};

type AnyError = Box<dyn Error + Send + Sync>;

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn early(value: &str) -> Result<u64, AnyError> {
    holds("r");
    if value.is_empty() {
        return Ok(0);
    }
    if value == "x" {
        Err("is x")?;
    }
    Ok(value.parse()?)
}

#[tokio::test]
async fn early_returns_and_question_marks_that_convert() -> Result<(), AnyError> {
    assert_eq!(early("").await?, 0);
    assert_eq!(early("8").await?, 8);
    assert_eq!(early("x").await.unwrap_err().to_string(), "is x");
    assert!(
        early("y")
            .await
            .unwrap_err()
            .is::<std::num::ParseIntError>()
    );
    Ok(())
}

/// A `return` leaves the body, and the function goes on to release the lock.
#[tokio::test]
async fn after_an_early_return_the_lock_is_released() -> Outcome<()> {
    #[distributed_lock(key = "r", ttl = "8s", manager = locks)]
    async fn leaves_early(locks: &LockManager, how: u8) -> Outcome<u8> {
        holds("r");
        match how {
            0 => return Ok(0),
            1 => Err(lock_runtime::installed().unwrap_err())?,
            _ => {}
        }
        Ok(2)
    }

    let locks = locks();
    assert_eq!(leaves_early(&locks, 0).await?, 0);
    let failed = leaves_early(&locks, 1).await.unwrap_err();
    assert!(
        matches!(failed, LockError::NotConfigured { .. }),
        "{failed}"
    );
    assert_eq!(leaves_early(&locks, 2).await?, 2);
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn anyhow_alias(value: &str) -> anyhow::Result<u8> {
    holds("r");
    Ok(value.parse()?)
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn io_alias(value: u8) -> io::Result<u8> {
    holds("r");
    if value == 0 {
        Err(io::ErrorKind::InvalidInput)?;
    }
    Ok(value)
}

#[tokio::test]
async fn aliases_of_result() {
    assert_eq!(anyhow_alias("8").await.unwrap(), 8);
    assert!(
        anyhow_alias("x")
            .await
            .unwrap_err()
            .is::<std::num::ParseIntError>()
    );
    assert_eq!(io_alias(8).await.unwrap(), 8);
    assert_eq!(
        io_alias(0).await.unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks)]
async fn anyhow_when_busy(locks: &LockManager) -> anyhow::Result<()> {
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks)]
async fn io_when_busy(locks: &LockManager) -> io::Result<()> {
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks)]
async fn boxed_when_busy(locks: &LockManager) -> Result<(), AnyError> {
    Ok(())
}

#[tokio::test]
async fn a_busy_lock_is_found_in_every_kind_of_error() -> Outcome<()> {
    let locks = locks();
    let request = locks.lock("r").ttl(std::time::Duration::from_secs(8));
    let _lease = request.acquire().await?;
    let from_anyhow = anyhow_when_busy(&locks).await.unwrap_err();
    let from_io = io_when_busy(&locks).await.unwrap_err();
    let boxed = boxed_when_busy(&locks).await.unwrap_err();
    let found = [
        from_anyhow.downcast_ref::<LockError>(),
        from_io.get_ref().and_then(|inner| inner.downcast_ref()),
        boxed.downcast_ref(),
    ];
    for error in found {
        assert!(error.is_some_and(LockError::is_busy), "{error:?}");
    }
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn coerced(value: u8, early: bool) -> Outcome<Box<dyn Fn() -> u8 + Send>> {
    holds("r");
    if early {
        return Ok(Box::new(|| 0));
    }
    Ok(Box::new(move || value))
}

#[tokio::test]
async fn a_trait_object_that_the_tail_makes() -> Outcome<()> {
    assert_eq!(coerced(8, false).await?(), 8);
    assert_eq!(coerced(8, true).await?(), 0);
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn partly_hidden(value: u8) -> Result<(impl Display, Vec<impl Debug>), LockError> {
    holds("r");
    Ok((value, vec![value]))
}

#[tokio::test]
async fn impl_trait_inside_of_a_result() -> Outcome<()> {
    let (shown, listed) = partly_hidden(8).await?;
    assert_eq!(format!("{shown} {listed:?}"), "8 [8]");
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn hidden_in_an_object(value: u8) -> Outcome<Box<dyn Iterator<Item = impl Display>>> {
    holds("r");
    Ok(Box::new([value, 9].into_iter()))
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn in_parentheses<'a>(value: &'a (dyn Display + Sync)) -> Outcome<&'a (dyn Display + Sync)> {
    holds("r");
    Ok(value)
}

macro_rules! returning {
    ($name:ident, $shown:ty, $hidden:ty) => {
        #[distributed_lock(key = "r", ttl = "8s", manager = locks())]
        async fn $name(value: &$shown) -> Outcome<(&$shown, $hidden)> {
            holds("r");
            Ok((value, value.to_string()))
        }
    };
}

returning!(
    in_invisible_groups,
    dyn Display + Sync,
    impl Display + Debug
);

#[tokio::test]
async fn trait_objects_of_two_traits_and_with_hidden_types() -> Outcome<()> {
    let listed = hidden_in_an_object(8).await?;
    let listed: Vec<String> = listed.map(|item| item.to_string()).collect();
    assert_eq!(listed, ["8", "9"]);
    assert_eq!(in_parentheses(&8).await?.to_string(), "8");
    let (shown, hidden) = in_invisible_groups(&8).await?;
    assert_eq!(format!("{shown} {hidden:?}"), r#"8 "8""#);
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn hidden(value: u8) -> impl Debug + Send {
    holds("r");
    if value == 0 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    Ok(value)
}

#[tokio::test]
async fn impl_trait_that_hides_a_result() {
    assert_eq!(format!("{:?}", hidden(8).await), "Ok(8)");
    assert_eq!(format!("{:?}", hidden(0).await), "Err(Kind(InvalidInput))");
}

#[distributed_lock(key = "r", ttl = "8s", on_busy = skip, manager = locks())]
async fn nothing(ran: &mut u8) {
    holds("r");
    *ran += 1;
}

#[distributed_lock(key = "r", ttl = "8s", on_busy = skip, manager = locks())]
async fn unit(ran: &mut u8) -> () {
    holds("r");
    *ran += 1;
    if *ran > 1 {
        return;
    }
    *ran += 1;
}

#[distributed_lock(key = "r", ttl = "8s", on_busy = skip, manager = locks())]
async fn optional(value: u8) -> Option<u8> {
    holds("r");
    Some(value.checked_sub(1)? * 2)
}

#[tokio::test]
async fn nothing_unit_and_option() {
    let mut ran = 0;
    nothing(&mut ran).await;
    unit(&mut ran).await;
    assert_eq!(ran, 2);
    assert_eq!(optional(3).await, Some(4));
    assert_eq!(optional(0).await, None);
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn not_implemented() -> Outcome<u8> {
    unimplemented!("on purpose")
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn panicking() -> Outcome<u8> {
    holds("r");
    panic!("on purpose")
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
#[allow(clippy::todo)]
async fn to_be_done(_unused: u8) -> Outcome<impl Display> {
    if true {
        todo!("on purpose")
    }
    Ok(8)
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn never_ending(ticks: mpsc::Sender<()>) -> Outcome<std::convert::Infallible> {
    loop {
        holds("r");
        if ticks.send(()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test]
async fn diverging_bodies() {
    assert!(
        tokio::spawn(not_implemented())
            .await
            .unwrap_err()
            .is_panic()
    );
    assert!(tokio::spawn(panicking()).await.unwrap_err().is_panic());
    let done = tokio::spawn(async { drop(to_be_done(1).await) });
    assert!(done.await.unwrap_err().is_panic());
    let (ticks, mut ticked) = mpsc::channel(1);
    tokio::select! {
        ended = never_ending(ticks) => panic!("{ended:?}"),
        third = async { (ticked.recv().await, ticked.recv().await, ticked.recv().await).2 } => {
            assert_eq!(third, Some(()));
        }
    }
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn concurrent(value: u8) -> Outcome<u8> {
    let part = async |by: u8| {
        tokio::task::yield_now().await;
        holds("r");
        value + by
    };
    let (one, two) = tokio::join!(part(1), part(2));
    let three = tokio::select! {
        three = part(3) => three,
        () = std::future::pending() => 0,
    };
    Ok(one + two + three)
}

#[tokio::test]
async fn select_and_join() -> Outcome<()> {
    assert_eq!(concurrent(1).await?, 9);
    Ok(())
}

#[distributed_lock(key = "{n}", ttl = "8s", manager = locks)]
async fn recursive(n: u8, locks: &LockManager) -> Outcome<u8> {
    holds(&n.to_string());
    if n == 0 {
        Ok(0)
    } else {
        Ok(1 + Box::pin(recursive(n - 1, locks)).await?)
    }
}

#[distributed_lock(key = "same", ttl = "8s", wait = forever, manager = locks)]
async fn recursive_under_one_key(n: u8, locks: &LockManager) -> Outcome<u8> {
    if n == 0 {
        return Ok(0);
    }
    Ok(1 + Box::pin(recursive_under_one_key(n - 1, locks)).await?)
}

#[tokio::test]
async fn recursion_through_a_box() -> Outcome<()> {
    assert_eq!(recursive(3, &locks()).await?, 3);
    Ok(())
}

#[tokio::test]
async fn recursion_under_the_same_key_is_refused_at_once() {
    let locks = locks();
    assert_eq!(recursive_under_one_key(0, &locks).await.unwrap(), 0);
    let refused = recursive_under_one_key(1, &locks).await.unwrap_err();
    assert!(
        matches!(refused, LockError::AlreadyHeld { .. }),
        "{refused}"
    );
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn local_items_in_the_body() -> Outcome<u32> {
    use std::collections::BTreeMap;
    const STEP: u32 = 1;
    fn next(n: u32) -> u32 {
        n + STEP
    }
    struct Local(u32);
    impl Local {
        fn get(&self) -> u32 {
            self.0
        }
    }
    holds("r");
    let map = BTreeMap::from([(1, Local(next(1)))]);
    Ok(map[&1].get())
}

#[tokio::test]
async fn local_items() -> Outcome<()> {
    assert_eq!(local_items_in_the_body().await?, 2);
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn tail_temporary(cell: std::cell::RefCell<String>) -> Outcome<usize> {
    holds("r");
    Ok(cell.borrow().len())
}

#[tokio::test]
async fn temporaries_of_the_tail() -> Outcome<()> {
    assert_eq!(tail_temporary(String::from("abc").into()).await?, 3);
    Ok(())
}

#[distributed_lock(key = "r", ttl = "8s", manager = locks())]
async fn labelled(limit: u8) -> Outcome<u8> {
    holds("r");
    let mut n = 0;
    let found = 'outer: loop {
        for step in 0..=limit {
            n += step;
            if n > 10 {
                break 'outer n;
            }
        }
    };
    let kept = 'block: {
        if found > 20 {
            break 'block 20;
        }
        found
    };
    Ok(kept)
}

#[tokio::test]
async fn loops_labels_and_breaks_with_values() -> Outcome<()> {
    assert_eq!(labelled(3).await?, 12);
    Ok(())
}
