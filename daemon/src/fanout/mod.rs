//! Fan-out: what a session's watchers are told, each line made once for all of them.
//!
//! A hub per watched or working session holds the number of the last event, the session as of it,
//! and what is in flight. Publishing an event, publishing progress and joining are each one short
//! critical section without a wait, so a joiner sees exactly what was published before it and gets
//! exactly what is published after. Lines go into a bounded ring; a watcher that falls behind
//! loses the ring's oldest entries and finds the events in the log.
//!
//! Invariants: *a slow client hurts only itself*: publishing never waits. A hub that nobody
//! watches and in which nothing is in flight is dropped.
//!
//! Receives committed events and progress from `journal`; hands entries to subscriptions.

mod hub;
mod hubs;

#[cfg(test)]
mod tests;

pub use hub::{Entry, Join, Joined, Line, Seed, Seeding};
pub use hubs::{Hubs, Watch};
