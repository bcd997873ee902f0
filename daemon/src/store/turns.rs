//! Turns: from `turn.started` to exactly one terminal event, and what each used.
//!
//! Invariants: a session has at most one open turn; a turn ends once.
//!
//! Receives events from `project.rs`; hands the open turn to `load.rs`.

use agentd_protocol::event::{Event, TurnTotals};
use agentd_protocol::id::{SubmissionId, TurnId};
use agentd_protocol::session::{Limits, Usage};
use rusqlite::{Connection, OptionalExtension};

use super::column::{Json, Millis, Word};
use super::error::Error;
use super::project::{Target, turn_of};
use super::{items, sessions, submissions};

/// A turn began: its submission leaves the queue.
pub(super) fn started(
    target: Target<'_>,
    event: &Event,
    submission_id: &SubmissionId,
    model: &str,
    limits: &Limits,
) -> Result<(), Error> {
    let turn_id = turn_of(event)?;
    if let Some(open) = open(target.conn, target.session)? {
        let open = open.turn_id;
        return Err(Error::Inconsistent(format!("turn {turn_id} begins while {open} is open")));
    }
    target
        .conn
        .prepare_cached(
            "INSERT INTO turns (session, turn_id, submission_id, model, limits, started_seq,
                                started_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            target.session,
            turn_id.as_str(),
            submission_id.as_str(),
            model,
            Json(limits),
            event.seq,
            Millis(event.time),
        ))?;
    submissions::begun(target, submission_id, turn_id)?;
    sessions::active_turn(target, Some(turn_id))
}

/// A model request began. Only the first changes the row, so that one can tell that there was any;
/// how many there were is written at the end.
pub(super) fn iteration(target: Target<'_>, index: u32) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE turns SET iterations = ?2
             WHERE session = ?1 AND ended_seq IS NULL AND iterations = 0",
        )?
        .execute((target.session, index))?;
    Ok(())
}

/// A turn ended.
pub(super) fn ended(target: Target<'_>, event: &Event, totals: &TurnTotals) -> Result<(), Error> {
    let turn_id = turn_of(event)?;
    let ended = target
        .conn
        .prepare_cached(
            "UPDATE turns SET ended_seq = ?3, ended_at = ?4, outcome = ?5,
                 iterations = max(iterations, ?6)
             WHERE session = ?1 AND turn_id = ?2 AND ended_seq IS NULL",
        )?
        .execute((
            target.session,
            turn_id.as_str(),
            event.seq,
            Millis(event.time),
            event.body.name(),
            totals.iterations,
        ))?;
    if ended == 0 {
        return Err(Error::Inconsistent(format!("turn {turn_id} ends and is not open")));
    }
    used(target, turn_id, &totals.usage)?;
    items::abandon(target)?;
    submissions::ended(target, turn_id)?;
    sessions::active_turn(target, None)
}

/// What the turn used; nothing, if it asked no model.
fn used(target: Target<'_>, turn_id: &TurnId, usage: &Usage) -> Result<(), Error> {
    if *usage == Usage::default() {
        return Ok(());
    }
    target
        .conn
        .prepare_cached(
            "INSERT INTO usage (session, turn_id, input, output, cache_read, cache_write,
                                reasoning, cost_usd)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            target.session,
            turn_id.as_str(),
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
            usage.cost_usd,
        ))?;
    Ok(())
}

/// A turn without its terminal event.
pub(super) struct Open {
    pub turn_id: TurnId,
    pub submission_id: SubmissionId,
    pub started_seq: u64,
}

/// The session's open turn.
pub(super) fn open(conn: &Connection, session: i64) -> Result<Option<Open>, Error> {
    let row: Option<(String, Word<SubmissionId>, u64)> = conn
        .prepare_cached(
            "SELECT turn_id, submission_id, started_seq FROM turns
             WHERE session = ?1 AND ended_seq IS NULL",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(row.map(|(turn_id, Word(submission_id), started_seq)| Open {
        turn_id: turn_id.into(),
        submission_id,
        started_seq,
    }))
}

/// The number of the event that ended the last turn, unless a rollback came after it: then there
/// is nothing to go on with. A turn that completed without an iteration only compacted.
pub(super) fn last_end(
    conn: &Connection,
    session: i64,
    also_compactions: bool,
) -> Result<Option<u64>, Error> {
    let seq = conn
        .prepare_cached(
            "SELECT ended_seq FROM turns WHERE id = (
                 SELECT max(id) FROM turns WHERE session = ?1 AND ended_seq IS NOT NULL
                     AND (?2 OR iterations > 0 OR outcome <> 'turn.completed'))
             AND NOT EXISTS (
                 SELECT 1 FROM events WHERE session = ?1 AND seq > ended_seq
                     AND body ->> '$.type' = 'session.rolled_back')",
        )?
        .query_row((session, also_compactions), |row| row.get(0))
        .optional()?;
    Ok(seq)
}

/// Whether a turn of this id ever began.
pub(super) fn has_begun(conn: &Connection, session: i64, turn_id: &TurnId) -> Result<bool, Error> {
    Ok(conn
        .prepare_cached("SELECT 1 FROM turns WHERE session = ?1 AND turn_id = ?2")?
        .exists((session, turn_id.as_str()))?)
}
