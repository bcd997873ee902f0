//! The conversation's items: booked when they start, complete when an event shows them whole.
//!
//! Invariants: places are dense (1, 2, 3 … in each session); a complete item is never changed,
//! but for the rollback that hides it, which is no part of its JSON.
//!
//! Receives items of events from `append.rs`; hands pages to `session`.

use agentd_protocol::event::{Event, Role};
use agentd_protocol::id::ItemId;
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Item, ItemBody, Marker,
};
use agentd_protocol::progress::{DeltaKind, InFlightItem};
use agentd_protocol::session::{ItemsParams, ItemsResult, Usage};
use rusqlite::{Connection, OptionalExtension};

use super::column::{Json, Word};
use super::error::Error;
use super::project::{Target, turn_of};
use super::{MAX_PAGE_BYTES, page_limit, sessions};

/// Books an assistant's item, before the request that fills it is sent; a new attempt of one that
/// is booked starts it over.
pub(super) fn started(
    target: Target<'_>,
    event: &Event,
    item_id: &ItemId,
    role: Role,
    attempt: u32,
) -> Result<(), Error> {
    if role != Role::Assistant {
        return Ok(());
    }
    if begin_attempt(target, item_id, attempt)? {
        return Ok(());
    }
    let turn_id = turn_of(event)?.clone();
    let model = target
        .conn
        .prepare_cached("SELECT model FROM turns WHERE session = ?1 AND ended_seq IS NULL")?
        .query_row([target.session], |row| row.get(0))
        .optional()?
        .unwrap_or_default();
    let item = Item {
        item_id: item_id.clone(),
        index: next_index(target.conn, target.session)?,
        turn_id,
        created_at: event.time,
        hidden_by: None,
        body: ItemBody::Assistant(AssistantItem {
            content: Vec::new(),
            calls: Vec::new(),
            status: AssistantStatus::Streaming,
            model,
            usage: Usage::default(),
            finish_reason: None,
        }),
    };
    target
        .conn
        .prepare_cached(
            "INSERT INTO items (session, item_id, item_index, status, attempt, json)
             VALUES (?1, ?2, ?3, 'streaming', ?4, ?5)",
        )?
        .execute((target.session, item_id.as_str(), item.index, attempt, Json(&item)))?;
    sessions::booked(target, item.index)
}

/// Whether the item is booked; if so it streams in this attempt from now on.
fn begin_attempt(target: Target<'_>, item_id: &ItemId, attempt: u32) -> Result<bool, Error> {
    let booked = target
        .conn
        .prepare_cached(
            "UPDATE items SET status = 'streaming', attempt = ?3
             WHERE session = ?1 AND item_id = ?2 AND status <> 'complete'",
        )?
        .execute((target.session, item_id.as_str(), attempt))?;
    Ok(booked == 1)
}

/// Takes the text of an attempt back.
pub(super) fn reset(target: Target<'_>, item_id: &ItemId, attempt: u32) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE items SET status = 'reset', attempt = ?3
             WHERE session = ?1 AND item_id = ?2 AND status <> 'complete'",
        )?
        .execute((target.session, item_id.as_str(), attempt))?;
    forget_text(target, item_id)
}

/// A turn ended: what it left unfinished is not in flight any more.
pub(super) fn abandon(target: Target<'_>) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE items SET status = 'reset'
             WHERE session = ?1 AND status = 'streaming'
                 AND item_index = (SELECT booked FROM sessions WHERE id = ?1)",
        )?
        .execute([target.session])?;
    target
        .conn
        .prepare_cached("DELETE FROM checkpoints WHERE session = ?1")?
        .execute([target.session])?;
    Ok(())
}

/// Writes a whole item, in the place it was booked or the next one; its key.
pub(super) fn completed(target: Target<'_>, item: &Item, json: &str) -> Result<i64, Error> {
    let booked: Option<(i64, u64, String)> = target
        .conn
        .prepare_cached(
            "SELECT id, item_index, status FROM items WHERE session = ?1 AND item_id = ?2",
        )?
        .query_row((target.session, item.item_id.as_str()), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let (key, place) = match booked {
        Some((_, _, status)) if status == "complete" => {
            return Err(Error::Inconsistent(format!("item {} is complete", item.item_id)));
        }
        Some((key, place, _)) => (Some(key), place),
        None => (None, next_index(target.conn, target.session)?),
    };
    if item.index != place {
        return Err(Error::Inconsistent(format!(
            "item {} has index {}, its place is {place}",
            item.item_id, item.index
        )));
    }
    let Some(key) = key else { return insert(target, item, json) };
    target
        .conn
        .prepare_cached("UPDATE items SET status = 'complete', json = ?2 WHERE id = ?1")?
        .execute((key, json))?;
    forget_text(target, &item.item_id)?;
    Ok(key)
}

fn insert(target: Target<'_>, item: &Item, json: &str) -> Result<i64, Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO items (session, item_id, item_index, status, attempt, json)
             VALUES (?1, ?2, ?3, 'complete', 1, ?4)",
        )?
        .execute((target.session, item.item_id.as_str(), item.index, json))?;
    Ok(target.conn.last_insert_rowid())
}

/// A whole item is on record: what it takes back is shown again.
pub(super) fn recorded(target: Target<'_>, item: &Item) -> Result<(), Error> {
    let ItemBody::Marker { marker: Marker::Rollback { undo: Some(undone), .. } } = &item.body
    else {
        return Ok(());
    };
    target
        .conn
        .prepare_cached("UPDATE items SET hidden_by = NULL WHERE session = ?1 AND hidden_by = ?2")?
        .execute((target.session, undone.as_str()))?;
    Ok(())
}

/// The place of the session's next item.
pub(super) fn next_index(conn: &Connection, session: i64) -> Result<u64, Error> {
    let index = conn
        .prepare_cached("SELECT coalesce(max(item_index), 0) + 1 FROM items WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    Ok(index)
}

/// Marks items as hidden by a rollback.
pub(super) fn hidden(target: Target<'_>, hidden: &[ItemId], by: &ItemId) -> Result<(), Error> {
    let mut statement = target
        .conn
        .prepare_cached("UPDATE items SET hidden_by = ?3 WHERE session = ?1 AND item_id = ?2")?;
    for item_id in hidden {
        statement.execute((target.session, item_id.as_str(), by.as_str()))?;
    }
    Ok(())
}

/// Keeps a piece of the text that streams.
pub(super) fn checkpoint(
    target: Target<'_>,
    item_id: &ItemId,
    attempt: u32,
    (kind, offset, text): (DeltaKind, u64, &str),
) -> Result<(), Error> {
    if text.is_empty() {
        return Ok(());
    }
    let state: Option<(String, u32)> = target
        .conn
        .prepare_cached("SELECT status, attempt FROM items WHERE session = ?1 AND item_id = ?2")?
        .query_row((target.session, item_id.as_str()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match state {
        Some((status, current)) if status == "streaming" && current == attempt => {}
        Some((status, current)) if status == "reset" && current < attempt => {
            begin_attempt(target, item_id, attempt)?;
        }
        _ => return Ok(()),
    }
    let end: u64 = target
        .conn
        .prepare_cached(
            "SELECT coalesce(max(start + octet_length(text)), 0) FROM (
                 SELECT start, text FROM checkpoints
                 WHERE session = ?1 AND item_id = ?2 AND kind = ?3 ORDER BY start DESC LIMIT 1)",
        )?
        .query_row((target.session, item_id.as_str(), Word(kind)), |row| row.get(0))?;
    if end != offset {
        return Err(Error::Inconsistent(format!(
            "a piece of item {item_id} starts at byte {offset}, its text so far ends at {end}"
        )));
    }
    target
        .conn
        .prepare_cached(
            "INSERT INTO checkpoints (session, item_id, kind, start, text)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((target.session, item_id.as_str(), Word(kind), offset, text))?;
    Ok(())
}

fn forget_text(target: Target<'_>, item_id: &ItemId) -> Result<(), Error> {
    target
        .conn
        .prepare_cached("DELETE FROM checkpoints WHERE session = ?1 AND item_id = ?2")?
        .execute((target.session, item_id.as_str()))?;
    Ok(())
}

/// The item that streams, with its text as far as it was kept.
pub(super) fn streaming(conn: &Connection, session: i64) -> Result<Option<InFlightItem>, Error> {
    let item: Option<(String, u32)> = conn
        .prepare_cached(
            "SELECT item_id, attempt FROM items
             WHERE session = ?1 AND status = 'streaming'
                 AND item_index = (SELECT booked FROM sessions WHERE id = ?1)",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((item_id, attempt)) = item else { return Ok(None) };
    let text = kept_text(conn, session, &item_id, DeltaKind::Text)?;
    let reasoning = kept_text(conn, session, &item_id, DeltaKind::Reasoning)?;
    Ok(Some(InFlightItem { item_id: item_id.into(), attempt, text, reasoning }))
}

fn kept_text(
    conn: &Connection,
    session: i64,
    item_id: &str,
    kind: DeltaKind,
) -> Result<String, Error> {
    let mut statement = conn.prepare_cached(
        "SELECT text FROM checkpoints WHERE session = ?1 AND item_id = ?2 AND kind = ?3
         ORDER BY start",
    )?;
    let mut rows = statement.query((session, item_id, Word(kind)))?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        text.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    }
    Ok(text)
}

/// A page of the conversation, cut by number and by size.
pub(super) fn page(conn: &Connection, params: &ItemsParams) -> Result<ItemsResult, Error> {
    let (session, seq) = sessions::find(conn, &params.session_id)?;
    let backwards = params.before.is_some() && params.after.is_none();
    let after = bound(params.after.unwrap_or(0));
    let before = params.before.map_or(i64::MAX, bound);
    let limit = page_limit(params.limit)?;
    let mut statement = conn.prepare_cached(if backwards {
        "SELECT item_index, json, hidden_by, status FROM items
         WHERE session = ?1 AND item_index > ?2 AND item_index < ?3 AND status <> 'reset'
         ORDER BY item_index DESC LIMIT ?4"
    } else {
        "SELECT item_index, json, hidden_by, status FROM items
         WHERE session = ?1 AND item_index > ?2 AND item_index < ?3 AND status <> 'reset'
         ORDER BY item_index LIMIT ?4"
    })?;
    let mut rows = statement.query((session, after, before, limit + 1))?;
    let mut items: Vec<Item> = Vec::new();
    let mut bytes = 0;
    let mut more = false;
    while let Some(row) = rows.next()? {
        if items.len() == limit || bytes >= MAX_PAGE_BYTES {
            more = true;
            break;
        }
        bytes += row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?.len();
        let Json(mut item): Json<Item> = row.get(1)?;
        item.hidden_by = row.get::<_, Option<String>>(2)?.map(Into::into);
        if row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)? == "streaming" {
            add_kept_text(conn, session, &mut item)?;
        }
        items.push(item);
    }
    if backwards {
        items.reverse();
    }
    let edge = if backwards { items.first() } else { items.last() };
    let next = edge.filter(|_| more).map(|item| item.index);
    Ok(ItemsResult { items, seq, next })
}

fn bound(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// Shows an item that streams with its text so far.
fn add_kept_text(conn: &Connection, session: i64, item: &mut Item) -> Result<(), Error> {
    let id = item.item_id.as_str();
    let reasoning = kept_text(conn, session, id, DeltaKind::Reasoning)?;
    let text = kept_text(conn, session, id, DeltaKind::Text)?;
    if let ItemBody::Assistant(answer) = &mut item.body {
        if !reasoning.is_empty() {
            answer.content.push(AssistantPart::Reasoning { text: reasoning, signature: None });
        }
        if !text.is_empty() {
            answer.content.push(AssistantPart::Text { text });
        }
    }
    Ok(())
}
