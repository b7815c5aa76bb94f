//! What a guarded function returns when its body did not run to its end.
//!
//! The return type decides: the attribute's expansion calls a function of one of the three traits here, and where the
//! type cannot report what was asked for, the trait's message says what to write instead.

use crate::error::LockError;
use crate::telemetry::Keyless;

/// A return type that can carry any [`LockError`]: `on_busy = error`.
#[diagnostic::on_unimplemented(
    message = "a function under `#[distributed_lock]` that returns `{Self}` cannot say that it was not run",
    label = "the lock may be refused, and this type cannot carry a `LockError`",
    note = "return a `Result<_, E>` whose `E: From<lock_runtime::LockError>` (`LockError` itself, `io::Error`, \
            `anyhow::Error` and `Box<dyn Error>` are such types)",
    note = "or write `on_busy = skip`, if the function returns `()`, `Option<_>`, `Result<(), E>` or \
            `Result<Option<_>, E>`"
)]
pub trait FromLockError: Sized {
    /// `on_busy = error`: the value that reports the error.
    fn fail(name: &'static str, error: LockError) -> Self;
}

/// The error of a return type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be made from a `LockError`",
    label = "the lock may be refused, and this error type cannot say so",
    note = "write `impl From<lock_runtime::LockError> for {Self}`, or with `thiserror` a variant with `#[from] LockError`",
    note = "for a type of another crate, such as `String`, only that crate can: return an error of your own, `anyhow::Error` \
            or `Box<dyn Error + Send + Sync>`"
)]
pub trait LockFailure {
    /// `From`, under a name with a message of its own.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> LockFailure for E {
    fn from_lock_error(error: LockError) -> Self {
        error.into()
    }
}

/// A return type that can report an outage when a busy lock is answered by `on_busy`.
#[diagnostic::on_unimplemented(
    message = "a function under `#[distributed_lock]` that returns `{Self}` cannot report an outage",
    label = "`on_busy` answers a busy lock; this type cannot report that the nodes did not answer",
    note = "return a `Result<_, E>` whose `E: From<lock_runtime::LockError>`, or `()` or `Option<_>`, for which an \
            outage is logged"
)]
pub trait FromOutage: Sized {
    /// The value that reports anything but a busy lock; where the type has none, it is logged as an error.
    fn from_outage(name: &'static str, error: LockError) -> Self;

    /// `on_busy = <expression or closure>`
    fn busy_or(
        name: &'static str,
        error: LockError,
        on_busy: impl FnOnce(LockError) -> Self,
    ) -> Self {
        if error.is_busy() {
            on_busy(error)
        } else {
            Self::from_outage(name, error)
        }
    }
}

/// A return type with a value for "skipped": `on_busy = skip`.
#[diagnostic::on_unimplemented(
    message = "a function under `#[distributed_lock(on_busy = skip)]` that returns `{Self}` has no value for \"skipped\"",
    label = "cannot be skipped",
    note = "return `()`, `Option<_>`, `Result<(), E>` or `Result<Option<_>, E>`, where \
            `E: From<lock_runtime::LockError>` reports an outage",
    note = "or give the value to return: `on_busy = <expression or closure>`"
)]
pub trait Skipped: FromOutage {
    /// The value for "skipped".
    fn skipped() -> Self;

    /// `on_busy = skip`
    fn skip(name: &'static str, error: LockError) -> Self {
        if error.is_busy() {
            tracing::debug!(name, %error, "skipped");
            Self::skipped()
        } else {
            Self::from_outage(name, error)
        }
    }
}

impl<T, E: LockFailure> FromLockError for Result<T, E> {
    fn fail(_name: &'static str, error: LockError) -> Self {
        Err(E::from_lock_error(error))
    }
}

impl<T, E: LockFailure> FromOutage for Result<T, E> {
    fn from_outage(_name: &'static str, error: LockError) -> Self {
        Err(E::from_lock_error(error))
    }
}

impl FromOutage for () {
    fn from_outage(name: &'static str, error: LockError) -> Self {
        if matches!(error, LockError::ShuttingDown { .. }) {
            tracing::info!(name, error = %Keyless(&error), "guarded function did not run");
        } else {
            tracing::error!(name, error = %Keyless(&error), "guarded function did not run");
        }
    }
}

impl<T> FromOutage for Option<T> {
    fn from_outage(name: &'static str, error: LockError) -> Self {
        <()>::from_outage(name, error);
        None
    }
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<T> Skipped for Option<T> {
    fn skipped() -> Self {
        None
    }
}

impl<E: LockFailure> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

impl<T, E: LockFailure> Skipped for Result<Option<T>, E> {
    fn skipped() -> Self {
        Ok(None)
    }
}

#[cfg(feature = "axum")]
#[diagnostic::do_not_recommend]
impl FromLockError for axum_core::response::Response {
    fn fail(_name: &'static str, error: LockError) -> Self {
        axum_core::response::IntoResponse::into_response(error)
    }
}

#[cfg(feature = "axum")]
#[diagnostic::do_not_recommend]
impl FromOutage for axum_core::response::Response {
    fn from_outage(name: &'static str, error: LockError) -> Self {
        Self::fail(name, error)
    }
}
