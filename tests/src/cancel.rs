//! Dropping a future after so many polls.

use std::pin::{Pin, pin};
use std::task::Poll;

/// Polls a future at most `polls` times and then drops it. `None`: it was dropped before it was ready.
///
/// What a caller does who loses a `select!`, whose timeout fires, or whose client hangs up: at each await in turn.
pub async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut left = polls;
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match Pin::new(&mut future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
