//! Waiting until replicas have what was written over a connection, for many writers at a time.
//!
//! `WAIT` holds up its connection: what is sent behind it is executed when it is answered. So there is one at a time, sent
//! when whoever needs it has the answer to his own write, and it speaks for everything that was written over the connection
//! before. Whoever comes while it is on its way waits for the next one, together with all others who did. Its own time is a third of
//! `node_timeout`, so that a write that had to wait behind one, and then for its own, is answered in time where the replicas do not
//! answer.
//!
//! It is asked for what takes or keeps a lock: acquires, renewals, and fencing tokens that are raised. Not for releases: a
//! release that is lost with the primary leaves the lock on the promoted replica until its TTL has run out, so others
//! wait longer, and nobody holds twice. Whatever is granted after a release is written after it, so a replica that has the
//! grant has the release too.
//!
//! What it promises: while one of the `replicas` that said they have it is promoted, the promoted server has the lock. What it
//! does not: where there are more replicas than were asked for, another one may be promoted. Sentinels choose the one that
//! got furthest, as far as they know, but look at `replica-priority` first. Nor is a replica asked to write to its disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::NodeError;

/// How many replicas have it, or why that is not known.
pub(super) type Said = Result<u64, Arc<str>>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Barrier {
    replicas: u64,
    /// `None`: the connection is gone.
    waiting: Mutex<Option<Vec<oneshot::Sender<Said>>>>,
    came: Notify,
}

impl Barrier {
    /// `None`: no replica is asked.
    pub(super) fn new(replicas: usize) -> Option<Self> {
        let replicas = u64::try_from(replicas).unwrap_or(u64::MAX);
        (replicas > 0).then(|| Self {
            replicas,
            waiting: Mutex::new(Some(Vec::new())),
            came: Notify::new(),
        })
    }

    /// For a write that was answered: what comes of the first `WAIT` that is sent from now on.
    pub(super) fn join(&self) -> oneshot::Receiver<Said> {
        let (sender, said) = oneshot::channel();
        if let Some(waiting) = &mut *self.waiting() {
            waiting.push(sender);
            self.came.notify_one();
        }
        said
    }

    /// Whether that is enough.
    ///
    /// # Errors
    ///
    /// In words for an operator.
    pub(super) fn judge(&self, said: Said) -> Result<(), NodeError> {
        let have_it = said?;
        if have_it >= self.replicas {
            return Ok(());
        }
        let asked = self.replicas;
        let plural = |count| if count == 1 { "" } else { "s" };
        let has = if have_it == 1 { "has" } else { "have" };
        let words = format!(
            "{asked} replica{} asked for, {have_it} {has} it",
            plural(asked)
        );
        Err(Arc::<str>::from(words).into())
    }

    /// Asks, with `wait`, for all who came meanwhile, again and again. Never returns; once it is dropped nobody waits any more.
    pub(super) async fn keep_asking<F: Future<Output = Said>>(&self, wait: impl Fn(u64) -> F) {
        let _close = Close(self);
        loop {
            self.came.notified().await;
            let batch = self.waiting().as_mut().map(std::mem::take);
            let batch = batch.unwrap_or_default();
            if batch.is_empty() {
                continue;
            }
            let said = wait(self.replicas).await;
            for one in batch {
                // Whoever has gone need not know.
                let _ = one.send(said.clone());
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Vec<oneshot::Sender<Said>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how long a server may wait for its replicas: whole milliseconds, as none would be for ever.
pub(super) fn time(node_timeout: Duration) -> u64 {
    u64::try_from((node_timeout / 3).as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}

struct Close<'a>(&'a Barrier);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.waiting().take();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;

    use futures_util::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn one_question_is_on_its_way_at_a_time_and_speaks_for_all_who_came_before() {
        let barrier = Barrier::new(2).expect("replicas");
        let answers = RefCell::new(Vec::new());
        let mut asking = pin!(barrier.keep_asking(|replicas| {
            assert_eq!(replicas, 2);
            let (answer, said) = oneshot::channel::<Said>();
            answers.borrow_mut().push(answer);
            async { said.await.expect("an answer") }
        }));
        assert!(poll!(&mut asking).is_pending());
        assert!(answers.borrow().is_empty(), "nobody needs it");

        let first = [barrier.join(), barrier.join()];
        assert!(poll!(&mut asking).is_pending());
        let second = [barrier.join(), barrier.join(), barrier.join()];
        drop(barrier.join());
        assert!(poll!(&mut asking).is_pending());
        assert_eq!(answers.borrow().len(), 1);

        let answer = answers.borrow_mut().remove(0);
        answer.send(Ok(2)).expect("asked");
        assert!(poll!(&mut asking).is_pending());
        for said in first {
            assert_eq!(said.now_or_never(), Some(Ok(Ok(2))));
        }
        assert_eq!(answers.borrow().len(), 1, "one for all the others");
        let answer = answers.borrow_mut().remove(0);
        answer.send(Err("no".into())).expect("asked");
        assert!(poll!(&mut asking).is_pending());
        for said in second {
            assert_eq!(said.now_or_never(), Some(Ok(Err("no".into()))));
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_connection_that_is_gone() {
        let barrier = Barrier::new(1).expect("replicas");
        let before = {
            let mut asking = pin!(barrier.keep_asking(|_| std::future::pending()));
            let before = [barrier.join(), barrier.join()];
            assert!(poll!(&mut asking).is_pending());
            before
        };
        for said in before.into_iter().chain([barrier.join()]) {
            assert!(said.now_or_never().expect("at once").is_err());
        }
    }

    #[test]
    fn words_say_how_many_are_missing() {
        for (asked, said, words) in [
            (1, Ok(0), "1 replica asked for, 0 have it"),
            (2, Ok(1), "2 replicas asked for, 1 has it"),
            (3, Ok(2), "3 replicas asked for, 2 have it"),
            (1, Err("NOPERM".into()), "NOPERM"),
        ] {
            let barrier = Barrier::new(asked).expect("replicas");
            assert_eq!(barrier.judge(said), Err(words.into()));
        }
        for (asked, have_it) in [(1, 1), (1, 5), (2, 2)] {
            let barrier = Barrier::new(asked).expect("replicas");
            assert_eq!(barrier.judge(Ok(have_it)), Ok(()));
        }
        assert!(Barrier::new(0).is_none());
    }

    #[test]
    fn a_server_never_waits_for_ever() {
        assert_eq!(time(Duration::from_millis(50)), 16);
        assert_eq!(time(Duration::from_millis(1)), 1);
        assert_eq!(time(Duration::ZERO), 1);
        assert_eq!(time(Duration::MAX), u64::MAX);
    }
}
