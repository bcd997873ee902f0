//! agentd: a local daemon that owns LLM-agent sessions.
//!
//! The walk of a prompt, which is also the reading order of the modules:
//!
//! ```text
//! client ── socket ──> rpc ──> session ──> turn (pure) ──> provider   the model's stream
//!    ^                            │  ^          │     └──> tools      judged by permission,
//!    │                            │  └──────────┘                     run through launcher
//!    │                            v
//!    └── fanout <── journal <── store
//! ```
//!
//! A request comes in through [`rpc`], becomes a submission of a [`session`], is decided by the
//! pure [`turn`] machine, done by [`provider`] and [`tools`], recorded by the [`journal`] in the
//! [`store`], and goes out through [`fanout`]. [`boot`] puts the parts together.
//! `daemon/ARCHITECTURE.md` follows a prompt through the files, and names the invariants and the
//! test that holds each of them.

pub mod boot;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod fanout;
pub mod journal;
pub mod knowledge;
pub mod launcher;
pub mod permission;
pub mod provider;
pub mod rpc;
pub mod session;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tools;
pub mod turn;
