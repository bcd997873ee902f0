//! Migrations: the schema's versions, forward only, each in one transaction.
//!
//! The version is SQLite's `user_version`. A database that is newer than this program is left as
//! it is, byte for byte. Before a migration that rewrites data, the whole database is copied.
//!
//! Receives a connection from `database.rs`; hands it back at the newest version.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::backup;
use super::error::Error;

/// One step of the schema. Files are never edited after a release.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// What it does.
    pub sql: &'static str,
    /// It changes rows that are there, so a copy is made first.
    pub rewrites: bool,
}

/// From version 0 on: the first one leads to version 1.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/0001_record.sql"), rewrites: false },
    Migration { sql: include_str!("../../migrations/0002_file_versions.sql"), rewrites: false },
    Migration { sql: include_str!("../../migrations/0003_fewer_pages.sql"), rewrites: true },
    Migration { sql: include_str!("../../migrations/0004_processes.sql"), rewrites: false },
];

/// The version of a database.
pub(super) fn version(conn: &Connection) -> rusqlite::Result<usize> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// [`Error::Failed`] for a database that a newer agentd wrote, or another program.
pub(super) fn refuse_others(
    conn: &Connection,
    path: &Path,
    known: &[Migration],
) -> Result<(), Error> {
    let found = version(conn)?;
    let known = known.len();
    // What cannot be read is not refused here: it may be a damaged one of ours.
    let any = || conn.query_row("SELECT count(*) > 0 FROM sqlite_schema", [], |row| row.get(0));
    if found == 0 && any().is_ok_and(|any| any) {
        let cause = "another program's database: nothing was changed, use another --state-dir";
        return Err(Error::failed("open the database", cause, path));
    }
    if found <= known {
        return Ok(());
    }
    let cause = format!(
        "newer schema: the database has version {found}, this agentd knows up to {known}; \
         nothing was changed, use a newer agentd or another --state-dir"
    );
    Err(Error::failed("open the database", cause, path))
}

/// Brings the database to the newest version; the copies that were made.
pub(super) fn migrate(
    conn: &Connection,
    path: &Path,
    migrations: &[Migration],
    alone: bool,
) -> Result<Vec<PathBuf>, Error> {
    let mut copies = Vec::new();
    let found = version(conn)?;
    let missing = migrations.get(found..).unwrap_or_default();
    if !missing.is_empty() && !alone {
        let cause = "older schema: it is brought up to date only while no other daemon has it open";
        return Err(Error::failed("open the database", cause, path));
    }
    for (number, migration) in (found + 1..).zip(missing) {
        if migration.rewrites && found > 0 {
            copies.push(copy(conn, path, number - 1)?);
        }
        conn.execute_batch(&format!(
            "BEGIN IMMEDIATE; {}; PRAGMA user_version = {number}; COMMIT;",
            migration.sql
        ))
        .map_err(|error| {
            let failure = Error::from(error).during("migrate the database", path);
            if !conn.is_autocommit()
                && let Err(error) = conn.execute_batch("ROLLBACK")
            {
                tracing::error!(%error, "a migration cannot be rolled back");
            }
            failure
        })?;
    }
    Ok(copies)
}

/// Copies the database beside itself.
fn copy(conn: &Connection, path: &Path, version: usize) -> Result<PathBuf, Error> {
    let stamp = uuid::Uuid::now_v7().simple();
    let target = path.with_extension(format!("db.version-{version}.{stamp}"));
    backup::into(conn, &target)?;
    Ok(target)
}
