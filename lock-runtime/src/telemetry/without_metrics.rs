//! In the place of a recorder where the feature is not compiled in: nothing, in no space and no time.
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
pub(crate) struct Call;

impl Call {
    pub(crate) fn begin(_: &'static str) -> Self {
        Self
    }

    pub(crate) fn ended(self, _: Outcome) {}
}

#[derive(Debug, Default)]
pub(crate) struct Described(());

impl Described {
    pub(crate) fn once(&self) {}
}

#[derive(Debug)]
pub(crate) struct NodeMeter;

impl NodeMeter {
    pub(crate) fn new(_: &Arc<str>) -> Self {
        Self
    }

    pub(crate) fn answered(&self, _: Instant) {}
    pub(crate) fn failed(&self, _: &'static str) {}
}

pub(crate) fn handed_over(_: &'static str) {}
pub(crate) fn held(_: &'static str, _: Duration, _: Duration) {}
pub(crate) fn lost(_: &'static str, _: &'static str) {}
pub(crate) fn renewed(_: &'static str, _: Renewal) {}
pub(crate) fn release_failed(_: &'static str) {}
pub(crate) fn attempted(_: Attempted) {}

pub(crate) fn watch(_: &Arc<str>, _: impl Fn() -> Option<NodeState>) -> Option<Ready<()>> {
    None
}
