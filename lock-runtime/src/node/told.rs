//! What was logged of a node a moment ago. Trouble may come and go many times a second, in turns with other trouble: each is told
//! once a minute, until the node has been well for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// When the same is news again.
const AGAIN: Duration = Duration::from_secs(60);

/// So much may be told in that time. Words may be different every time.
const MOST: usize = 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Told(Vec<(Arc<str>, Instant)>);

impl Told {
    /// Whether this is to be logged now.
    #[must_use]
    pub(super) fn is_news(&mut self, words: &str) -> bool {
        let now = Instant::now();
        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < AGAIN);
        if self.0.len() >= MOST || self.0.iter().any(|(told, _)| **told == *words) {
            return false;
        }
        self.0.push((words.into(), now));
        true
    }

    /// The node has been well for a while: whatever comes next is news.
    pub(super) fn is_well(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_and_goes_is_told_once_a_minute() {
        let mut told = Told::default();
        let mut lines = 0;
        for _ in 0..1_200 {
            lines += usize::from(told.is_news("refused"));
            lines += usize::from(told.is_news("silent"));
            advance(Duration::from_millis(100)).await;
        }
        assert_eq!(lines, 4, "two minutes");
        assert!(told.is_news("something else"));
        told.is_well();
        assert!(told.is_news("refused") && !told.is_news("refused"));
    }

    #[tokio::test(start_paused = true)]
    async fn words_that_are_always_different_have_an_end_too() {
        let mut told = Told::default();
        let lines = (0..1000).filter(|number| told.is_news(&format!("error {number}")));
        assert_eq!(lines.count(), MOST);
        advance(AGAIN).await;
        assert!(told.is_news("error 1"));
        assert_eq!(told.0.len(), 1);
    }
}
