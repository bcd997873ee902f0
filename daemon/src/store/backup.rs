//! Copies of the whole database, as of one moment.
//!
//! `VACUUM INTO` reads in one transaction, so the copy is consistent however much is written
//! meanwhile, and the copy is compact and needs no log beside it.
//!
//! Invariants: nothing that is there is overwritten; what has a copy's name is whole, also when the
//! daemon is killed; a copy that failed is not left behind; a copy is as private as the database.
//!
//! Receives paths from the store's handle and from `migrate.rs`; hands files to people.

use std::fs::File;
use std::io::ErrorKind;
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
    let there = || failed("a file is there already: choose another name".to_owned());
    if target.symlink_metadata().is_ok() {
        return Err(there());
    }
    let directory = target.parent().ok_or_else(|| failed("it is no file's path".to_owned()))?;
    // It gets its name when it is whole. SQLite fills an empty file, which is private from the start
    // and is removed when this fails.
    let made = tempfile::Builder::new().prefix(".agentd-copy-").tempfile_in(directory);
    let copy = made.map_err(|cause| failed(cause.to_string()))?;
    let name = copy.path().to_str().ok_or_else(|| failed("the path is not UTF-8".to_owned()))?;
    conn.execute("VACUUM INTO ?1", [name])
        .map_err(|error| Error::from(error).during(OPERATION, target))?;
    copy.as_file().sync_all().map_err(|cause| failed(cause.to_string()))?;
    let file = copy.persist_noclobber(target).map_err(|refused| match refused.error.kind() {
        ErrorKind::AlreadyExists => there(),
        _ => failed(refused.error.to_string()),
    })?;
    settled(&file, directory).map_err(|cause| failed(cause.to_string()))
}

/// Waits until the copy's name is on the disk too; its size.
fn settled(file: &File, directory: &Path) -> std::io::Result<u64> {
    File::open(directory)?.sync_all()?;
    Ok(file.metadata()?.len())
}
