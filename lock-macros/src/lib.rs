//! The attribute `#[distributed_lock]`. Use it through `lock-runtime`, which re-exports it.

mod args;
mod duration;
mod expand;
mod groups;
mod item;
mod key;
mod params;
#[cfg(test)]
mod positions;
mod refused;
mod returns;
mod span;

use proc_macro::TokenStream;

/// Runs the body of an async function while the caller holds a lock that every replica of the service respects.
///
/// The key is computed, the lock is acquired, the body runs, its locals and the parameters are dropped, the lock is
/// released. It is released on every way out: return, `?`, panic, and a dropped future.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// struct Order {
///     id: u64,
/// }
///
/// #[distributed_lock(key = "order:{order.id}", ttl = "8s", wait = "2s")]
/// async fn pay(order: Order) -> Result<u64, LockError> {
///     Ok(order.id)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// lock_runtime::install(lock_runtime::LockManager::in_memory())?;
/// assert_eq!(pay(Order { id: 7 }).await?, 7);
/// # Ok(()) }
/// ```
///
/// # Where it goes
///
/// On `async fn`: free functions, methods, and methods in traits that have a body. Also on a function that ends in
/// `async move { … }` or `Box::pin(async move { … })`, which is what `#[async_trait]` leaves; there the key may use
/// `self` and parameters with a plain name. What such a function does before that future runs when it is called, without
/// the lock; to return anything else is a mistake. Not on an `impl` block, a trait or a module: on each function in it.
///
/// Attributes are expanded from the top, and the first one ends up innermost:
///
/// | with | write `#[distributed_lock]` |
/// |---|---|
/// | `#[tokio::test]`, `#[tokio::main]` | above: below it, the function is not async any more |
/// | `#[async_trait]` on the `impl` or trait | on the methods in it |
/// | `#[tracing::instrument]` | above it, and the span covers the waiting, and `err` sees a refusal; below it, and the span covers the body only |
/// | `#[axum::debug_handler]`, routes such as actix's `#[get]` | above or below |
/// | an attribute that caches | above, and what is cached takes no lock; below, and every call does |
/// | another `#[distributed_lock]` | the lower one is acquired first and released last |
/// | documentation, `#[must_use]`, `#[cfg]`, lints | anywhere |
///
/// ```
/// use lock_runtime::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(key = "migrate", ttl = "30s", manager = LockManager::in_memory())]
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # What it may return
///
/// A lock can be refused, so the function must be able to say that its body has not run:
///
/// | `on_busy` | return type |
/// |---|---|
/// | `error` | `Result<_, E>` where `E: From<LockError>` |
/// | `skip` | `()`, `Option<_>`, and with such an `E` `Result<(), E>` and `Result<Option<_>, E>` |
/// | an expression | `()`, `Option<_>`, `Result<_, E>` |
///
/// `LockError` itself, `io::Error`, `anyhow::Error` and `Box<dyn Error>` are such an `E`. Aliases and `impl Trait` count as
/// what they stand for. With the feature `axum` a `Response` can say it too.
///
/// # What is checked when
///
/// What the attribute says is checked when compiling: names and forms of the arguments, text for durations, placeholders,
/// and what contradicts what, such as a `max_hold` under the `ttl`. All mistakes of form in one attribute are reported at once, and
/// the function stays there for its callers.
///
/// What only run time knows is checked before anything is sent to a node, and gives `LockError::InvalidTtl`: a `ttl` or
/// `hold_at_least` above the manager's `max_ttl`, and the same contradictions where one side is an expression.
/// `LockError::InvalidKey` is a key that came out empty, or longer than `LockKey::MAX_LEN`.
///
/// # Limits
///
/// - `key = id` moves `id` into the key, unless it is `Copy`. Where the body needs it too, write `key = &id` or the
///   template `key = "{id}"`.
/// - `on_busy` sees those parameters only that are `Copy` or shared references. The others have been moved into the body
///   by then, and dropped.
/// - A template joins its parts as they are: `"{a}:{b}"` gives one key for `("x:y", "z")` and `("x", "y:z")`. Put what may
///   contain the separator last, or show it with `{a:?}`.
/// - A function that calls itself with the same key asks for a lock that it holds, and gets `LockError::AlreadyHeld`.
/// - What a pattern leaves without a name, as in `Foo(_, x)`, is dropped after the lock is released. A parameter that is
///   `_` as a whole is dropped before.
/// - Under `#[async_trait]` a key cannot use what a pattern binds, as in `Path(id): Path<u64>`.
/// - The result is kept while the lock is released, so the future is `Send` only if what it gives is: not with
///   `Box<dyn Error>`, but with `Box<dyn Error + Send + Sync>`.
/// - Every guarded function adds to the depth of a future's type: about 15 that await one another fit under the default
///   `recursion_limit`.
/// - The body follows edition 2024 in when the temporaries of its last expression are dropped, in a crate of any edition.
/// - Lints of Clippy that look at a function as a whole, such as `unused_async`, `needless_return` and `ptr_arg`, do not see
///   into a guarded one, and a parameter that is overwritten before it is read is not reported. In a function that
///   assigns to a part of a parameter that it owns, `unused_assignments` is off.
/// - What is wrong with `{id}` is reported inside the template, if all its placeholders are plain names. Where one goes on,
///   as in `{order.id}`, it is reported at the whole template, as stable compilers let no macro point into a literal.
///
/// # `key`
///
/// What is locked. A string literal is a template over the parameters, with `format!` syntax (`{id:05}`, `{x:?}`,
/// `{{`). A placeholder may go on with fields, methods without arguments, and indices. Any other expression must be
/// `Into<LockKey>`, and is not read as a template. The key is computed once, before the body, which may move the
/// parameters that it was made of.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// # struct Request { user: User, tags: Vec<String> }
/// # impl Request { fn user(&self) -> &User { &self.user } }
/// # struct User { id: u64 }
/// # struct Shop { region: String }
/// const NIGHTLY: &str = "nightly";
///
/// impl Shop {
///     #[distributed_lock(key = "{self.region}:{request.user().id:05}:{request.tags[0]}", ttl = "8s")]
///     async fn serve(&self, request: Request) -> Result<usize, LockError> {
///         Ok(request.tags.len())
///     }
/// }
///
/// #[distributed_lock(key = NIGHTLY, ttl = "8s")]
/// async fn nightly() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # `keys`
///
/// Several keys, all or nothing. Order and duplicates do not matter: two transfers in opposite directions do not wait
/// for one another forever. In place of `key`.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(keys = ["account:{from}", "account:{to}"], ttl = "8s")]
/// async fn transfer(from: u64, to: u64, cents: u64) -> Result<u64, LockError> {
///     Ok(cents)
/// }
/// ```
///
/// # `ttl`
///
/// How long the lock lives if its holder dies: text that is checked when compiling, in whole numbers of `h`, `m`, `s`
/// and `ms` (`"500ms"`, `"30s"`, `"1m30s"`), or an expression of the type `Duration`. Required. At most the manager's
/// `max_ttl`, one minute unless its builder says otherwise, and at least `3ms`, as clocks may drift by two.
///
/// ```
/// use std::time::Duration;
/// use lock_runtime::{LockError, distributed_lock};
///
/// const TTL: Duration = Duration::from_secs(30);
///
/// #[distributed_lock(key = "report", ttl = TTL)]
/// async fn report() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # `wait`
///
/// How long to wait for a lock that is busy: text or an expression as for `ttl`, or `forever`. By default there is one
/// attempt.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "stock:{product}", ttl = "8s", wait = "2s")]
/// async fn reserve(product: u64) -> Result<u64, LockError> {
///     Ok(product)
/// }
///
/// #[distributed_lock(key = "migrate", ttl = "30s", wait = forever)]
/// async fn migrate() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # `on_busy`
///
/// What the function returns when the lock is busy:
///
/// - `error`, the default: `Err(E::from(LockError))`.
/// - `skip`: the value for "skipped", which is `()`, `None`, `Ok(())` or `Ok(None)`.
/// - any other expression: its value. A closure is called with the `LockError`.
///
/// Anything but a busy lock, an outage above all, is never answered by `on_busy`: a function that returns `Result` gives
/// `Err`, one that returns `()` or `Option` logs the error.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "tick", ttl = "8s", on_busy = skip)]
/// async fn tick() {}
///
/// enum Failure {
///     InUse(u64),
///     Lock(LockError),
/// }
///
/// impl From<LockError> for Failure {
///     fn from(error: LockError) -> Self {
///         Self::Lock(error)
///     }
/// }
///
/// #[distributed_lock(key = "seat:{seat}", ttl = "8s", on_busy = |_busy| Err(Failure::InUse(seat)))]
/// async fn book(seat: u64) -> Result<u64, Failure> {
///     Ok(seat)
/// }
/// ```
///
/// # `on_lost`
///
/// What becomes of the body when the lease is lost, because no majority of the nodes could be told in time that it goes
/// on, or because the process slept past its end:
///
/// - `cancel`, the default: the body is dropped at the `.await` where it stands, and the call ends with
///   `LockError::Lost`.
/// - `continue`: it runs on to its end, and its result is that of the call. Somebody else may run at the same time, so it
///   is for bodies that look, with [`lease`](#lease), before they do what must not be done twice.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "import:{file}", ttl = "8s", on_lost = continue, lease = lease)]
/// async fn import(file: &str, rows: Vec<u64>) -> Result<usize, LockError> {
///     let mut imported = 0;
///     for row in rows {
///         if lease.is_lost() {
///             // What is in is in, and whoever has the lock now goes on from here.
///             break;
///         }
///         store(row).await;
///         imported += 1;
///     }
///     Ok(imported)
/// }
/// # async fn store(_row: u64) {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # lock_runtime::install(lock_runtime::LockManager::in_memory())?;
/// # assert_eq!(import("a.csv", vec![1, 2]).await?, 2);
/// # Ok(()) }
/// ```
///
/// # `extend`
///
/// Whether the lease is renewed while the body runs: `true`, the default, or `false`, or an expression of the type
/// `bool`. Without renewal the lease is lost when `ttl` is over.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "probe", ttl = "5s", extend = false)]
/// async fn probe() -> Result<(), LockError> {
///     Ok(())
/// }
/// ```
///
/// # `max_hold`
///
/// The end of the whole hold, renewals included: text or an expression as for `ttl`, and not shorter than `ttl` nor than
/// `hold_at_least`. It bounds the renewals, so it does not go with `extend = false`. Then the lease is lost, and
/// [`on_lost`](#on_lost) says what becomes of the body. By default a lease is renewed for as long as
/// the body runs: a body that hangs keeps everybody else out.
///
/// A long job has a short `ttl`, so that another replica takes over soon when this one dies, and a `max_hold` of what it
/// may take at the very most.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "reindex", ttl = "30s", max_hold = "2h")]
/// async fn reindex(shards: u64) -> Result<u64, LockError> {
///     for shard in 0..shards {
///         rebuild(shard).await;
///     }
///     Ok(shards)
/// }
/// # async fn rebuild(_shard: u64) {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # lock_runtime::install(lock_runtime::LockManager::in_memory())?;
/// # assert_eq!(reindex(3).await?, 3);
/// # Ok(()) }
/// ```
///
/// # `hold_at_least`
///
/// Keeps the lock this long from its acquisition, also when the body ends sooner. A job on a schedule must outlast the
/// difference between the clocks of the replicas, or the next replica finds the lock free and runs the job again. At most
/// the manager's `max_ttl`.
///
/// ```
/// use lock_runtime::distributed_lock;
///
/// #[distributed_lock(key = "cron:invoices", ttl = "30s", hold_at_least = "2s", on_busy = skip)]
/// async fn send_invoices() {}
/// ```
///
/// # `lease`
///
/// A name: in the body it is the `&Lease` that the body runs under, with the time that remains, whether it is lost, and
/// the fencing token. It is released when the body ends.
///
/// ```
/// use std::time::Duration;
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "report:{id}", ttl = "8s", lease = held)]
/// async fn report(id: u64) -> Result<Duration, LockError> {
///     assert_eq!(held.key(), format!("report:{id}"));
///     Ok(held.remaining())
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # lock_runtime::install(lock_runtime::LockManager::in_memory())?;
/// # assert!(report(7).await? > Duration::from_secs(7));
/// # Ok(()) }
/// ```
///
/// # `fenced`
///
/// `true`, or an expression of the type `bool`: asks for a fencing token, [`lease`](#lease)`.fence()`, a number that is
/// larger for every later holder of the key. A write that is on its way when the lease is lost cannot be called back; the
/// store refuses it when it keeps the largest token that it has seen. The servers have more work with it, so the default
/// is `false`.
///
/// ```
/// use lock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "account:{id}", ttl = "8s", wait = "2s", lease = lease, fenced = true)]
/// async fn set_balance(id: u64, cents: i64) -> Result<u64, LockError> {
///     // UPDATE accounts SET cents = $cents, fence = $fence WHERE id = $id AND fence < $fence
///     Ok(execute(id, cents, lease.fence()).await)
/// }
/// # async fn execute(_id: u64, _cents: i64, fence: u64) -> u64 { fence }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # lock_runtime::install(lock_runtime::LockManager::in_memory())?;
/// # let earlier = set_balance(7, 100).await?;
/// # assert!(set_balance(7, 200).await? > earlier);
/// # Ok(()) }
/// ```
///
/// # `manager`
///
/// The `LockManager` to use. By default it is the installed one.
///
/// ```
/// use lock_runtime::{LockError, LockManager, distributed_lock};
///
/// struct Service {
///     locks: LockManager,
/// }
///
/// impl Service {
///     #[distributed_lock(key = "order:{id}", ttl = "8s", manager = self.locks)]
///     async fn pay(&self, id: u64) -> Result<u64, LockError> {
///         Ok(id)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// let service = Service { locks: LockManager::in_memory() };
/// assert_eq!(service.pay(7).await?, 7);
/// # Ok(()) }
/// ```
///
/// # `name`
///
/// A label for logs and metrics, a string literal. By default it is the function's path, as in `billing::pay`.
///
/// ```
/// use lock_runtime::distributed_lock;
///
/// #[distributed_lock(key = "tick", ttl = "8s", on_busy = skip, name = "tick")]
/// async fn on_every_tick() {}
/// ```
///
/// # `crate`
///
/// Where the runtime is, when it has another name or is re-exported. By default it is `::lock_runtime`.
///
/// ```
/// mod app {
///     pub use lock_runtime as locks;
/// }
///
/// #[app::locks::distributed_lock(key = "tick", ttl = "8s", on_busy = skip, crate = app::locks)]
/// async fn tick() {}
/// ```
///
#[doc = include_str!("../docs/recipes.md")]
#[proc_macro_attribute]
pub fn distributed_lock(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(&arguments.into(), &item.into()).into()
}
