//! Without a manager nothing runs. One test, as a process has one installed manager.

use lock_runtime::{LockError, LockManager, installed};

#[tokio::test]
async fn no_manager_is_an_error_until_one_is_installed() {
    // The test's own environment must not decide.
    assert!(
        std::env::var_os("LOCK_NODES").is_none(),
        "run this without LOCK_NODES"
    );

    let error = installed().expect_err("nothing is installed");
    assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
    assert!(error.is_outage() && !error.is_busy());
    assert!(error.to_string().contains("LOCK_NODES"), "{error}");

    lock_runtime::install(LockManager::in_memory()).expect("the first");
    assert!(installed().is_ok());
    lock_runtime::install(LockManager::in_memory()).expect_err("a second");
}
