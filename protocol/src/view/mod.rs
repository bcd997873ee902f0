//! Folds: what events add up to.
//!
//! [`session`] keeps the snapshot of a session true, in the daemon and in clients alike.
//!
//! Receives events; hands out what they come to.

pub mod session;
