//! What happens to a hold, for whoever looks on: told once its state is unlocked.
//!
//! A recorder and a subscriber are anybody's code. They may ask for the lease themselves, wait for somebody who does, or panic;
//! and those who stand in line for the lock must not wait for them.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use super::{Hold, Loss, State};
use crate::telemetry::Renewal;

/// See the [module](self).
#[derive(Clone, Copy)]
pub(super) enum News {
    /// It has ended; and is lost with that, unless its body was told so before.
    Ended(Option<Loss>),
    /// Its body is told to stop, and has it until then.
    Lost(Loss),
    Renewed(Renewal),
}

/// The state of a hold, while it is locked.
pub(super) struct Locked<'a> {
    // Dropped in this order: unlocked, and then told.
    state: MutexGuard<'a, State>,
    untold: Untold<'a>,
}

/// Told when it is dropped.
pub(super) struct Untold<'a> {
    hold: &'a Hold,
    /// No more than two things happen at once.
    news: [Option<News>; 2],
}

impl<'a> Locked<'a> {
    pub(super) fn new(hold: &'a Hold, state: MutexGuard<'a, State>) -> Self {
        let untold = Untold {
            hold,
            news: [None; 2],
        };
        Self { state, untold }
    }

    /// Whoever is woken by what has happened need not wait until it is told.
    pub(super) fn unlock(self) -> Untold<'a> {
        self.untold
    }

    /// Once it is unlocked.
    pub(super) fn tell(&mut self, news: News) {
        let place = self.untold.news.iter_mut().find(|place| place.is_none());
        if let Some(place) = place {
            *place = Some(news);
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        for news in self.news.into_iter().flatten() {
            self.hold.tell(news);
        }
    }
}

impl Hold {
    fn tell(&self, news: News) {
        match news {
            News::Ended(loss) => {
                if let Some(loss) = loss {
                    self.tell_loss(loss);
                }
                self.named.held(self.held_for(), self.ttl);
            }
            News::Lost(loss) => self.tell_loss(loss),
            News::Renewed(renewal) => self.named.renewed(renewal),
        }
    }

    fn tell_loss(&self, loss: Loss) {
        let (name, reason) = (self.named.name(), loss.word());
        self.named.lost(reason);
        tracing::warn!(name, reason, "lease lost");
    }
}
