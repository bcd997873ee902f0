//! The socket's side: connections, framing, JSON-RPC, and the methods.
//!
//! ```text
//! listener ──> peer          may it come in?
//!    └──> connection         reads, in order
//!            └──> envelope ──> dispatch ──> module ──> handlers ──> session::registry
//!         outbound <── answers, and what subscriptions forward
//! ```
//!
//! A dispatcher of our own over jsonrpsee's methods, because its server knows neither our socket
//! nor our framings, runs no notification, and loses the order of submissions. Everything a
//! connection needs is bounded: its calls, its queue, its batches, its messages.
//!
//! How cancelling reads here: the protocol has no request that cancels another. What can be
//! cancelled is a turn, by the submission `interrupt`, which is handed to its session after what
//! was sent before it; the submission that started the turn keeps its one answer.
//!
//! Receives sockets from `boot`; hands requests to `session::registry` and answers to clients.

mod batch;
mod connection;
mod context;
mod dispatch;
mod envelope;
mod error;
mod handlers;
mod listener;
mod module;
mod outbound;
mod params;
mod peer;
mod service;
mod subscriptions;
#[cfg(test)]
mod testing;

pub use connection::MAX_CALLS;
pub use dispatch::Dispatch;
pub use envelope::MAX_BATCH;
pub use listener::{Door, run};
pub use module::methods;
pub use peer::IsTool;
pub use service::Service;
