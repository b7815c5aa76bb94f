//! A crate without the standard library and without a prelude, where the runtime has another name and every other name
//! has another meaning.
#![no_std]
#![no_implicit_prelude]
#![allow(dead_code, non_camel_case_types, unused_macros, missing_docs)]

mod core {}
mod std {}
mod lock_runtime {}
mod tokio {}

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

struct Option;
struct Some;
struct None;
struct Result;
struct Ok;
struct Err;
struct Box;
struct String;
struct Duration;
struct str;
trait From {}
trait Into {}
trait Future {}

type Outcome<T> = ::core::result::Result<T, ::locks::LockError>;

#[::locks::distributed_lock(key = "order:{id:05}:{pair.0}", ttl = "8s", wait = "1s", crate = ::locks)]
pub async fn pay(id: ::core::primitive::u64, pair: (::core::primitive::u8,)) -> Outcome<::core::primitive::u8> {
    ::core::result::Result::Ok(pair.0)
}

#[::locks::distributed_lock(
    keys = ["a:{id}", "b"],
    ttl = "8s",
    on_busy = skip,
    lease = lease,
    fenced = true,
    max_hold = "1h",
    hold_at_least = "1s",
    crate = ::locks
)]
pub async fn tick(id: ::core::primitive::u8) {
    ::core::assert_ne!(lease.fence(), 0);
}
