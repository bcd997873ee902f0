//! Failures that were met in public programs, each a test named after its id.
//!
//! Cases that one module can show alone are tested beside that module, under the same id.
//!
//! Receives the harness; hands out what the daemon does with each input.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing fails")]

#[macro_use]
mod wires;

mod compaction;
mod daemon;
mod history;
mod json_rpc;
mod life;
mod prompts;
mod requests;
mod socket;
mod store;
