//! A plan: what a step of the actor wants committed, done and answered, in that order.
//!
//! Receives events from the ops and steps from the turn machine; hands one transaction and its
//! consequences to `perform`.

use agentd_protocol::event::EventBody;
use agentd_protocol::id::TurnId;
use agentd_protocol::session::Session;
use agentd_protocol::submission::{Disposition, Rollback, SubmitParams, SubmitResult};
use agentd_protocol::time::Time;

use super::Error;
use super::command::{Reply, Submitted};
use crate::store::{self, Appended, NewEvent, Row};
use crate::turn::{Action, Record, Step};

/// A plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) now: Time,
    pub(super) events: Vec<NewEvent>,
    pub(super) rows: Vec<Row>,
    pub(super) actions: Vec<Action>,
    pub(super) answer: Option<Answer>,
    /// The lease is to be taken or kept although nothing is written.
    pub(super) needs_lease: bool,
    /// The lease is taken from a live process too.
    pub(super) by_force: bool,
    /// Something to be done that no event tells.
    pub(super) chore: Option<Chore>,
}

/// What became of a submission, and what it did if it was a rollback.
pub(super) type Outcome = (Disposition, Option<TurnId>, Option<Rollback>);

/// What no event tells.
#[derive(Debug)]
pub(super) enum Chore {
    /// A transaction that was not waited for is over.
    Committed(Result<Appended, store::Error>),
    /// So is the lease's renewal.
    Renewed(Result<(), store::Error>),
    /// Unload the session.
    Retire,
    /// Try the store again.
    Mend,
    /// Delete the session.
    Delete(Reply<()>),
    /// Take the lease from whoever has it.
    TakeOver(Reply<Session>),
}

/// Who is told that the plan's transaction is committed.
#[derive(Debug)]
pub(super) enum Answer {
    Submitted { reply: Reply<SubmitResult>, result: SubmitResult },
    Updated { reply: Reply<()> },
    Refused { reply: Reply<SubmitResult>, error: Error },
}

impl Answer {
    /// All is committed. A caller that is gone needs no answer.
    pub(super) fn give(self) {
        match self {
            Self::Submitted { reply, result } => drop(reply.send(Ok(result))),
            Self::Updated { reply } => drop(reply.send(Ok(()))),
            Self::Refused { reply, error } => drop(reply.send(Err(error))),
        }
    }

    /// Nothing was committed.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Submitted { reply, .. } | Self::Refused { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::Updated { reply } => drop(reply.send(Err(error))),
        }
    }
}

impl Plan {
    pub(super) fn new(now: Time) -> Self {
        Self {
            now,
            events: Vec::new(),
            rows: Vec::new(),
            actions: Vec::new(),
            answer: None,
            needs_lease: false,
            by_force: false,
            chore: None,
        }
    }

    pub(super) fn is_written(&self) -> bool {
        !self.events.is_empty() || !self.rows.is_empty() || self.needs_lease
    }

    /// Whether nothing depends on its commit: text and calls of a running stream, kept in case of
    /// a crash.
    pub(super) fn is_precaution(&self) -> bool {
        let events =
            self.events.iter().all(|event| matches!(event.body, EventBody::ToolCalled { .. }));
        let rows = self.rows.iter().all(|row| matches!(row, Row::Checkpoint { .. }));
        events && rows && self.answer.is_none() && !self.needs_lease
    }

    /// Whether a turn's terminal event is among the events.
    pub(super) fn ends_turn(&self) -> bool {
        self.events.iter().any(|event| event.body.is_terminal())
    }

    /// An event of the session.
    pub(super) fn event(&mut self, body: EventBody) {
        self.events.push(NewEvent { turn_id: None, time: self.now, body });
    }

    /// An event of a turn.
    pub(super) fn turn_event(&mut self, turn_id: &TurnId, body: EventBody) {
        self.events.push(NewEvent { turn_id: Some(turn_id.clone()), time: self.now, body });
    }

    /// What the turn machine wants.
    pub(super) fn step(&mut self, turn_id: &TurnId, step: Step) {
        for record in step.records {
            match record {
                Record::Event(body) => self.turn_event(turn_id, body),
                Record::Checkpoint { item_id, attempt, kind, offset, text } => {
                    self.rows.push(Row::Checkpoint { item_id, attempt, kind, offset, text });
                }
                Record::FileSeen { path, sha256 } => {
                    self.rows.push(Row::FileSeen { path, sha256 });
                }
            }
        }
        self.actions.extend(step.actions);
    }

    /// The submission is accepted: its event comes first, its row and answer when all is planned.
    pub(super) fn accept(
        &mut self,
        submitted: &Submitted,
        disposition: Disposition,
        turn_id: Option<&TurnId>,
    ) {
        let SubmitParams { submission, .. } = &submitted.params;
        self.events.push(NewEvent {
            turn_id: turn_id.cloned(),
            time: self.now,
            body: EventBody::SubmissionAccepted {
                submission_id: submission.id.clone(),
                op: submission.op.name().to_owned(),
                disposition,
                client: submitted.caller.client.clone(),
            },
        });
    }

    /// Completes the acceptance: the row that makes the submission run at most once.
    pub(super) fn answer_submitted(
        &mut self,
        submitted: Submitted,
        digest: String,
        (disposition, turn_id, rollback): Outcome,
    ) {
        let result = SubmitResult {
            submission_id: submitted.params.submission.id.clone(),
            disposition,
            turn_id,
            seq: 0,
            replayed: false,
            rollback,
        };
        self.rows.push(Row::Submission {
            params: Box::new(submitted.params),
            digest,
            result: result.clone(),
        });
        self.answer = Some(Answer::Submitted { reply: submitted.reply, result });
    }

    /// Writes the head that the transaction will have into the submission's outcome.
    pub(super) fn number(&mut self, head: u64) {
        let seq = head + self.events.len() as u64;
        for row in &mut self.rows {
            if let Row::Submission { result, .. } = row {
                result.seq = seq;
            }
        }
        if let Some(Answer::Submitted { result, .. }) = &mut self.answer {
            result.seq = seq;
        }
    }
}
