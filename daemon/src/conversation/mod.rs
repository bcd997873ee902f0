//! The conversation: items → segments → the messages of the next request.
//!
//! The record is append-only; what a model reads is a view of it. [`Window`] makes that view as
//! items come, keeps what it has encoded, and hands out the same bytes again, so that a request
//! costs the work of what is new. [`repair`] makes histories valid that were cut off. The view is
//! a pure function of the items pushed, so a window that is built again after a restart hands out
//! the same bytes: the record is the truth, the window a cache.
//!
//! Receives items from `session`, with the encoder of a provider; hands back encoded messages.

pub mod repair;
mod rope;
mod window;

pub use window::{Encode, Window};
