//! The expansion uses no name that the user may have given another meaning.
#![deny(warnings)]
#![no_implicit_prelude]
#![allow(unused_macros)]

#[allow(dead_code)]
mod core {}
#[allow(dead_code)]
mod std {}
#[allow(dead_code)]
mod lock_runtime {}

mod renamed {
    pub(crate) mod inside {
        pub(crate) use ::lock_runtime::*;
    }
}

macro_rules! format {
    () => {};
}
macro_rules! concat {
    () => {};
}
macro_rules! module_path {
    () => {};
}
macro_rules! pin {
    () => {};
}

type Result<T> = ::core::result::Result<T, ::lock_runtime::LockError>;

#[allow(dead_code)]
enum Option {
    Some,
    None,
}
#[allow(unused_imports)]
use self::Option::{None, Some};

#[allow(dead_code)]
struct Ok;
#[allow(dead_code)]
struct Err;
#[allow(dead_code)]
trait From {}
#[allow(dead_code)]
trait Into {}

/// Its methods are named like some that the expansion calls.
struct Order(u8);

impl Order {
    fn id(&self) -> u8 {
        self.0
    }

    fn run(&self) -> u8 {
        self.0 + 1
    }

    fn into(&self) -> u8 {
        self.0 + 2
    }
}

#[allow(clippy::too_many_arguments)]
#[::lock_runtime::distributed_lock(
    key = "order:{order.id()}:{key}:{name}",
    ttl = "8s",
    wait = "1s",
    manager = ::lock_runtime::LockManager::in_memory()
)]
async fn parameters_with_our_names(
    order: Order,
    key: u8,
    keys: u8,
    name: u8,
    guard: u8,
    body: u8,
    outcome: u8,
    value: u8,
    error: u8,
) -> Result<u8> {
    let sum = key + keys + name + guard + body + outcome + value + error;
    ::core::result::Result::Ok(sum + order.run() + order.into())
}

/// The very names of the expansion's own variables.
#[allow(clippy::too_many_arguments, clippy::used_underscore_binding)]
#[::lock_runtime::distributed_lock(
    key = "{__lock_name}:{__lock_keys}",
    ttl = "8s",
    lease = __lock_lease,
    on_busy = |__lock_error| if __lock_error.is_busy() {
        ::core::result::Result::Err(__lock_error)
    } else {
        ::core::result::Result::Ok(0)
    },
    manager = ::lock_runtime::LockManager::in_memory()
)]
async fn parameters_with_our_prefix(
    __lock_name: u8,
    __lock_keys: u8,
    mut __lock_guard: u8,
    __lock_body: u8,
    __lock_outcome: u8,
    __lock_value: u8,
    __lock_error: u8,
    __lock_running: u8,
) -> Result<u8> {
    ::core::assert_eq!(__lock_lease.key(), "1:2");
    __lock_guard += __lock_body + __lock_outcome + __lock_value + __lock_error + __lock_running;
    ::core::result::Result::Ok(__lock_name + __lock_keys + __lock_guard)
}

#[renamed::inside::distributed_lock(
    keys = ["a:{id}", "b:{id}"],
    ttl = "8s",
    on_busy = |_| (),
    lease = lease,
    manager = crate::renamed::inside::LockManager::in_memory(),
    crate = crate::renamed::inside
)]
async fn renamed_runtime(id: u8) {
    ::core::assert_eq!(id, 8);
    ::core::assert!(!lease.is_lost());
}

/// What a name of ours would mean in a pattern, if it had no prefix.
mod constants_with_our_names {
    #![allow(dead_code, non_upper_case_globals)]

    const name: u8 = 1;
    const keys: u8 = 2;
    static guard: u8 = 3;
    static body: u8 = 4;
    const outcome: u8 = 5;
    const value: u8 = 6;
    const error: u8 = 7;
    static running: u8 = 8;

    #[::lock_runtime::distributed_lock(
        key = "{name}:{running}",
        ttl = "8s",
        lease = lease,
        manager = ::lock_runtime::LockManager::in_memory()
    )]
    pub(crate) async fn sum() -> super::Result<u8> {
        ::core::assert_eq!(lease.key(), "1:8");
        ::core::result::Result::Ok(name + keys + guard + body + outcome + value + error + running)
    }
}

#[::lock_runtime::distributed_lock(
    key = "order",
    ttl = "8s",
    lease = running,
    on_lost = continue,
    manager = ::lock_runtime::LockManager::in_memory()
)]
async fn lease_with_our_name() -> Result<bool> {
    ::core::result::Result::Ok(running.is_lost())
}

#[::core::prelude::v1::test]
fn nothing_clashes() {
    let runtime = ::tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ::core::result::Result::Ok(runtime) = runtime else {
        ::core::panic!("no runtime");
    };
    runtime.block_on(async {
        let sum = parameters_with_our_names(Order(1), 1, 2, 3, 4, 5, 6, 7, 8).await;
        ::core::assert_eq!(sum.unwrap_or_default(), 41);
        let sum = parameters_with_our_prefix(1, 2, 3, 4, 5, 6, 7, 8).await;
        ::core::assert_eq!(sum.unwrap_or_default(), 36);
        renamed_runtime(8).await;
        let sum = constants_with_our_names::sum().await;
        ::core::assert_eq!(sum.unwrap_or_default(), 36);
        let lost = lease_with_our_name().await;
        ::core::assert!(!lost.unwrap_or(true));
    });
}
