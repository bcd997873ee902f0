//! Former contents of files that calls changed, kept before the change: what a rollback gives back.
//!
//! Contents are bounded, by size in a session and by age; what goes is the content, and the row
//! stays, so that a rollback can say what it cannot give back.
//!
//! Receives contents from tools through `session`; hands back what files were.

use agentd_protocol::id::{CallId, SessionId, TurnId};
use rusqlite::{Connection, Row};

use super::column::Json;
use super::error::Error;
use super::sessions;

/// Former contents that one session keeps.
const MAX_BYTES: u64 = 256 << 20;
/// How long a former content is kept: 30 days.
const MAX_AGE_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// What a file was before a call changed it, and what the call left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// Who changes it: a call, or the marker of a rollback.
    pub by: String,
    /// The resolved path.
    pub path: String,
    /// What it was; `None`: it was not there.
    pub former: Option<FormerContent>,
    /// SHA-256 of what is left, hex; `None`: it is removed.
    pub left: Option<String>,
}

/// A former content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerContent {
    /// SHA-256, hex.
    pub sha256: String,
    /// The bytes; `None` where they are no longer kept.
    pub bytes: Option<Vec<u8>>,
}

/// A file that calls changed, from before the first of them to after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The resolved path.
    pub path: String,
    /// What it was before all of them.
    pub former: Option<FormerContent>,
    /// What it was before the last of them: all there is if that one was cut off.
    pub before_last: Option<String>,
    /// What the last one left.
    pub left: Option<String>,
}

/// What calls did to the world.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deeds {
    /// The files, in the order of their first change.
    pub files: Vec<ChangedFile>,
    /// What cannot be given back: summaries of calls that started and kept nothing.
    pub others: Vec<String>,
}

/// Keeps a version, and lets the oldest contents go where there are too many.
pub(super) fn keep(
    conn: &Connection,
    session_id: &SessionId,
    version: &FileVersion,
    now_ms: i64,
) -> Result<(), Error> {
    let (session, _) = sessions::find(conn, session_id)?;
    let former = version.former.as_ref();
    conn.prepare_cached(
        "INSERT INTO file_versions
             (session, call_id, path, sha256, content, left_sha256, made_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute((
        session,
        &version.by,
        &version.path,
        former.map(|former| &former.sha256),
        former.and_then(|former| former.bytes.as_deref()),
        &version.left,
        now_ms,
    ))?;
    conn.prepare_cached(
        "UPDATE file_versions SET content = NULL WHERE id IN (
             SELECT id FROM (
                 SELECT id, sum(length(content)) OVER (ORDER BY id DESC) AS held
                 FROM file_versions WHERE session = ?1 AND content IS NOT NULL)
             WHERE held > ?2)",
    )?
    .execute((session, MAX_BYTES))?;
    expire(conn, now_ms)
}

/// Lets contents go that are too old, of whatever session.
fn expire(conn: &Connection, now_ms: i64) -> Result<(), Error> {
    conn.prepare_cached(
        "UPDATE file_versions SET content = NULL WHERE content IS NOT NULL AND made_at < ?1",
    )?
    .execute([now_ms - MAX_AGE_MS])?;
    Ok(())
}

/// What the calls of these turns did.
pub(super) fn of_turns(
    conn: &Connection,
    session_id: &SessionId,
    turns: &[TurnId],
) -> Result<Deeds, Error> {
    let (session, _) = sessions::find(conn, session_id)?;
    let turns = Json(turns);
    let calls: Vec<CallId> = conn
        .prepare_cached(
            "SELECT call_id FROM calls
             WHERE session = ?1 AND turn_id IN (SELECT value FROM json_each(?2)) ORDER BY id",
        )?
        .query_map((session, &turns), |row| Ok(row.get_ref(0)?.as_str()?.into()))?
        .collect::<Result<_, _>>()?;
    let others = conn
        .prepare_cached(
            "SELECT coalesce(summary, name) FROM calls
             WHERE session = ?1 AND turn_id IN (SELECT value FROM json_each(?2))
                 AND risk <> 'read' AND started_at IS NOT NULL
                 AND (risk <> 'write' OR status IN ('ok', 'interrupted'))
                 AND call_id NOT IN (SELECT call_id FROM file_versions WHERE session = ?1)
             ORDER BY id",
        )?
        .query_map((session, &turns), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let files = changed_by(conn, session, &calls)?;
    Ok(Deeds { files, others })
}

/// What one of them did: a call, or a rollback by its marker.
pub(super) fn of(conn: &Connection, session_id: &SessionId, by: &str) -> Result<Deeds, Error> {
    let (session, _) = sessions::find(conn, session_id)?;
    Ok(Deeds { files: changed_by(conn, session, &[by])?, others: Vec::new() })
}

fn changed_by(
    conn: &Connection,
    session: i64,
    by: &[impl serde::Serialize],
) -> Result<Vec<ChangedFile>, Error> {
    let mut statement = conn.prepare_cached(
        "SELECT path, sha256, content, left_sha256 FROM file_versions
         WHERE session = ?1 AND call_id IN (SELECT value FROM json_each(?2)) ORDER BY id",
    )?;
    let mut rows = statement.query((session, Json(by)))?;
    let mut files: Vec<ChangedFile> = Vec::new();
    while let Some(row) = rows.next()? {
        let path: String = row.get(0)?;
        let (before_last, left) = (row.get(1)?, row.get(3)?);
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => (file.before_last, file.left) = (before_last, left),
            None => files.push(ChangedFile { path, former: former(row)?, before_last, left }),
        }
    }
    Ok(files)
}

fn former(row: &Row<'_>) -> rusqlite::Result<Option<FormerContent>> {
    let Some(sha256) = row.get(1)? else { return Ok(None) };
    Ok(Some(FormerContent { sha256, bytes: row.get(2)? }))
}
