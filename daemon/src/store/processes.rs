//! Background commands: those that run, and whose end the model has not been told.
//!
//! An end is told in the iteration that starts next, so an iteration's start forgets the ends
//! before it.
//!
//! Receives events from `project.rs`; hands what runs and what is to be told to `session`.

use agentd_protocol::process::{Process, ProcessExit};
use rusqlite::Connection;

use super::column::Json;
use super::error::Error;
use super::project::Target;

/// One runs.
pub(super) fn started(target: Target<'_>, process: &Process) -> Result<(), Error> {
    let Process { process_id, call_id, command } = process;
    target
        .conn
        .prepare_cached(
            "INSERT OR REPLACE INTO processes (session, process_id, call_id, command)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((target.session, process_id.as_str(), call_id.as_str(), command))?;
    Ok(())
}

/// It ended.
pub(super) fn exited(target: Target<'_>, exit: &ProcessExit) -> Result<(), Error> {
    target
        .conn
        .prepare_cached("UPDATE processes SET exit = ?3 WHERE session = ?1 AND process_id = ?2")?
        .execute((target.session, exit.process_id.as_str(), Json(exit)))?;
    Ok(())
}

/// An iteration starts, in which the model is told what ended before.
pub(super) fn told(target: Target<'_>) -> Result<(), Error> {
    target
        .conn
        .prepare_cached("DELETE FROM processes WHERE session = ?1 AND exit IS NOT NULL")?
        .execute([target.session])?;
    Ok(())
}

/// Those that run, oldest first.
pub(super) fn running(conn: &Connection, session: i64) -> Result<Vec<Process>, Error> {
    let running = conn
        .prepare_cached(
            "SELECT process_id, call_id, command FROM processes
             WHERE session = ?1 AND exit IS NULL ORDER BY id",
        )?
        .query_map([session], |row| {
            Ok(Process {
                process_id: row.get_ref(0)?.as_str()?.into(),
                call_id: row.get_ref(1)?.as_str()?.into(),
                command: row.get(2)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(running)
}

/// Those that ended since the last iteration began.
pub(super) fn untold(conn: &Connection, session: i64) -> Result<Vec<ProcessExit>, Error> {
    let untold = conn
        .prepare_cached(
            "SELECT exit FROM processes WHERE session = ?1 AND exit IS NOT NULL ORDER BY id",
        )?
        .query_map([session], |row| row.get(0).map(|Json(exit)| exit))?
        .collect::<Result<_, _>>()?;
    Ok(untold)
}
