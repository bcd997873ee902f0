//! Salvage: a damaged database is set aside, and what can be read of it goes into a new one.
//!
//! The damaged files are renamed and never deleted. Rows are read one after another; where a page
//! cannot be read, reading goes on behind it. What was lost leaves holes, which `mend.rs` closes,
//! so that the new database keeps the promises of the old one.
//!
//! Receives a damaged database from `database.rs`; hands the new one back.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;

use super::connection::{self, Synchronous};
use super::directory;
use super::error::Error;
use super::mend;
use super::migrate::{self, MIGRATIONS};

const OPERATION: &str = "recover the damaged database";

/// The tables whose rows are worth saving; the index makes itself anew.
const TABLES: [&str; 16] = [
    "sessions",
    "items",
    "checkpoints",
    "events",
    "turns",
    "submissions",
    "calls",
    "prompts",
    "processes",
    "leases",
    "rules",
    "memories",
    "skills",
    "file_versions",
    "files_seen",
    "usage",
];

/// The new database, and what a person should hear.
pub(super) struct Salvaged {
    pub conn: Connection,
    pub notice: String,
}

/// Sets the database aside and saves what can be read of it.
pub(super) fn salvage(path: &Path, synchronous: Synchronous) -> Result<Salvaged, Error> {
    let aside = set_aside(path)?;
    let named = |error: Error| error.during(OPERATION, path);
    directory::open_private(path).map_err(|cause| Error::failed(OPERATION, cause, path))?;
    let conn = connection::open_to_write(path).map_err(|error| named(error.into()))?;
    connection::configure_writer(&conn, synchronous).map_err(|error| named(error.into()))?;
    migrate::migrate(&conn, path, MIGRATIONS, true)?;
    let (rows, whole) = rescue(&conn, &aside).map_err(named)?;
    let lost = if whole { "all of its rows could be read" } else { "some of it is lost" };
    let notice = format!(
        "the database was damaged: it is kept as {}, and {rows} rows of it were saved into {} \
         ({lost})",
        aside.display(),
        path.display()
    );
    Ok(Salvaged { conn, notice })
}

/// Renames the database and what belongs to it.
fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let aside = (1..u32::MAX)
        .map(|number| with_suffix(path, &format!(".damaged-{number}")))
        .find(|aside| aside.symlink_metadata().is_err())
        .expect("there are fewer files than numbers");
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&aside, suffix));
        match std::fs::rename(&from, &to) {
            Err(error) if suffix.is_empty() || error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::failed(OPERATION, error, &from));
            }
            _ => {}
        }
    }
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies what can be read; how many rows, and whether that is all.
fn rescue(conn: &Connection, aside: &Path) -> Result<(u64, bool), Error> {
    let Ok(damaged) = open_damaged(aside) else { return Ok((0, false)) };
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let mut rows = 0;
    let mut whole = true;
    for table in TABLES {
        let (copied, complete) = rescue_table(conn, &damaged, table)?;
        rows += copied;
        whole &= complete;
    }
    mend::mend(conn)?;
    conn.execute_batch("COMMIT")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    Ok((rows, whole))
}

fn open_damaged(aside: &Path) -> rusqlite::Result<Connection> {
    let damaged = connection::open_to_write(aside)?;
    damaged.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    migrate::version(&damaged)?;
    Ok(damaged)
}

fn columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    conn.prepare("SELECT name FROM pragma_table_info(?1)")?
        .query_map([table], |row| row.get(0))?
        .collect()
}

/// Copies a table's readable rows.
fn rescue_table(
    conn: &Connection,
    damaged: &Connection,
    table: &str,
) -> Result<(u64, bool), Error> {
    let mut columns = columns(conn, table)?;
    // An older schema had not all of them, or not the table.
    if let Ok(there) = self::columns(damaged, table) {
        columns.retain(|column| there.contains(column));
    }
    if columns.is_empty() {
        return Ok((0, true));
    }
    let names = columns.join(", ");
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert =
        conn.prepare(&format!("INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"))?;
    let query = format!("SELECT rowid, {names} FROM {table} WHERE rowid > ?1 ORDER BY rowid");
    let Ok(mut query) = damaged.prepare(&query) else { return Ok((0, false)) };
    let (mut copied, mut whole) = (0, true);
    let (mut after, mut stride) = (0_i64, 1_i64);
    loop {
        let before = after;
        let mut rows = query.query([after])?;
        let unreadable = loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break false,
                Err(_) => break true,
            };
            let values: Result<Vec<Value>, _> =
                (1..=columns.len()).map(|column| row.get(column)).collect();
            let (Ok(rowid), Ok(values)) = (row.get(0), values) else { break true };
            after = rowid;
            copied += insert.execute(rusqlite::params_from_iter(values))? as u64;
        };
        if !unreadable {
            return Ok((copied, whole));
        }
        whole = false;
        stride = if after > before { 1 } else { stride.saturating_mul(2) };
        after = after.saturating_add(stride);
        if stride > i64::MAX / 4 {
            return Ok((copied, whole));
        }
    }
}
