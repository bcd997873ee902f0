//! Taking a session up: all that an actor or a watcher needs, as of one moment.
//!
//! Receives a read transaction from the store's handle; hands back the session and its open turn.

use agentd_protocol::event::EventBody;
use agentd_protocol::id::SessionId;
use agentd_protocol::session::EnvMode;
use rusqlite::Connection;

use super::column::{Json, Word};
use super::error::Error;
use super::events::{self, Span};
use super::lease::{self, Terms};
use super::record::{LoadedSession, OpenTurn, Snapshot};
use super::{calls, files, items, processes, sessions, submissions, turns};

/// What an actor needs.
pub(super) fn session(
    conn: &Connection,
    session_id: &SessionId,
    terms: Terms<'_>,
) -> Result<LoadedSession, Error> {
    let (key, _) = sessions::find(conn, session_id)?;
    let (env, env_mode) = conn
        .prepare_cached("SELECT env, env_mode FROM sessions WHERE id = ?1")?
        .query_row([key], |row| {
            let (Json(env), Word(mode)): (_, Word<EnvMode>) = (row.get(0)?, row.get(1)?);
            Ok((env, mode))
        })?;
    Ok(LoadedSession {
        session: sessions::read(conn, key, terms)?,
        env,
        env_mode,
        queue: submissions::queue(conn, key)?,
        steered: submissions::steered(conn, key)?,
        open_turn: open_turn(conn, key, session_id)?,
        last_end: last_end(conn, key, session_id, true)?,
        last_work_end: last_end(conn, key, session_id, false)?,
        next_item_index: items::next_index(conn, key)?,
        files_seen: files::all(conn, key)?,
        exited: processes::untold(conn, key)?,
        epoch: lease::own_epoch(conn, key, terms.holder)?,
        rival_lives: lease::rival_lives(conn, key, terms)?,
    })
}

fn open_turn(
    conn: &Connection,
    key: i64,
    session_id: &SessionId,
) -> Result<Option<OpenTurn>, Error> {
    let Some(turn) = turns::open(conn, key)? else { return Ok(None) };
    let params = submissions::params(conn, key, &turn.submission_id)?.ok_or_else(|| {
        Error::unreadable(format!("the submission of turn {} is missing", turn.turn_id))
    })?;
    let span = Span {
        after: turn.started_seq - 1,
        until: u64::MAX,
        turn_id: Some(&turn.turn_id),
        max_events: usize::try_from(i64::MAX).unwrap_or(usize::MAX),
        max_bytes: usize::MAX,
    };
    let events = events::values(conn, key, session_id, span)?;
    let mut joined = Vec::new();
    for event in &events {
        if let EventBody::InputSteered { submission_id, .. } = &event.body
            && submissions::params(conn, key, submission_id)?.is_some()
        {
            joined.push(submission_id.clone());
        }
    }
    Ok(Some(OpenTurn {
        params,
        joined,
        events,
        in_flight: items::streaming(conn, key)?,
        turn_id: turn.turn_id,
    }))
}

fn last_end(
    conn: &Connection,
    key: i64,
    session_id: &SessionId,
    also_compactions: bool,
) -> Result<Option<EventBody>, Error> {
    let Some(seq) = turns::last_end(conn, key, also_compactions)? else { return Ok(None) };
    let span =
        Span { after: seq - 1, until: seq, turn_id: None, max_events: 1, max_bytes: usize::MAX };
    Ok(events::values(conn, key, session_id, span)?.pop().map(|event| event.body))
}

/// What a watcher's join is seeded with.
pub(super) fn snapshot(
    conn: &Connection,
    session_id: &SessionId,
    terms: Terms<'_>,
) -> Result<Snapshot, Error> {
    let (key, _) = sessions::find(conn, session_id)?;
    Ok(Snapshot {
        session: sessions::read(conn, key, terms)?,
        streaming: items::streaming(conn, key)?,
        running_calls: calls::running(conn, key)?,
    })
}
