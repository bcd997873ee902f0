//! The words that agentd and its clients share.
//!
//! JSON-RPC 2.0 over a Unix domain socket; `README.md` beside this crate tells the wire in prose
//! with transcripts. This crate has no runtime and does no I/O: it is types, a pure codec for both
//! framings, the table of methods with its OpenRPC document, and the fold that turns events into
//! what a client shows.
//!
//! In reading order: [`id`] and [`time`] name things; [`session`], [`item`], [`submission`],
//! [`permission`], [`question`], [`process`], [`daemon`] and [`knowledge`] are the shapes; [`event`] and
//! [`progress`] are what a watcher sees; [`error`] is what can go wrong; [`method`] is the table;
//! [`socket`] says where to connect; [`framing`] turns bytes into messages; [`openrpc`] describes
//! it all; [`view`] folds events.
//!
//! Optional fields are absent rather than null, parameters are by name and unknown ones are
//! errors, results may grow: a client ignores fields and event types it does not know.

pub mod daemon;
pub mod error;
pub mod event;
pub mod framing;
pub mod id;
pub mod item;
pub mod knowledge;
pub mod method;
pub mod openrpc;
pub mod permission;
pub mod process;
pub mod progress;
pub mod question;
pub mod session;
pub mod socket;
pub mod submission;
pub mod time;
pub mod view;
