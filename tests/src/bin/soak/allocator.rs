//! The heap of this process: how many bytes were allocated and not freed yet.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static HEAP: Counted = Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are in use now, as they were asked for.
pub(crate) fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The system's allocator. What it does not say itself, how much is in use, cannot be counted without being one.
struct Counted;

// SAFETY: the system's allocator keeps the contract, and counting touches no block. Growing and zeroing are what the trait
// makes of the two methods.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is what the system's allocator asks for.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the block is one that `alloc` has returned.
        unsafe { System.dealloc(block, layout) }
    }
}
