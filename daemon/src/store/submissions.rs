//! Submissions: the record that makes each run at most once, and the inputs that wait.
//!
//! An input waits in one of two places: `steered` (into the running turn, until it is drained) or
//! `queued` (for a turn of its own). Its parameters are kept as long as something may start from
//! them: while it waits and while its turn is open.
//!
//! Invariants: positions in the queue are dense from 1; an accepted input leaves its place only
//! by an event.
//!
//! Receives rows of appends and events of `project.rs`; hands the queue to `load.rs`.

use agentd_protocol::id::{SessionId, SubmissionId, TurnId};
use agentd_protocol::session::QueueEntry;
use agentd_protocol::submission::{Disposition, Op, SubmitParams, SubmitResult};
use agentd_protocol::view::session::queue_entry;
use rusqlite::{Connection, OptionalExtension};

use super::column::Json;
use super::error::Error;
use super::project::Target;
use super::record::QueuedInput;
use super::{sessions, turns};

/// A submission was accepted.
pub(super) fn accepted(
    target: Target<'_>,
    params: &SubmitParams,
    digest: &str,
    result: &SubmitResult,
) -> Result<(), Error> {
    let steered = result.disposition == Disposition::Steered;
    // What was applied is done: nothing starts from it later.
    let kept = (result.disposition != Disposition::Applied).then_some(Json(params));
    target
        .conn
        .prepare_cached(
            "INSERT INTO submissions (session, submission_id, digest, result, params, turn_id,
                                      place)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((
            target.session,
            params.submission.id.as_str(),
            digest,
            Json(result),
            kept,
            result.turn_id.as_ref().map(TurnId::as_str),
            steered.then_some("steered"),
        ))?;
    Ok(())
}

/// What was sent and answered under this id: the digest and the result.
pub(super) fn find(
    conn: &Connection,
    session_id: &SessionId,
    submission_id: &SubmissionId,
) -> Result<Option<(String, SubmitResult)>, Error> {
    let (session, _) = sessions::find(conn, session_id)?;
    let found = conn
        .prepare_cached(
            "SELECT digest, result FROM submissions WHERE session = ?1 AND submission_id = ?2",
        )?
        .query_row((session, submission_id.as_str()), |row| {
            Ok((row.get(0)?, row.get(1).map(|Json(result)| result)?))
        })
        .optional()?;
    Ok(found)
}

/// An input waits at this position for a turn of its own.
pub(super) fn queued(
    target: Target<'_>,
    turn_id: Option<&TurnId>,
    submission_id: &SubmissionId,
    position: u64,
) -> Result<(), Error> {
    leave(target, submission_id)?;
    let length: u64 = target
        .conn
        .prepare_cached("SELECT count(*) FROM submissions WHERE session = ?1 AND place = 'queued'")?
        .query_row([target.session], |row| row.get(0))?;
    if position == 0 || position > length + 1 {
        return Err(Error::Inconsistent(format!(
            "input {submission_id} at position {position} of a queue of {length}"
        )));
    }
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET position = position + 1
             WHERE session = ?1 AND place = 'queued' AND position >= ?2",
        )?
        .execute((target.session, position))?;
    let future = future_turn(target, turn_id, submission_id)?;
    let placed = target
        .conn
        .prepare_cached(
            "UPDATE submissions SET place = 'queued', position = ?3, turn_id = ?4
             WHERE session = ?1 AND submission_id = ?2",
        )?
        .execute((target.session, submission_id.as_str(), position, future.as_str()))?;
    if placed == 0 {
        return Err(Error::Inconsistent(format!("input {submission_id} was not accepted")));
    }
    Ok(())
}

/// The turn that an input will start: the one the event names, else the one its result named,
/// unless they have begun already.
fn future_turn(
    target: Target<'_>,
    named: Option<&TurnId>,
    submission_id: &SubmissionId,
) -> Result<TurnId, Error> {
    let accepted: Option<TurnId> = target
        .conn
        .prepare_cached(
            "SELECT turn_id FROM submissions WHERE session = ?1 AND submission_id = ?2",
        )?
        .query_row((target.session, submission_id.as_str()), |row| row.get::<_, Option<String>>(0))
        .optional()?
        .flatten()
        .map(TurnId::from);
    for turn_id in named.into_iter().chain(accepted.as_ref()) {
        if !turns::has_begun(target.conn, target.session, turn_id)? {
            return Ok(turn_id.clone());
        }
    }
    Ok(TurnId::from_unique(uuid::Uuid::now_v7().simple()))
}

/// An input was drained into a turn. Of one that ends it when its submitter is gone, the parameters
/// say so.
pub(super) fn joined(target: Target<'_>, submission_id: &SubmissionId) -> Result<(), Error> {
    leave(target, submission_id)?;
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET params = NULL WHERE session = ?1 AND submission_id = ?2
             AND params ->> 'on_disconnect' IS NOT 'interrupt'",
        )?
        .execute((target.session, submission_id.as_str()))?;
    Ok(())
}

/// An input was dropped.
pub(super) fn settled(target: Target<'_>, submission_id: &SubmissionId) -> Result<(), Error> {
    leave(target, submission_id)?;
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET params = NULL WHERE session = ?1 AND submission_id = ?2",
        )?
        .execute((target.session, submission_id.as_str()))?;
    Ok(())
}

/// An input's turn began.
pub(super) fn begun(
    target: Target<'_>,
    submission_id: &SubmissionId,
    turn_id: &TurnId,
) -> Result<(), Error> {
    leave(target, submission_id)?;
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET turn_id = ?3 WHERE session = ?1 AND submission_id = ?2",
        )?
        .execute((target.session, submission_id.as_str(), turn_id.as_str()))?;
    Ok(())
}

/// A turn ended: nothing starts from its submission any more.
pub(super) fn ended(target: Target<'_>, turn_id: &TurnId) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET params = NULL
             WHERE session = ?1 AND place IS NULL AND submission_id = (
                 SELECT submission_id FROM turns WHERE session = ?1 AND turn_id = ?2)",
        )?
        .execute((target.session, turn_id.as_str()))?;
    Ok(())
}

/// Takes an input out of its place and closes the gap.
fn leave(target: Target<'_>, submission_id: &SubmissionId) -> Result<(), Error> {
    let position: Option<Option<u64>> = target
        .conn
        .prepare_cached(
            "UPDATE submissions SET place = NULL
             WHERE session = ?1 AND submission_id = ?2 AND place IS NOT NULL
             RETURNING position",
        )?
        .query_row((target.session, submission_id.as_str()), |row| row.get(0))
        .optional()?;
    let Some(Some(position)) = position else { return Ok(()) };
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET position = NULL WHERE session = ?1 AND submission_id = ?2",
        )?
        .execute((target.session, submission_id.as_str()))?;
    target
        .conn
        .prepare_cached(
            "UPDATE submissions SET position = position - 1
             WHERE session = ?1 AND place = 'queued' AND position > ?2",
        )?
        .execute((target.session, position))?;
    Ok(())
}

/// Inputs that wait for a turn of their own, in order.
pub(super) fn queue(conn: &Connection, session: i64) -> Result<Vec<QueuedInput>, Error> {
    let queue = conn
        .prepare_cached(
            "SELECT turn_id, params FROM submissions
             WHERE session = ?1 AND place = 'queued' ORDER BY position",
        )?
        .query_map([session], |row| {
            let (turn_id, Json(params)) = (row.get::<_, String>(0)?, row.get(1)?);
            Ok(QueuedInput { turn_id: turn_id.into(), params })
        })?
        .collect::<Result<_, _>>()?;
    Ok(queue)
}

/// The queue as a session shows it.
pub(super) fn entries(conn: &Connection, session: i64) -> Result<Vec<QueueEntry>, Error> {
    let entries = queue(conn, session)?.into_iter().map(|input| {
        let submission = input.params.submission;
        match &submission.op {
            Op::UserInput { content, .. } => queue_entry(submission.id, content),
            other => QueueEntry { preview: other.name().to_owned(), submission_id: submission.id },
        }
    });
    Ok(entries.collect())
}

/// Inputs steered into the running turn that were not drained, oldest first.
pub(super) fn steered(conn: &Connection, session: i64) -> Result<Vec<SubmitParams>, Error> {
    let steered = conn
        .prepare_cached(
            "SELECT params FROM submissions
             WHERE session = ?1 AND place = 'steered' ORDER BY id",
        )?
        .query_map([session], |row| row.get(0).map(|Json(params)| params))?
        .collect::<Result<_, _>>()?;
    Ok(steered)
}

/// The parameters of this submission, while they are kept.
pub(super) fn params(
    conn: &Connection,
    session: i64,
    submission_id: &SubmissionId,
) -> Result<Option<SubmitParams>, Error> {
    let params: Option<Option<Json<SubmitParams>>> = conn
        .prepare_cached("SELECT params FROM submissions WHERE session = ?1 AND submission_id = ?2")?
        .query_row((session, submission_id.as_str()), |row| row.get(0))
        .optional()?;
    Ok(params.flatten().map(|Json(params)| params))
}
