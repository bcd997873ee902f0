//! Mending what salvage saved: numbers are dense again and nothing points at what is lost.
//!
//! An event that is lost, or whose item is, becomes a warning that says so; a client's cursor
//! stays good. A session whose row is lost is made again from its log. An open turn is left to the
//! recovery that follows every crash.
//!
//! Receives the new database inside of salvage's transaction.

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::SessionId;
use agentd_protocol::session::{EnvMode, Session};
use agentd_protocol::submission::{
    Disposition, OnDisconnect, OnPrompt, Op, Submission, SubmitParams, SubmitResult,
};
use agentd_protocol::view::session::apply;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::column::Json;
use super::error::Error;
use super::events::{self, Span};
use super::project::Target;
use super::record::NewSession;
use super::sessions::Moved;
use super::{sessions, turns};

/// Stands where an event was lost.
const LOST: &str = r#"{"type":"warning","code":"recovered","message":"this event was lost with a damaged database"}"#;

/// Mends everything.
pub(super) fn mend(conn: &Connection) -> Result<(), Error> {
    conn.execute(
        "UPDATE events SET body = ?1, item = NULL
         WHERE item IS NOT NULL AND item NOT IN (SELECT id FROM items)",
        [LOST],
    )?;
    restore_sessions(conn)?;
    drop_orphans(conn)?;
    fill_holes(conn)?;
    conn.execute_batch(
        "UPDATE sessions SET item_count = (
             SELECT coalesce(max(item_index), 0) FROM items
             WHERE items.session = sessions.id AND status = 'complete');
         UPDATE sessions SET booked = (
             SELECT max(item_index) FROM items
             WHERE items.session = sessions.id AND status = 'streaming');
         UPDATE sessions SET active_turn_id = (
             SELECT turn_id FROM turns
             WHERE turns.session = sessions.id AND ended_seq IS NULL);
         UPDATE sessions SET state = 'interrupted'
             WHERE active_turn_id IS NULL AND state IN ('running', 'waiting');
         UPDATE submissions SET place = NULL, position = NULL
             WHERE place IS NOT NULL AND params IS NULL;
         UPDATE submissions SET position = (
             SELECT count(*) FROM submissions AS before
             WHERE before.session = submissions.session AND before.place = 'queued'
                 AND (before.position, before.id) <= (submissions.position, submissions.id))
             WHERE place = 'queued';",
    )?;
    restore_submissions(conn)
}

/// Makes the rows of sessions that have a log but no row.
fn restore_sessions(conn: &Connection) -> Result<(), Error> {
    let keys: Vec<i64> = conn
        .prepare(
            "SELECT DISTINCT session FROM events WHERE session NOT IN (SELECT id FROM sessions)",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for key in keys {
        if let Some(session) = fold(conn, key)? {
            let new = NewSession {
                items: Vec::new(),
                env: std::collections::BTreeMap::new(),
                env_mode: EnvMode::Overlay,
                key: None,
                digest: String::new(),
                session,
            };
            sessions::insert(conn, &new)?;
            let made = Target { conn, session: conn.last_insert_rowid() };
            Moved::of(&new.session).write(made)?;
            conn.execute("UPDATE sessions SET id = ?2 WHERE id = ?1", (made.session, key))?;
        }
    }
    Ok(())
}

/// The session as its readable events tell it; `None` if its beginning is lost.
fn fold(conn: &Connection, key: i64) -> Result<Option<Session>, Error> {
    let first: Option<Json<EventBody>> = conn
        .query_row("SELECT body FROM events WHERE session = ?1 AND seq = 1", [key], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(Json(EventBody::SessionCreated { session, .. })) = first else { return Ok(None) };
    let mut session = *session;
    let id: SessionId = session.session_id.clone();
    loop {
        let span = Span {
            after: session.head_seq,
            until: u64::MAX,
            turn_id: None,
            max_events: 500,
            max_bytes: usize::MAX,
        };
        let page: Vec<Event> = events::values(conn, key, &id, span)?;
        if page.is_empty() {
            return Ok(Some(session));
        }
        for event in &page {
            apply(&mut session, event);
        }
    }
}

/// Removes rows of sessions that cannot be made again.
fn drop_orphans(conn: &Connection) -> Result<(), Error> {
    let owned = [
        "events",
        "items",
        "checkpoints",
        "turns",
        "submissions",
        "calls",
        "prompts",
        "processes",
        "leases",
        "file_versions",
        "files_seen",
        "usage",
        "rules",
    ];
    for table in owned {
        conn.execute(
            &format!(
                "DELETE FROM {table}
                 WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions)"
            ),
            [],
        )?;
    }
    for table in ["memories", "skills"] {
        conn.execute(
            &format!(
                "UPDATE {table} SET session = NULL
                 WHERE session NOT IN (SELECT id FROM sessions)"
            ),
            [],
        )?;
    }
    Ok(())
}

/// Puts a warning in the place of every event that is lost, up to the last one known.
fn fill_holes(conn: &Connection) -> Result<(), Error> {
    conn.execute_batch(
        "UPDATE sessions SET head = max(head, (
             SELECT coalesce(max(seq), 0) FROM events WHERE session = sessions.id))",
    )?;
    conn.execute(
        "WITH RECURSIVE numbers (session, seq, head, time) AS (
             SELECT id, 1, head, updated_at FROM sessions WHERE head > 0
             UNION ALL SELECT session, seq + 1, head, time FROM numbers WHERE seq < head)
         INSERT INTO events (session, seq, time, body)
         SELECT session, seq, time, :lost FROM numbers
         WHERE NOT EXISTS (
             SELECT 1 FROM events
             WHERE events.session = numbers.session AND events.seq = numbers.seq)",
        named_params! { ":lost": LOST },
    )?;
    Ok(())
}

/// An open turn whose submission is lost gets a plain one, so that it can be closed.
fn restore_submissions(conn: &Connection) -> Result<(), Error> {
    let keys: Vec<(i64, String)> = conn
        .prepare(
            "SELECT sessions.id, session_id FROM sessions
             JOIN turns ON turns.session = sessions.id AND turns.ended_seq IS NULL",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (key, session_id) in keys {
        let Some(turn) = turns::open(conn, key)? else { continue };
        let params = SubmitParams {
            session_id: session_id.into(),
            submission: Submission { id: turn.submission_id.clone(), op: Op::Resume {} },
            limits: None,
            on_disconnect: OnDisconnect::default(),
            on_prompt: OnPrompt::default(),
        };
        let result = SubmitResult {
            submission_id: turn.submission_id,
            disposition: Disposition::Started,
            turn_id: Some(turn.turn_id),
            seq: turn.started_seq,
            replayed: false,
            rollback: None,
        };
        conn.execute(
            "INSERT INTO submissions (session, submission_id, digest, result, params, turn_id)
             VALUES (:session, :id, '', :result, :params, :turn)
             ON CONFLICT DO UPDATE SET params = coalesce(params, excluded.params)",
            named_params! {
                ":session": key, ":id": params.submission.id.as_str(), ":result": Json(&result),
                ":params": Json(&params),
                ":turn": result.turn_id.as_ref().map(agentd_protocol::id::TurnId::as_str),
            },
        )?;
    }
    Ok(())
}
