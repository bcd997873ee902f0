//! The conversation: items → segments → the messages of the next request.
//!
//! The record is append-only; what a model reads is a view of it. [`Window`] makes that view as
//! items come, keeps what it has encoded, and hands out the same bytes again, so that a request
//! costs the work of what is new. [`repair`] makes histories valid that were cut off. Where the
//! view grows too large for a model's window ([`Budget`]), the window says what could go; that it
//! goes is a marker item. The view is a pure function of the items pushed, markers among them, so
//! a window that is built again after a restart hands out the same bytes: the record is the truth,
//! the window a cache.
//!
//! Receives items from `session`, with the encoder of a provider; hands back encoded messages.

mod budget;
pub mod repair;
mod rope;
pub mod tokens;
mod window;

pub use budget::Budget;
pub use window::{Compaction, Encode, Pruning, Window};
