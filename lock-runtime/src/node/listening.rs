//! Which channels are listened to over one connection, and that the server tells of these and of no others.
//!
//! Listeners are counted by channel. What the server was told follows in the background, one round of commands after the
//! other, and is begun anew with each connection. Nothing is left for a channel that nobody listens to: not here, and not on
//! the server. What is published goes to a counter that listeners watch, so nothing waits in line.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{PushInfo, PushKind, RedisError, Value};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::listener::{Board, Listener, Standing};
use super::words::words;

/// How many channels one command names at the most.
const MOST_AT_ONCE: usize = 256;

/// After an error that may pass.
const PAUSE: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Listening {
    state: Mutex<State>,
    /// There may be something to tell the server.
    differs: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: BTreeMap<Arc<str>, Channel>,
    /// Those of them that the server may have to be told of.
    unsettled: BTreeSet<Arc<str>>,
    /// Why the server does not take subscriptions over this connection, by [`shape`].
    refused: [Option<Arc<str>>; 2],
}

#[derive(Debug, Default)]
struct Channel {
    listeners: u64,
    server: Server,
    board: Arc<Board>,
}

/// What the server knows of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Server {
    #[default]
    Nothing,
    /// A command is on its way that changes it.
    Changing,
    Subscribed,
    /// What became of that command is not known, so it is to be told again.
    Unknown,
}

/// What to tell the server next.
#[derive(Debug, Default, PartialEq, Eq)]
struct Round {
    unsubscribe: Vec<Arc<str>>,
    /// By [`shape`].
    subscribe: [Vec<Arc<str>>; 2],
}

/// Where a server can be told which channels a connection listens to.
pub(crate) trait Subscriptions {
    /// Has it tell this connection of what is published on these channels.
    fn subscribe(
        &self,
        channels: &[Arc<str>],
    ) -> impl Future<Output = Result<(), RedisError>> + Send;

    /// Has it tell no more of them.
    fn unsubscribe(
        &self,
        channels: &[Arc<str>],
    ) -> impl Future<Output = Result<(), RedisError>> + Send;
}

/// Users are given patterns of channels. Under a prefix there are names of two shapes, so a server that refuses one name
/// need not be asked for others of its shape: each question would be in its log.
fn shape(name: &str) -> usize {
    usize::from(name.starts_with('{'))
}

impl Listening {
    /// Another listener, who may have to wait until the server knows.
    pub(crate) fn join(self: &Arc<Self>, name: &Arc<str>) -> Listener {
        let mut state = self.state();
        let State {
            channels,
            unsettled,
            refused,
        } = &mut *state;
        let channel = channels.entry(Arc::clone(name)).or_default();
        channel.listeners += 1;
        if channel.listeners == 1 && channel.server == Server::Nothing {
            if let Some(reason) = &refused[shape(name)] {
                channel.set(Standing::Refused(Arc::clone(reason)));
            } else {
                unsettled.insert(Arc::clone(name));
                self.differs.notify_one();
            }
        }
        Listener::new(
            Arc::clone(name),
            Arc::clone(&channel.board),
            Arc::clone(self),
        )
    }

    /// A listener less.
    pub(super) fn leave(&self, name: &str) {
        let mut state = self.state();
        let Some((name, mut channel)) = state.channels.remove_entry(name) else {
            return;
        };
        channel.listeners -= 1;
        if channel.listeners == 0 {
            if channel.server == Server::Nothing {
                state.unsettled.remove(&name);
                return;
            }
            state.unsettled.insert(Arc::clone(&name));
            self.differs.notify_one();
        }
        state.channels.insert(name, channel);
    }

    /// Wakes who listens to the channel: somebody had the lock who had waited for it so long. Answers how many listen.
    pub(crate) fn tell(&self, name: &str, waited: Duration) -> u64 {
        let state = self.state();
        let Some(channel) = state.channels.get(name) else {
            return 0;
        };
        let (listeners, board) = (channel.listeners, Arc::clone(&channel.board));
        // A task that is woken may be dropped instead, and its listener with it.
        drop(state);
        board.wake(waited);
        listeners
    }

    /// Takes what a server says that was not asked. Whatever else it may be: nobody waits for it.
    pub(super) fn hear(&self, push: &PushInfo) {
        if push.kind == PushKind::Message
            && let Some(Value::BulkString(name)) = push.data.first()
            && let Ok(name) = std::str::from_utf8(name)
        {
            let millis = match push.data.get(1) {
                Some(Value::BulkString(millis)) => std::str::from_utf8(millis).ok(),
                _ => None,
            };
            let millis = millis.and_then(|millis| millis.parse().ok());
            self.tell(name, Duration::from_millis(millis.unwrap_or(0)));
        }
    }

    /// Whether the server tells this connection of what is published there.
    pub(crate) fn is_subscribed(&self, name: &str) -> bool {
        let state = self.state();
        let channel = state.channels.get(name);
        channel.is_some_and(|channel| channel.server == Server::Subscribed)
    }

    /// The connection is gone, and with it all subscriptions: releases may be missed from now on, or were.
    pub(crate) fn lost(&self) {
        let mut state = self.state();
        state.refused = [None, None];
        state.channels.retain(|_, channel| channel.listeners > 0);
        state.unsettled = state.channels.keys().map(Arc::clone).collect();
        let wakes: Vec<_> = state
            .channels
            .values_mut()
            .map(|channel| {
                channel.server = Server::Nothing;
                channel.set(Standing::Sought);
                Arc::clone(&channel.board)
            })
            .collect();
        drop(state);
        wake_all(&wakes);
    }

    /// Has those who listen to such channels listen elsewhere: the server that releases are published on is another one.
    pub(super) fn send_away(&self, left: impl Fn(&str) -> bool) {
        let state = self.state();
        let boards: Vec<_> = state
            .channels
            .iter()
            .filter(|(name, _)| left(name))
            .map(|(_, channel)| Arc::clone(&channel.board))
            .collect();
        drop(state);
        for board in boards {
            board.send_away();
        }
    }

    /// Tells the server of every change, for as long as there is this connection.
    pub(crate) async fn keep_told(&self, link: &impl Subscriptions, node: &str) {
        let mut may_unsubscribe = false;
        loop {
            let round = self.next_round().await;
            let mut answers = Vec::new();
            if !round.unsubscribe.is_empty() {
                let answer = link.unsubscribe(&round.unsubscribe).await;
                answers.push(self.unsubscribed(&round.unsubscribe, answer));
            }
            for names in round.subscribe.iter().filter(|names| !names.is_empty()) {
                let mut answer = Ok(());
                // A server that cannot be made to stop is not made to begin.
                if !may_unsubscribe {
                    answer = link.unsubscribe(names).await;
                    may_unsubscribe = answer.is_ok();
                }
                if may_unsubscribe {
                    answer = link.subscribe(names).await;
                }
                answers.push(self.subscribed(names, answer));
            }
            for answer in answers {
                match answer {
                    Told::Done | Told::Refused { again: true, .. } => {}
                    Told::Refused { reason, .. } => tracing::warn!(
                        %node,
                        %reason,
                        "lock node cannot be listened to, so it is asked from time to time whether a lock is free"
                    ),
                    Told::Failed => sleep(PAUSE).await,
                }
            }
        }
    }

    async fn next_round(&self) -> Round {
        loop {
            let round = self.state().next_round();
            if round != Round::default() {
                return round;
            }
            self.differs.notified().await;
        }
    }

    /// The server has answered to a subscription.
    fn subscribed(&self, names: &[Arc<str>], answer: Result<(), RedisError>) -> Told {
        let now = match &answer {
            Ok(()) => Server::Subscribed,
            Err(error) if is_refusal(error) => Server::Nothing,
            Err(_) => Server::Unknown,
        };
        let shapes = names.iter().map(|name| shape(name));
        self.settle(names, now, answer, shapes)
    }

    /// The server has answered to the end of one. Where it is not permitted to end any, none is begun; what it goes on
    /// telling is heard by nobody.
    fn unsubscribed(&self, names: &[Arc<str>], answer: Result<(), RedisError>) -> Told {
        let now = match &answer {
            Err(error) if !is_refusal(error) => Server::Unknown,
            Ok(()) | Err(_) => Server::Nothing,
        };
        self.settle(names, now, answer, [0, 1])
    }

    fn settle(
        &self,
        names: &[Arc<str>],
        now: Server,
        answer: Result<(), RedisError>,
        concerned: impl IntoIterator<Item = usize>,
    ) -> Told {
        let mut state = self.state();
        let mut wakes = Vec::new();
        for name in names {
            wakes.extend(state.settle(name, now));
        }
        let told = match answer {
            Ok(()) => Told::Done,
            Err(error) if is_refusal(&error) => {
                let reason = words(&error);
                let again = state.refused.iter().any(Option::is_some);
                for shape in concerned {
                    state.refused[shape] = Some(Arc::clone(&reason));
                }
                wakes.extend(state.refuse());
                Told::Refused { reason, again }
            }
            Err(_) => Told::Failed,
        };
        if !state.unsettled.is_empty() {
            self.differs.notify_one();
        }
        drop(state);
        wake_all(&wakes);
        told
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.channels.is_empty() && state.unsettled.is_empty()
    }

    /// What there is now. A panic elsewhere cannot have left it half written: nothing in between can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of telling the server something.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Done,
    /// And will not be tried any more over this connection. `again`: nor was something before.
    Refused {
        reason: Arc<str>,
        again: bool,
    },
    /// It is tried again.
    Failed,
}

type Wake = Arc<Board>;

fn wake_all(boards: &[Wake]) {
    for board in boards {
        board.wake(Duration::ZERO);
    }
}

/// Not permitted, or not known: neither passes by itself.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOPERM" | "ERR"))
}

impl State {
    /// What differs, at the most as much as one command may name.
    fn next_round(&mut self) -> Round {
        let mut round = Round::default();
        let names: Vec<_> = self.unsettled.iter().take(MOST_AT_ONCE).cloned().collect();
        for name in names {
            self.unsettled.remove(&name);
            let Some(channel) = self.channels.get_mut(&name) else {
                continue;
            };
            match (channel.listeners, channel.server) {
                (0, Server::Subscribed | Server::Unknown) => {
                    // Who joins now has to wait until it is subscribed to again.
                    channel.set(Standing::Sought);
                    round.unsubscribe.push(name);
                }
                (1.., Server::Nothing | Server::Unknown) => {
                    round.subscribe[shape(&name)].push(name);
                }
                // There was a listener in time. Or it is looked at when the command is answered.
                (1.., Server::Subscribed) | (_, Server::Changing) | (0, Server::Nothing) => {
                    continue;
                }
            }
            channel.server = Server::Changing;
        }
        round
    }

    /// What the server knows of a channel now. Answers who is to be woken.
    fn settle(&mut self, name: &Arc<str>, now: Server) -> Option<Wake> {
        let channel = self.channels.get_mut(name)?;
        channel.server = now;
        match (channel.listeners, now) {
            (0, Server::Nothing) => {
                self.channels.remove(name);
                return None;
            }
            (0, Server::Subscribed) | (1.., Server::Nothing) | (_, Server::Unknown) => {
                self.unsettled.insert(Arc::clone(name));
            }
            (1.., Server::Subscribed) | (_, Server::Changing) => {}
        }
        if now == Server::Subscribed {
            channel.set(Standing::Subscribed);
            // While it was not, a release may have been missed.
            return Some(Arc::clone(&channel.board));
        }
        None
    }

    /// What the server refuses is not tried. Answers who is to be woken.
    fn refuse(&mut self) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for (name, channel) in &self.channels {
            if channel.server == Server::Nothing
                && let Some(reason) = &self.refused[shape(name)]
            {
                channel.set(Standing::Refused(Arc::clone(reason)));
                self.unsettled.remove(name);
                wakes.push(Arc::clone(&channel.board));
            }
        }
        wakes
    }
}

impl Channel {
    /// Wakes nobody yet.
    fn set(&self, standing: Standing) {
        self.board.set(standing);
    }
}

#[cfg(test)]
mod tests;
