//! Taking the rows of deleted sessions away, a batch at a time.
//!
//! A session with a long log would hold everybody else's commits up if it went at once.
//!
//! Receives idle time from `upkeep.rs`.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::error::Error;
use super::search;

/// Rows of one step.
const BATCH: usize = 500;

/// The tables that hold a session's rows; `events` refer to items and go before.
const TABLES: [&str; 11] = [
    "checkpoints",
    "items",
    "turns",
    "submissions",
    "calls",
    "prompts",
    "processes",
    "leases",
    "file_versions",
    "files_seen",
    "usage",
];

/// Takes a batch of rows of one deleted session away, in the transaction that is open; whether
/// there may be more.
pub(super) fn step(conn: &Connection, outputs: &Path) -> Result<bool, Error> {
    let deleted: Option<(i64, String)> = conn
        .prepare_cached("SELECT id, session_id FROM sessions WHERE deleted = 1 LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((session, session_id)) = deleted else { return Ok(false) };
    if remove_events(conn, session)? {
        return Ok(true);
    }
    for table in TABLES {
        let removed = conn
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE rowid IN (
                     SELECT rowid FROM {table} WHERE session = ?1 LIMIT ?2)"
            ))?
            .execute((session, BATCH))?;
        if removed == BATCH {
            return Ok(true);
        }
    }
    conn.prepare_cached("DELETE FROM rules WHERE session = ?1")?.execute([session])?;
    // What was accepted outlives the session it came from.
    for table in ["memories", "skills"] {
        conn.prepare_cached(&format!(
            "DELETE FROM {table} WHERE session = ?1 AND state <> 'accepted'"
        ))?
        .execute([session])?;
        conn.prepare_cached(&format!("UPDATE {table} SET session = NULL WHERE session = ?1"))?
            .execute([session])?;
    }
    remove_outputs(outputs, &session_id)?;
    conn.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([session])?;
    Ok(true)
}

/// Whether there was an event to remove.
fn remove_events(conn: &Connection, session: i64) -> Result<bool, Error> {
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT max(id) FROM (
                 SELECT id FROM events WHERE session = ?1 ORDER BY seq LIMIT ?2)",
        )?
        .query_row((session, BATCH), |row| row.get(0))?;
    let Some(last) = last else { return Ok(false) };
    search::forget(conn, session, last)?;
    conn.prepare_cached("DELETE FROM events WHERE session = ?1 AND id <= ?2")?
        .execute((session, last))?;
    search::keep_mark_true(conn)?;
    Ok(true)
}

/// Removes the files that hold a session's large outputs.
pub(super) fn remove_outputs(outputs: &Path, session_id: &str) -> Result<(), Error> {
    let directory = outputs.join(session_id);
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::failed("remove a session's outputs", error, &directory))
        }
        _ => Ok(()),
    }
}
