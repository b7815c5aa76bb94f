//! Waiting for a condition, with a deadline. No test sleeps for a duration and hopes.

use std::fmt::Display;
use std::panic::Location;
use std::time::{Duration, Instant};

/// Long enough for a machine whose few cores are busy: a wait that succeeds ends early, so only a failure takes it.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// Between two looks at the condition.
const PAUSE: Duration = Duration::from_millis(5);

/// What a condition may answer: a `bool`, an `Option`, or a `Result` whose error says what is there instead.
pub trait Answer {
    /// What the wait returns.
    type Value;

    /// The value, or the state that the failure reports.
    ///
    /// # Errors
    /// While the condition does not hold.
    fn answer(self) -> Result<Self::Value, String>;
}

impl Answer for bool {
    type Value = ();

    fn answer(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("false".to_owned())
        }
    }
}

impl<T> Answer for Option<T> {
    type Value = T;

    fn answer(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing there".to_owned())
    }
}

impl<T, E: Display> Answer for Result<T, E> {
    type Value = T;

    fn answer(self) -> Result<T, String> {
        self.map_err(|state| state.to_string())
    }
}

/// Waits until the condition holds and returns its value; panics with `what` and the last state at the deadline.
#[track_caller]
pub fn eventually<A: Answer, C: FnMut() -> A>(
    deadline: Duration,
    what: &str,
    mut condition: C,
) -> impl Future<Output = A::Value> + use<A, C> {
    eventually_async(deadline, what, move || std::future::ready(condition()))
}

/// [`eventually`] for a condition that is asked with `.await`.
#[track_caller]
pub fn eventually_async<A: Answer, F: Future<Output = A>, C: FnMut() -> F>(
    deadline: Duration,
    what: &str,
    mut condition: C,
) -> impl Future<Output = A::Value> + use<A, F, C> {
    let wait = Wait::new(deadline, what);
    async move {
        loop {
            match condition().await.answer() {
                Ok(value) => return value,
                Err(state) => wait.not_yet(&state),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// [`eventually`] outside async code.
#[track_caller]
pub fn eventually_blocking<A: Answer>(
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut() -> A,
) -> A::Value {
    let wait = Wait::new(deadline, what);
    loop {
        match condition().answer() {
            Ok(value) => return value,
            Err(state) => wait.not_yet(&state),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Watches that the condition holds the whole time; panics as soon as it does not.
///
/// For what must *not* happen, such as a key that comes back. It proves less than a wait for something that does
/// happen, so prefer [`eventually`] where there is an event to wait for.
#[track_caller]
pub fn stays<A: Answer, C: FnMut() -> A>(
    time: Duration,
    what: &str,
    mut condition: C,
) -> impl Future<Output = ()> + use<A, C> {
    let caller = Location::caller();
    let what = what.to_owned();
    async move {
        let start = Instant::now();
        while start.elapsed() < time {
            if let Err(state) = condition().answer() {
                let elapsed = start.elapsed();
                panic!("{caller}: no longer holds after {elapsed:?}: {what}; now: {state}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One wait: wall-clock time, so that it also ends in a test that has paused tokio's clock.
#[derive(Debug)]
struct Wait {
    caller: &'static Location<'static>,
    what: String,
    start: Instant,
    deadline: Duration,
}

impl Wait {
    #[track_caller]
    fn new(deadline: Duration, what: &str) -> Self {
        Self {
            caller: Location::caller(),
            what: what.to_owned(),
            start: Instant::now(),
            deadline,
        }
    }

    fn not_yet(&self, state: &str) {
        let elapsed = self.start.elapsed();
        assert!(
            elapsed < self.deadline,
            "{}: not within {:?}: {}; last state: {state}",
            self.caller,
            self.deadline,
            self.what,
        );
    }
}
