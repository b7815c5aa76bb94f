//! Which guarded bodies are being polled on this thread: what "the running code holds a lock" means.

use std::cell::RefCell;
use std::sync::Arc;

use crate::lease::Lease;

thread_local! {
    /// The leases of the bodies that are being polled on this thread, the innermost last.
    static RUNNING: RefCell<Vec<Arc<Lease>>> = const { RefCell::new(Vec::new()) };
}

/// Marks a lease as running on this thread, until dropped; by a panic too.
#[derive(Debug)]
pub(crate) struct Running;

impl Running {
    pub(crate) fn enter(lease: &Arc<Lease>) -> Self {
        RUNNING.with_borrow_mut(|leases| leases.push(Arc::clone(lease)));
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let ended = RUNNING.with_borrow_mut(Vec::pop);
        drop(ended);
    }
}

/// The innermost lease whose body is running here, of those that fit.
pub(crate) fn find(fits: impl FnMut(&&Arc<Lease>) -> bool) -> Option<Arc<Lease>> {
    RUNNING.with_borrow(|leases| leases.iter().rev().find(fits).cloned())
}
