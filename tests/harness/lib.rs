//! What tests of the whole need: a daemon, a model server, a client, a transcript, and waiting.
//!
//! Everything is real: the daemon is a process, the model server speaks HTTP on loopback, the
//! client writes bytes to the socket. Nothing sleeps for a time; each wait is for a state, has one
//! overall deadline, and says what it saw when that passes.
//!
//! Receives wishes of tests; hands out processes, sockets and files that are gone when the test
//! is, also when it panics.

#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on panics, everywhere")]

pub mod client;
pub mod daemon;
pub mod dialect;
pub mod history;
pub mod model_server;
pub mod picture;
pub mod terminal;
pub mod transcript;
pub mod wait;

pub use client::{Client, Framing};
pub use daemon::Daemon;
pub use dialect::Dialect;
pub use model_server::{Answer, Gate, ModelServer};
pub use terminal::Terminal;
pub use transcript::Transcript;
