//! The store: SQLite, and the only SQL in agentd.
//!
//! One database per state directory. One thread owns the only write connection and commits in
//! groups (`writer`); reads come from a small pool (`reader`). An event and the rows that it
//! changes are written in the same transaction (`append`, `project`), so no projection can run
//! ahead of the log or fall behind it. Each table has its module, named after it.
//!
//! Invariants: *durable before visible*: what is published is committed. *Dense numbering*: 1, 2,
//! 3 … in each session. *Single writer*: the lease's epoch is checked in every transaction.
//!
//! Receives appends from `journal` and reads from `session`; hands back what was committed.

mod append;
mod backup;
mod calls;
mod column;
mod connection;
mod copied;
mod database;
mod directory;
mod error;
mod events;
mod file_versions;
mod files;
mod handle;
mod items;
mod knowledge;
mod lease;
mod list;
mod load;
mod mend;
mod migrate;
mod new_file;
mod processes;
mod project;
mod prompts;
mod purge;
mod reader;
mod reads;
mod record;
mod rules;
mod salvage;
mod search;
mod sessions;
mod submissions;
mod turns;
mod upkeep;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use connection::Synchronous;
pub use error::Error;
pub use events::Numbered;
pub use file_versions::{ChangedFile, Deeds, FileVersion, FormerContent};
pub use handle::{Committed, Options, Store};
pub use lease::Holder;
pub use new_file::NewFile;
pub use record::{
    Append, Appended, Created, LeaseUse, LoadedSession, NewEvent, NewSession, OpenTurn,
    PromptRecord, PromptResolution, QueuedInput, Row, Snapshot,
};

/// Bytes of a page, so that it fits into a message with room to spare.
pub const MAX_PAGE_BYTES: usize = 8 << 20;
/// Entries of a page, if the request does not say.
const DEFAULT_PAGE: u32 = 100;
/// Entries that a request can ask for.
const MAX_PAGE: u32 = 1_000;

/// The limit of a request, checked.
fn page_limit(limit: Option<u32>) -> Result<usize, Error> {
    match limit.unwrap_or(DEFAULT_PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit as usize),
        limit => Err(Error::InvalidParams {
            field: "limit",
            message: format!("{limit} is not in 1 to {MAX_PAGE}"),
        }),
    }
}
