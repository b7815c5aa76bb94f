//! In the place of a recorder where the feature is not compiled in: nothing but the names, in no time.
#![expect(
    clippy::unused_self,
    reason = "called as what stands in its place with the feature"
)]

use std::future::Ready;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Attempted, NodeState, Outcome, Renewal};

#[derive(Debug)]
pub(crate) struct Meters(());

impl Meters {
    pub(crate) fn new() -> Self {
        Self(())
    }

    pub(crate) fn of(&self, name: &'static str) -> Named {
        Named { name }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: &'static str,
}

impl Named {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn call(&self) -> Call {
        Call(())
    }

    pub(crate) fn handed_over(&self) {}
    pub(crate) fn held(&self, _: Duration, _: Duration) {}
    pub(crate) fn lost(&self, _: &'static str) {}
    pub(crate) fn renewed(&self, _: Renewal) {}
    pub(crate) fn release_failed(&self) {}
}

#[derive(Debug)]
pub(crate) struct Call(());

impl Call {
    pub(crate) fn ended(self, _: Outcome) {}
}

#[derive(Debug)]
pub(crate) struct NodeMeter(());

impl NodeMeter {
    pub(crate) fn new(_: &Arc<str>) -> Self {
        Self(())
    }

    pub(crate) fn answered(&self, _: Instant) {}
    pub(crate) fn failed(&self, _: &'static str) {}
}

pub(crate) fn attempted(_: Attempted) {}
pub(crate) fn refused(_: &'static str) {}

pub(crate) fn watch(_: &Arc<str>, _: impl Fn() -> Option<NodeState>) -> Option<Ready<()>> {
    None
}
