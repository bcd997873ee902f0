//! The full-text index over items, filled behind the log when there is nothing else to do, and before
//! a search.
//!
//! The index holds no text; it reads it from the items, which never change once complete.
//!
//! Receives idle time from `upkeep.rs` and queries from the store's handle; hands back matches.

use agentd_protocol::session::{SearchMatch, SearchParams, SearchResult};
use rusqlite::Connection;

use super::error::Error;
use super::page_limit;

/// Events of one step.
const BATCH: usize = 200;
/// Steps that a search waits for.
pub(super) const MAX_STEPS: u32 = 25;
/// Tokens around a match.
const SNIPPET_TOKENS: u32 = 16;

/// Indexes the items of the next events, in the transaction that is open; whether there are more.
pub(super) fn index_step(conn: &Connection) -> Result<bool, Error> {
    let done: i64 =
        conn.query_row("SELECT indexed_event FROM index_state", [], |row| row.get(0))?;
    let next: Option<i64> = conn
        .prepare_cached(
            "SELECT max(id) FROM (SELECT id FROM events WHERE id > ?1 ORDER BY id LIMIT ?2)",
        )?
        .query_row((done, BATCH), |row| row.get(0))?;
    let Some(next) = next else { return Ok(false) };
    conn.prepare_cached(
        "INSERT INTO text_index (rowid, text)
         SELECT id, text FROM item_texts WHERE text IS NOT NULL AND id IN (
             SELECT item FROM events WHERE id > ?1 AND id <= ?2 AND item IS NOT NULL)",
    )?
    .execute((done, next))?;
    conn.prepare_cached("UPDATE index_state SET indexed_event = ?1")?.execute([next])?;
    Ok(true)
}

/// Takes the items of a session's events up to the row `last` out of the index, in the transaction
/// that is open.
pub(super) fn forget(conn: &Connection, session: i64, last: i64) -> Result<(), Error> {
    conn.prepare_cached(
        "INSERT INTO text_index (text_index, rowid, text)
         SELECT 'delete', id, text FROM item_texts WHERE text IS NOT NULL AND id IN (
             SELECT item FROM events WHERE session = ?1 AND item IS NOT NULL AND id <= min(
                 ?2, (SELECT indexed_event FROM index_state)))",
    )?
    .execute((session, last))?;
    Ok(())
}

/// Rows of removed events may be given out again: the mark must not stand past the last one.
pub(super) fn keep_mark_true(conn: &Connection) -> Result<(), Error> {
    conn.prepare_cached(
        "UPDATE index_state SET indexed_event =
             min(indexed_event, (SELECT coalesce(max(id), 0) FROM events))",
    )?
    .execute([])?;
    Ok(())
}

/// Items and titles with these words, best first, titles before items.
pub(super) fn matches(conn: &Connection, params: &SearchParams) -> Result<SearchResult, Error> {
    let limit = page_limit(params.limit)?;
    let mut matches: Vec<SearchMatch> = conn
        .prepare_cached(
            "SELECT session_id, title FROM sessions
             WHERE deleted = 0 AND instr(title_folded, ?1) > 0
             ORDER BY updated_at DESC LIMIT ?2",
        )?
        .query_map((params.query.trim().to_lowercase(), limit), |row| {
            let (session_id, title): (String, String) = (row.get(0)?, row.get(1)?);
            let snippet = title.clone();
            Ok(SearchMatch { session_id: session_id.into(), title, item_id: None, snippet })
        })?
        .collect::<Result<_, _>>()?;
    let words = as_words(&params.query);
    if words.is_empty() {
        return Ok(SearchResult { matches });
    }
    let mut items = conn.prepare_cached(
        "SELECT sessions.session_id, sessions.title, items.item_id,
             snippet(text_index, 0, '', '', '…', ?3)
         FROM text_index JOIN items ON items.id = text_index.rowid
             JOIN sessions ON sessions.id = items.session
         WHERE text_index MATCH ?1 AND sessions.deleted = 0
         ORDER BY rank LIMIT ?2",
    )?;
    let rest = limit.saturating_sub(matches.len());
    let found = items.query_map((words, rest, SNIPPET_TOKENS), |row| {
        Ok(SearchMatch {
            session_id: row.get_ref(0)?.as_str()?.into(),
            title: row.get(1)?,
            item_id: Some(row.get_ref(2)?.as_str()?.into()),
            snippet: row.get(3)?,
        })
    })?;
    for found in found {
        matches.push(found?);
    }
    Ok(SearchResult { matches })
}

/// The query as words that must all be there, so that no character in it is an operator. A NUL, at
/// which SQLite would see the query's end, parts words like white space.
fn as_words(query: &str) -> String {
    let words = query.split(|c: char| c.is_whitespace() || c == '\0').filter(|w| !w.is_empty());
    let quoted = words.map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(" ")
}
