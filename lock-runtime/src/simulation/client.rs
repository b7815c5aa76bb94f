//! A client process: a runtime of its own, whose clock stands still unless it is run, so that a pause is a pause.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Sleep, sleep_until};

use super::clock::Clock;
use super::network::Shared;
use super::scenario::END;
use super::workload;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Client {
    number: usize,
    runtime: Runtime,
    clock: Clock,
    shared: Arc<Shared>,
    alarm: Option<Pin<Box<Sleep>>>,
    now: u64,
    paused: bool,
}

impl Client {
    /// With its workers, which wait to be run.
    pub(super) fn new(number: usize, shared: &Arc<Shared>) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            // Looks after each task whether to stop here.
            .event_interval(1)
            .build()
            .expect("a runtime");
        let clock = {
            let _inside = runtime.enter();
            let clock = Clock::start();
            for worker in workload::of(number, clock, shared) {
                runtime.spawn(worker);
            }
            clock
        };
        Self {
            number,
            runtime,
            clock,
            shared: Arc::clone(shared),
            alarm: None,
            now: 0,
            paused: false,
        }
    }

    /// Whether there is anything to do before it hears something.
    pub(super) fn has_work(&self) -> bool {
        let network = self.shared.network();
        let pauses = network.outside[self.number].pause;
        let pauses = pauses.is_some_and(|(from, _)| from <= self.now);
        !self.paused && self.now < END && (pauses || self.now < network.runs_until(self.number))
    }

    /// Runs until then. If that is where it is paused: until when.
    pub(super) fn run(&mut self) -> Option<u64> {
        self.run_from(self.now)
    }

    /// Runs again after a pause.
    pub(super) fn resume(&mut self, at: u64) -> Option<u64> {
        self.paused = false;
        self.run_from(at)
    }

    fn run_from(&mut self, from: u64) -> Option<u64> {
        let drive = Drive {
            number: self.number,
            clock: self.clock,
            shared: &self.shared,
            alarm: &mut self.alarm,
            from,
        };
        self.now = self.runtime.block_on(drive);
        let mut network = self.shared.network();
        let (now, number) = (self.now, self.number);
        let outside = &mut network.outside[number];
        outside.now = now;
        let pause = outside.pause.filter(|(from, _)| *from <= now && now < END);
        outside.paused = pause.is_some();
        match pause {
            Some((_, to)) => {
                self.paused = true;
                network.plan_pause(&self.shared.scenario, number, to.max(now + 1));
                Some(to.max(now + 1))
            }
            None => None,
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// How many tasks have not ended.
    pub(super) fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// Leaves what still runs where it is: its end would have leases released by real threads.
    pub(super) fn abandon(self) {
        std::mem::forget(self.runtime);
    }
}

/// Runs everything that a client has to do until it hears something, is paused, or the world ends.
struct Drive<'a> {
    number: usize,
    clock: Clock,
    shared: &'a Shared,
    alarm: &'a mut Option<Pin<Box<Sleep>>>,
    from: u64,
}

impl Drive<'_> {
    /// Asks leases how long they are good, while they are.
    fn look(&self, now: u64) {
        let live = self.shared.network().recorder.due(self.number, now);
        for (id, lease) in live {
            let left = lease.remaining();
            let recorder = &mut self.shared.network().recorder;
            recorder.looked(&[id], now, left);
        }
    }
}

impl Future for Drive<'_> {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let this = self.get_mut();
        let slept = this.from.saturating_sub(this.clock.now());
        if slept > 0 {
            // The clock moves with the first poll; what follows would only let others run first.
            let _ = tokio::time::advance(Duration::from_millis(slept)).now_or_never();
        }
        loop {
            let now = this.clock.now();
            this.look(now);
            let wake = {
                let mut network = this.shared.network();
                let until = network.runs_until(this.number);
                if until <= now {
                    return Poll::Ready(now);
                }
                let look = network.recorder.look_at(this.number, now);
                let wake = look.unwrap_or(until).min(until);
                let outside = &mut network.outside[this.number];
                outside.armed = until;
                if !outside
                    .waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(context.waker()))
                {
                    outside.waker = Some(context.waker().clone());
                }
                wake
            };
            let wake = this.clock.at(wake);
            let alarm = this
                .alarm
                .get_or_insert_with(|| Box::pin(sleep_until(wake)));
            if alarm.deadline() != wake {
                alarm.as_mut().reset(wake);
            }
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
