//! Copies of the whole database, as of one moment.
//!
//! `VACUUM INTO` reads in one transaction, so the copy is consistent however much is written
//! meanwhile, and the copy is compact and needs no log beside it.
//!
//! Invariants: nothing that is there is overwritten; a copy that failed is not left behind; a copy
//! is as private as the database.
//!
//! Receives paths from the store's handle and from `migrate.rs`; hands files to people.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::connection;
use super::error::Error;

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
    let name = target.to_str().ok_or_else(|| failed("the path is not UTF-8".to_owned()))?;
    // Made here, so that it is private from the start; SQLite fills an empty file.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
    let file = made.map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => {
            failed("a file is there already: choose another name".to_owned())
        }
        _ => failed(cause.to_string()),
    })?;
    let copied = conn
        .execute("VACUUM INTO ?1", [name])
        .map_err(|error| Error::from(error).during(OPERATION, target))
        .and_then(|_| settled(&file, target).map_err(|cause| failed(cause.to_string())));
    if copied.is_err() {
        // The copy failed, and that is what is told.
        let _ = std::fs::remove_file(target);
    }
    copied
}

/// Waits until the copy is on the disk, its name too; its size.
fn settled(file: &File, target: &Path) -> std::io::Result<u64> {
    file.sync_all()?;
    if let Some(directory) = target.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(file.metadata()?.len())
}
