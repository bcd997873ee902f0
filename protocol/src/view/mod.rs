//! Folds: what events add up to.
//!
//! [`session`] keeps the snapshot of a session true and [`in_flight`] the text and output that no
//! event holds yet: the daemon's hub and clients use both, so that a join and a watcher from the
//! start cannot differ. [`conversation`] is what a client shows.
//!
//! Receives events, progress and markers; hands out what they come to.

pub mod conversation;
pub mod in_flight;
pub mod session;
