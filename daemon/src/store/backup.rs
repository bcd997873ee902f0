//! Copies of the whole database, as of one moment.
//!
//! `VACUUM INTO` reads in one transaction, so the copy is consistent however much is written
//! meanwhile, and the copy is compact and needs no log beside it.
//!
//! Invariants: those of [`NewFile`].
//!
//! Receives paths from the store's handle and from `migrate.rs`; hands files to people.

use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::connection;
use super::error::Error;
use super::new_file::NewFile;

const OPERATION: &str = "copy the database";

/// Copies a live database into the new file `target`; its size in bytes.
pub(super) fn copy(database: &Path, target: &Path) -> Result<u64, Error> {
    let conn = connection::open_to_copy(database)
        .map_err(|error| Error::from(error).during(OPERATION, database))?;
    into(&conn, target)
}

/// Copies what a connection sees into the new file `target`; its size in bytes.
pub(super) fn into(conn: &Connection, target: &Path) -> Result<u64, Error> {
    let failed = |cause: String| Error::failed(OPERATION, cause, target);
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            failed("a file is there already: choose another name".to_owned())
        }
        _ => failed(error.to_string()),
    };
    // SQLite fills an empty file.
    let copy = NewFile::begin(target).map_err(refused)?;
    let name = copy.path().to_str().ok_or_else(|| failed("the path is not UTF-8".to_owned()))?;
    conn.execute("VACUUM INTO ?1", [name])
        .map_err(|error| Error::from(error).during(OPERATION, target))?;
    copy.finish().map_err(refused)
}
