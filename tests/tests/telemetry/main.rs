//! What an operator sees: metrics, spans and events, that they are what `docs/telemetry.md` says, and that they tell no key.

mod bystanders;
mod calls;
mod journal;
mod measured;
mod nodes;
mod scenario;
mod spans;
mod table;
