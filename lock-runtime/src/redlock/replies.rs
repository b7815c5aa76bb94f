//! Answers of several nodes, taken as they come, and the time they may take.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::node::{Limit, NodeError, Reply};

/// Answers on their way.
///
/// A handful of nodes: to poll each of them when one has answered costs less than to keep track of which one it was.
pub(super) struct Replies<T> {
    pending: Vec<Pending<T>>,
    /// Answers that came while the requests were handed over.
    early: Vec<(usize, Result<T, NodeError>)>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// The alarm has rung, and everything else that was ready then is being run first.
    ringing: bool,
}

struct Pending<T> {
    node: usize,
    limit: Limit,
    reply: Reply<T>,
}

impl<T> Replies<T> {
    /// None yet, with room for so many.
    pub(super) fn of(nodes: usize) -> Self {
        Self {
            pending: Vec::with_capacity(nodes),
            early: Vec::new(),
            alarm: None,
            ringing: false,
        }
    }

    pub(super) fn push(&mut self, node: usize, limit: Limit, reply: Reply<T>) {
        self.pending.push(Pending { node, limit, reply });
        self.alarm = None;
    }

    pub(super) fn add(&mut self, others: Self) {
        if self.is_empty() {
            // With its alarm, which need not be set again.
            *self = others;
        } else {
            self.pending.extend(others.pending);
            self.early.extend(others.early);
            self.alarm = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.early.is_empty()
    }

    /// Hands the requests to their nodes, in the order in which they were pushed, without waiting for an answer.
    pub(super) async fn hand_over(&mut self) {
        std::future::poll_fn(|context| {
            for mut pending in std::mem::take(&mut self.pending) {
                match pending.reply.as_mut().poll(context) {
                    Poll::Ready(answer) => self.early.push((pending.node, answer)),
                    Poll::Pending => self.pending.push(pending),
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// The next answer, or the next node whose time is over. `None`: there are no more.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T, NodeError>)> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<T, NodeError>)>> {
        if let Some(early) = self.early.pop() {
            return Poll::Ready(Some(early));
        }
        loop {
            if self.pending.is_empty() {
                return Poll::Ready(None);
            }
            for index in 0..self.pending.len() {
                if let Poll::Ready(answer) = self.pending[index].reply.as_mut().poll(context) {
                    let answered = self.pending.swap_remove(index);
                    return Poll::Ready(Some((answered.node, answer)));
                }
            }
            if !self.time_is_over(context) {
                return Poll::Pending;
            }
        }
    }

    /// Ends the limits that have been reached. An answer that is already here counts, even if this process was too busy
    /// to read it in time: so what was ready to run when the alarm rang is run before.
    fn time_is_over(&mut self, context: &mut Context<'_>) -> bool {
        let limits = || {
            let pending = self.pending.iter().map(|pending| &pending.limit);
            pending.filter(|limit| !limit.is_over())
        };
        let Some(earliest) = limits().map(Limit::at).min() else {
            return false;
        };
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(sleep_until(earliest)));
        if alarm.as_mut().poll(context).is_pending() {
            return false;
        }
        if !std::mem::replace(&mut self.ringing, true) {
            context.waker().wake_by_ref();
            return false;
        }
        let now = Instant::now();
        limits()
            .filter(|limit| limit.at() <= now)
            .for_each(Limit::end);
        self.alarm = None;
        self.ringing = false;
        true
    }
}
