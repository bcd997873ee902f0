//! The ledger of tool calls: called, started, completed or discarded.
//!
//! `started` is committed before a process exists, so that after a crash the record says what may
//! have taken effect.
//!
//! Receives events from `project.rs`; hands the running calls to `load.rs`.

use agentd_protocol::event::Event;
use agentd_protocol::id::{CallId, ItemId};
use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Risk;
use agentd_protocol::time::Time;
use rusqlite::Connection;

use super::column::{Millis, Word};
use super::error::Error;
use super::project::{Target, turn_of};
use super::turns;

/// The model asked for it.
pub(super) fn called(
    target: Target<'_>,
    event: &Event,
    call_id: &CallId,
    item_id: &ItemId,
    name: &str,
) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO calls (session, call_id, turn_id, item_id, name, state, called_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'called', ?6)",
        )?
        .execute((
            target.session,
            call_id.as_str(),
            turn_of(event)?.as_str(),
            item_id.as_str(),
            name,
            Millis(event.time),
        ))?;
    Ok(())
}

/// It is about to run.
pub(super) fn started(
    target: Target<'_>,
    time: Time,
    call_id: &CallId,
    (summary, risk): (&str, Risk),
) -> Result<(), Error> {
    let started = target
        .conn
        .prepare_cached(
            "UPDATE calls SET state = 'started', started_at = ?3, summary = ?4, risk = ?5
             WHERE session = ?1 AND call_id = ?2 AND state = 'called'",
        )?
        .execute((target.session, call_id.as_str(), Millis(time), summary, Word(risk)))?;
    if started == 0 {
        return Err(Error::Inconsistent(format!("call {call_id} starts and was not called")));
    }
    Ok(())
}

/// It has its result. A result without a call is a copied conversation's.
pub(super) fn completed(
    target: Target<'_>,
    time: Time,
    call_id: &CallId,
    status: ToolStatus,
) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE calls SET state = 'completed', completed_at = ?3, status = ?4
             WHERE session = ?1 AND call_id = ?2",
        )?
        .execute((target.session, call_id.as_str(), Millis(time), Word(status)))?;
    Ok(())
}

/// The answer they belonged to was taken back.
pub(super) fn discarded(target: Target<'_>, calls: &[CallId]) -> Result<(), Error> {
    let mut statement = target.conn.prepare_cached(
        "UPDATE calls SET state = 'discarded' WHERE session = ?1 AND call_id = ?2",
    )?;
    for call_id in calls {
        statement.execute((target.session, call_id.as_str()))?;
    }
    Ok(())
}

/// Calls that started and have no result: some of the open turn, if one is. They are looked for among
/// the session's calls, which only a watcher's joining does, so that no call enters an index and
/// leaves it again.
pub(super) fn running(conn: &Connection, session: i64) -> Result<Vec<CallId>, Error> {
    let Some(open) = turns::open(conn, session)? else { return Ok(Vec::new()) };
    let calls = conn
        .prepare_cached(
            "SELECT call_id FROM calls
             WHERE session = ?1 AND turn_id = ?2 AND state = 'started' ORDER BY id",
        )?
        .query_map((session, open.turn_id.as_str()), |row| Ok(row.get_ref(0)?.as_str()?.into()))?
        .collect::<Result<_, _>>()?;
    Ok(calls)
}
