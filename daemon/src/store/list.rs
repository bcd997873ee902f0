//! Which sessions there are: lists for people, and those that a start has to look after.
//!
//! Receives filters from `session`; hands back sessions, newest change first.

use std::collections::BTreeMap;

use agentd_protocol::id::SessionId;
use agentd_protocol::session::{Archived, ListParams, ListResult};
use rusqlite::{Connection, named_params};

use super::column::Word;
use super::error::Error;
use super::lease::Terms;
use super::{page_limit, sessions};

/// A page of sessions.
pub(super) fn page(
    conn: &Connection,
    params: &ListParams,
    terms: Terms<'_>,
) -> Result<ListResult, Error> {
    let limit = page_limit(params.limit)?;
    let (time, id) = match &params.cursor {
        Some(cursor) => read_cursor(cursor)?,
        None => (i64::MAX, i64::MAX),
    };
    let archived = match params.archived {
        None => Some(false),
        Some(Archived::Only(archived)) => Some(archived),
        Some(Archived::All) => None,
    };
    let mut statement = conn.prepare_cached(
        "SELECT id, updated_at FROM sessions
         WHERE deleted = 0 AND (updated_at, id) < (:time, :id)
             AND (:state IS NULL OR state = :state) AND (:cwd IS NULL OR cwd = :cwd)
             AND (:archived IS NULL OR archived = :archived)
             AND (:query IS NULL OR instr(title_folded, :query) > 0)
         ORDER BY updated_at DESC, id DESC LIMIT :limit",
    )?;
    let mut keys: Vec<(i64, i64)> = statement
        .query_map(
            named_params! {
                ":time": time, ":id": id, ":state": params.state.map(Word),
                ":cwd": params.cwd, ":archived": archived,
                ":query": params.query.as_ref().map(|query| query.to_lowercase()),
                ":limit": limit + 1,
            },
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .collect::<Result<_, _>>()?;
    let more = keys.len() > limit;
    keys.truncate(limit);
    let next_cursor = keys.last().filter(|_| more).map(|(id, time)| format!("{time}.{id}"));
    let sessions =
        keys.iter().map(|(id, _)| sessions::read(conn, *id, terms)).collect::<Result<_, _>>()?;
    Ok(ListResult { sessions, next_cursor })
}

fn read_cursor(cursor: &str) -> Result<(i64, i64), Error> {
    cursor
        .split_once('.')
        .and_then(|(time, id)| Some((time.parse().ok()?, id.parse().ok()?)))
        .ok_or_else(|| Error::InvalidParams {
            field: "cursor",
            message: "not a cursor of a former result".to_owned(),
        })
}

/// Sessions whose turn is open, whose queue could go on, or whose background commands have ended
/// with their daemon: what a start has to look after.
pub(super) fn unfinished(conn: &Connection) -> Result<Vec<SessionId>, Error> {
    let sessions = conn
        .prepare_cached(
            "SELECT session_id FROM sessions
             WHERE deleted = 0 AND (
                 id IN (SELECT session FROM turns WHERE ended_seq IS NULL)
                 OR id IN (SELECT session FROM processes WHERE exit IS NULL)
                 OR queue_held = 0
                     AND id IN (SELECT session FROM submissions WHERE place IS NOT NULL))
             ORDER BY id",
        )?
        .query_map([], |row| Ok(row.get_ref(0)?.as_str()?.into()))?
        .collect::<Result<_, _>>()?;
    Ok(sessions)
}

/// How many sessions are in each state, by its word on the wire.
pub(super) fn by_state(conn: &Connection) -> Result<BTreeMap<String, u64>, Error> {
    let counts = conn
        .prepare_cached("SELECT state, count(*) FROM sessions WHERE deleted = 0 GROUP BY state")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(counts)
}
