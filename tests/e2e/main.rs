//! End to end: the real daemon, a real socket, a real HTTP model server.
//!
//! One file a subject, named as at the other layers. What a client saw is a snapshot.
//!
//! Receives the harness; hands out transcripts.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing fails")]

mod agentctl;
mod autostart;
mod background;
mod budget;
mod calls;
mod commands;
mod context;
mod crash;
mod daemon;
mod documents;
mod early;
mod interface;
mod interrupt;
mod lease;
mod permission;
mod process;
mod queue;
mod recovery;
mod retries;
mod rollback;
mod scene;
mod shared;
mod steering;
mod strangers;
mod streams;
mod submission;
mod turn;
mod watch;
