//! Every kind of `self`, and methods of types and traits.

use std::pin::Pin;
use std::sync::Arc;

use lock_runtime::distributed_lock;

use crate::{LockManager, Outcome, holds, locks};

#[derive(Clone)]
struct Counter {
    name: String,
    count: u64,
    locks: LockManager,
}

fn counter() -> Counter {
    Counter {
        name: "c".to_owned(),
        count: 1,
        locks: locks(),
    }
}

impl Counter {
    const STEP: u64 = 2;

    #[distributed_lock(key = "{self.name}:{Self::STEP}", ttl = "8s", manager = self.locks)]
    async fn by_reference(&self) -> Outcome<u64> {
        holds("c:2");
        Ok(self.count + Self::STEP)
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_mutable_reference(&mut self, by: u64) -> Outcome<()> {
        holds("c");
        self.count += by;
        "d".clone_into(&mut self.name);
        Ok(())
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_value(self) -> Outcome<String> {
        holds("c");
        Ok(self.name)
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_mutable_value(mut self) -> Outcome<String> {
        holds("c");
        self.name.push('!');
        Ok(self.name)
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_arc(self: Arc<Self>) -> Outcome<u64> {
        holds("c");
        let other = Arc::clone(&self);
        let spawned = tokio::spawn(async move { other.count });
        Ok(self.count + spawned.await.expect("it does not panic"))
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_box(self: Box<Self>) -> Outcome<u64> {
        holds("c");
        Ok(self.count)
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_pin(mut self: Pin<&mut Self>) -> Outcome<u64> {
        holds("c");
        self.count += 1;
        Ok(self.count)
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn by_reference_to_arc(self: &Arc<Self>) -> Outcome<Arc<Self>> {
        holds("c");
        Ok(Arc::clone(self))
    }

    #[distributed_lock(key = "{name}", ttl = "8s", manager = locks)]
    async fn without(name: &str, locks: &LockManager) -> Outcome<Self> {
        holds("new");
        Ok(Self {
            name: name.to_owned(),
            count: Self::STEP,
            locks: locks.clone(),
        })
    }

    #[distributed_lock(key = "{self.name}", ttl = "8s", manager = self.locks)]
    async fn in_macros(&self) -> Outcome<String> {
        macro_rules! count {
            ($this:ident) => {
                $this.count
            };
        }
        holds("c");
        let name = format!("{}{:?}", self.name, { self.count });
        Ok(name + &count!(self).to_string())
    }
}

#[tokio::test]
async fn self_by_reference() -> Outcome<()> {
    let counter = counter();
    assert_eq!(counter.by_reference().await?, 3);
    assert_eq!(counter.locks.stats().acquired, 1);
    Ok(())
}

#[tokio::test]
async fn self_by_mutable_reference() -> Outcome<()> {
    let mut counter = counter();
    counter.by_mutable_reference(4).await?;
    assert_eq!((counter.count, &*counter.name), (5, "d"));
    Ok(())
}

#[tokio::test]
async fn self_by_value() -> Outcome<()> {
    assert_eq!(counter().by_value().await?, "c");
    Ok(())
}

#[tokio::test]
async fn mutable_self_by_value() -> Outcome<()> {
    assert_eq!(counter().by_mutable_value().await?, "c!");
    Ok(())
}

#[tokio::test]
async fn self_in_an_arc_that_is_spawned() -> Outcome<()> {
    let spawned = tokio::spawn(Arc::new(counter()).by_arc());
    assert_eq!(spawned.await.expect("it does not panic")?, 2);
    Ok(())
}

#[tokio::test]
async fn self_in_a_box_a_pin_and_behind_a_reference() -> Outcome<()> {
    let mut counter = counter();
    assert_eq!(Box::new(counter.clone()).by_box().await?, 1);
    assert_eq!(Pin::new(&mut counter).by_pin().await?, 2);
    let shared = Arc::new(counter);
    assert_eq!(shared.by_reference_to_arc().await?.count, 2);
    Ok(())
}

#[tokio::test]
async fn an_associated_function_without_self() -> Outcome<()> {
    assert_eq!(Counter::without("new", &locks()).await?.count, 2);
    Ok(())
}

#[tokio::test]
async fn self_inside_of_macros() -> Outcome<()> {
    assert_eq!(counter().in_macros().await?, "c11");
    Ok(())
}

struct Pair(u8, u8);

impl Pair {
    const ONES: Self = Self(1, 1);

    #[distributed_lock(key = "pair", ttl = "8s", manager = locks())]
    async fn swapped(self) -> Outcome<Self> {
        holds("pair");
        let Self(one, other) = self;
        Ok(match (one, other) {
            (1, 1) => Self::ONES,
            _ => Self(other, one),
        })
    }
}

#[tokio::test]
async fn the_type_self_in_the_body() -> Outcome<()> {
    for (one, other) in [(1, 1), (3, 4)] {
        let swapped = Pair(one, other).swapped().await?;
        assert_eq!((swapped.0, swapped.1), (other, one));
    }
    Ok(())
}

struct Store<T> {
    items: Vec<T>,
}

impl<T: Clone + std::fmt::Display> Store<T> {
    #[distributed_lock(key = "{self.items[0]}", ttl = "8s", manager = locks())]
    async fn add(&mut self, item: T) -> Outcome<&T> {
        holds("a");
        self.items.push(item);
        Ok(&self.items[self.items.len() - 1])
    }
}

#[tokio::test]
async fn a_generic_impl() -> Outcome<()> {
    let mut store = Store { items: vec!["a"] };
    assert_eq!(*store.add("b").await?, "b");
    assert_eq!(store.items, ["a", "b"]);
    Ok(())
}

trait Job {
    const NAME: &'static str;

    fn run(&self, id: u64) -> impl Future<Output = Outcome<String>> + Send;

    #[distributed_lock(key = "{Self::NAME}", ttl = "8s", manager = locks())]
    async fn by_default(&self) -> Outcome<&'static str> {
        holds("job");
        Ok(Self::NAME)
    }
}

impl Job for Counter {
    const NAME: &'static str = "job";

    #[distributed_lock(key = "{self.name}:{id}", ttl = "8s", manager = self.locks)]
    async fn run(&self, id: u64) -> Outcome<String> {
        holds("c:7");
        Ok(format!("{}:{id}", self.name))
    }
}

#[tokio::test]
async fn a_method_of_a_trait() -> Outcome<()> {
    assert_eq!(counter().run(7).await?, "c:7");
    Ok(())
}

#[tokio::test]
async fn a_default_body_in_a_trait() -> Outcome<()> {
    assert_eq!(counter().by_default().await?, "job");
    Ok(())
}
