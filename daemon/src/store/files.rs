//! Files as a session saw them last: what tells a change by somebody else from its own.
//!
//! Receives rows of appends; hands them to an actor that takes the session up.

use rusqlite::Connection;

use super::error::Error;
use super::project::Target;

/// Keeps what a file was when the session saw it last.
pub(super) fn seen(target: Target<'_>, path: &str, sha256: &str) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO files_seen (session, path, sha256) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET sha256 = excluded.sha256",
        )?
        .execute((target.session, path, sha256))?;
    Ok(())
}

/// All of them: path and SHA-256.
pub(super) fn all(conn: &Connection, session: i64) -> Result<Vec<(String, String)>, Error> {
    let files = conn
        .prepare_cached("SELECT path, sha256 FROM files_seen WHERE session = ?1 ORDER BY path")?
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(files)
}
