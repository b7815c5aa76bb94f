//! The manager of the process, which the attribute uses unless it is told another one.

use once_cell::sync::OnceCell;

use crate::error::{AlreadyInstalled, ConfigError, LockError};
use crate::manager::LockManager;

static INSTALLED: OnceCell<LockManager> = OnceCell::new();

/// Makes this the manager of the process. Call it once, before the first guarded call.
///
/// # Errors
///
/// [`AlreadyInstalled`], when there is one already; also one that a guarded call made from `LOCK_NODES`.
pub fn install(manager: LockManager) -> Result<(), AlreadyInstalled> {
    INSTALLED.set(manager).map_err(|_| AlreadyInstalled)
}

/// The manager of the process: the one that was installed, else one made from `LOCK_NODES` at the first call.
///
/// # Errors
///
/// [`LockError::NotConfigured`], when nothing was installed and `LOCK_NODES` is not set or cannot be used. It is read
/// again at the next call.
pub fn installed() -> Result<LockManager, LockError> {
    INSTALLED
        .get_or_try_init(LockManager::from_env)
        .cloned()
        .map_err(|error| LockError::NotConfigured {
            reason: match error {
                ConfigError::NoNodes => {
                    "call lock_runtime::install() when the service starts, or list the nodes in \
                                         LOCK_NODES, which names none"
                        .into()
                }
                error => format!("none was installed, and of LOCK_NODES: {error}").into(),
            },
        })
}
