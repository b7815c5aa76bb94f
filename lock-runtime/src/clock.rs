//! Tokio's clock, for what is done where a lease is dropped.

use tokio::runtime::Handle;
use tokio::time::Instant;

/// The time, also in the destructor of a thread-local: there tokio may not know any more on which runtime this thread was,
/// and in a process whose tests have paused a clock it would panic.
pub(crate) fn now() -> Instant {
    match Handle::try_current() {
        Err(error) if error.is_thread_local_destroyed() => std::time::Instant::now().into(),
        _ => Instant::now(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    struct TellsTheTime(Sender<Instant>);

    impl Drop for TellsTheTime {
        fn drop(&mut self) {
            let _ = self.0.send(now());
        }
    }

    thread_local! {
        static AT_THE_END: RefCell<Option<TellsTheTime>> = const { RefCell::new(None) };
    }

    fn runtime() -> Runtime {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().build().expect("a runtime")
    }

    /// What a thread used last is dropped first, and a panic there would end the process.
    #[test]
    fn there_is_a_time_when_the_thread_locals_of_tokio_are_gone() {
        runtime().block_on(async { tokio::time::pause() });
        let (tell, told) = channel();
        let before = std::time::Instant::now();
        let thread = std::thread::spawn(move || {
            AT_THE_END.set(Some(TellsTheTime(tell)));
            runtime().block_on(tokio::task::yield_now());
        });
        thread.join().expect("no panic");
        assert!(told.recv().expect("it was dropped").into_std() >= before);
    }
}
