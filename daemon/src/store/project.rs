//! What an event changes beside the log: one function per event type, in the same transaction.
//!
//! The rows are a projection of the log, and cannot run ahead of it or fall behind. What
//! [`agentd_protocol::view`] folds into a session is what stands in the session's row.
//!
//! Receives numbered events from `append.rs`; hands each to the table that it concerns.

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::TurnId;
use rusqlite::Connection;

use super::error::Error;
use super::{calls, items, knowledge, processes, prompts, sessions, submissions, turns};

/// A session's rows inside of a transaction.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The transaction's connection.
    pub conn: &'a Connection,
    /// The session's key.
    pub session: i64,
}

/// Changes the rows that follow from `event`.
pub(super) fn project(target: Target<'_>, event: &Event) -> Result<(), Error> {
    match &event.body {
        EventBody::SessionUpdated { session, .. } => sessions::updated(target, session),
        EventBody::SessionState { state, queue_held } => {
            sessions::state(target, *state, *queue_held)
        }
        EventBody::InputQueued { submission_id, position, .. } => {
            submissions::queued(target, event.turn_id.as_ref(), submission_id, *position)
        }
        EventBody::InputSteered { submission_id, .. } => submissions::joined(target, submission_id),
        EventBody::InputDropped { submission_id, .. } => {
            submissions::settled(target, submission_id)
        }
        EventBody::TurnStarted { submission_id, model, limits } => {
            turns::started(target, event, submission_id, model, limits)
        }
        EventBody::IterationStarted { index, .. } => {
            turns::iteration(target, *index)?;
            processes::told(target)
        }
        EventBody::ItemStarted { item_id, role, attempt } => {
            items::started(target, event, item_id, *role, *attempt)
        }
        EventBody::MessageReset { item_id, attempt, discarded } => {
            items::reset(target, item_id, *attempt)?;
            calls::discarded(target, discarded)
        }
        EventBody::ToolCalled { call_id, item_id, name, .. } => {
            calls::called(target, event, call_id, item_id, name)
        }
        EventBody::ToolStarted { call_id, summary, risk, .. } => {
            calls::started(target, event.time, call_id, (summary, *risk))
        }
        EventBody::ToolCompleted { call_id, status, .. } => {
            calls::completed(target, event.time, call_id, *status)
        }
        EventBody::PermissionRequested { prompt } => {
            prompts::requested(target, "permission", prompt)
        }
        EventBody::QuestionRequested { prompt } => prompts::requested(target, "question", prompt),
        EventBody::PermissionResolved(resolved) | EventBody::QuestionResolved(resolved) => {
            prompts::resolved(target, event.time, resolved)
        }
        EventBody::ProcessStarted(process) => processes::started(target, process),
        EventBody::ProcessExited(exit) => processes::exited(target, exit),
        EventBody::MemoryCandidate { memory_id, text } => {
            knowledge::memory_candidate(target, event.time, memory_id, text)
        }
        EventBody::SkillCandidate { skill_id, name, description, steps } => {
            knowledge::skill_candidate(target, event.time, skill_id, (name, description, steps))
        }
        EventBody::SessionRolledBack { item_id, hidden, .. } => {
            items::hidden(target, hidden, item_id)
        }
        EventBody::TurnCompleted { totals }
        | EventBody::TurnExhausted { totals, .. }
        | EventBody::TurnAborted { totals, .. }
        | EventBody::TurnFailed { totals, .. } => turns::ended(target, event, totals),
        EventBody::MessageCompleted { item } => items::recorded(target, item),
        EventBody::SessionCreated { .. }
        | EventBody::SubmissionAccepted { .. }
        | EventBody::UsageUpdated { .. }
        | EventBody::RetryScheduled { .. }
        | EventBody::ContextPruned { .. }
        | EventBody::ContextCompacted { .. }
        | EventBody::PlanUpdated { .. }
        | EventBody::HookRan { .. }
        | EventBody::Warning { .. } => Ok(()),
    }
}

/// The turn that an event of a turn names.
pub(super) fn turn_of(event: &Event) -> Result<&TurnId, Error> {
    event
        .turn_id
        .as_ref()
        .ok_or_else(|| Error::Inconsistent(format!("{} without a turn", event.body.name())))
}
