//! The turn machine: what happens next in a turn, decided without doing it.
//!
//! A [`Machine`] takes one [`Input`] at a time and answers with a [`Step`]: records, which the
//! caller commits in one transaction, and actions, which the caller performs after that commit.
//! It has no clock, no async and no I/O; time and unique parts of ids come in with [`Moment`].
//! So every rule of the loop is a table of cases that runs in microseconds, and random inputs can
//! be checked against the invariants.
//!
//! What it knows is a fold of the turn's events (`Machine::apply` is called for each event it
//! emits, and by [`Machine::restore`] for each event of the record), so that a restart finds the
//! same machine. What is not in events (text of the running stream, what a tool said of a call)
//! is asked for again or was checkpointed.
//!
//! Records may be held back while a question to the caller ([`Action::Prepare`],
//! [`Action::Judge`]) is open, so that an iteration in steady state is two commits; no longer than
//! to the next [`Input::CheckpointDue`], and never in a turn that is being cut off.
//!
//! Receives inputs from `session`; hands records and actions to it.

mod attempt;
mod brakes;
mod calls;
mod close;
mod context;
mod duplicate;
mod effect;
mod fold;
mod iteration;
mod moment;
mod step;
mod stream;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use agentd_protocol::event::{AbortReason, Limit, LimitScope, TurnError, TurnTotals};
use agentd_protocol::id::{CallId, ProcessId, SubmissionId, TurnId};
use agentd_protocol::item::Part;
use agentd_protocol::permission::{By, PermissionMode};
use agentd_protocol::process::ProcessExit;
use agentd_protocol::session::{Limits, Usage};

pub use self::brakes::DEFAULT_MAX_ITERATIONS;
pub use self::calls::{Outcome, Traits};
pub use self::context::{Cut, Full, MAX_FAILED_COMPACTIONS, Overflow, Pruning};
pub use self::duplicate::DuplicateRule;
pub use self::effect::{
    Action, Input, Judgement, Opening, Record, Retry, Start, Step, StreamInput,
};
pub use self::fold::Found;
pub use self::moment::Moment;
pub use self::text::{INTERRUPTED_AFTER_START, resume_note};

use self::calls::Batch;
use self::duplicate::Guard;
use self::effect::Outbox;
use self::stream::Stream;

/// Where a turn is.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// A model is answering, or writing a summary.
    Streaming(Stream),
    /// A model's answer broke off; the next attempt waits.
    RetryWait(Stream),
    /// The calls of the last answer, which is whole, are being judged, asked about and run.
    Calls,
    /// The turn is being cut off and waits for its tools to stop.
    Stopping { ending: Ending, stream: Option<Box<Stream>> },
    /// The terminal event is out.
    Ended,
}

/// How a turn that is cut off will end.
#[derive(Debug, Clone, PartialEq)]
enum Ending {
    Aborted { reason: AbortReason, by: Option<By> },
    Failed(TurnError),
}

/// Rules that do not change while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Safe reads at once.
    pub max_parallel: usize,
    /// What the duplicate guard refuses.
    pub duplicates: DuplicateRule,
}

/// One turn.
#[derive(Debug, Clone)]
pub struct Machine {
    settings: Settings,
    turn_id: TurnId,
    submission_id: SubmissionId,
    /// The model of this iteration.
    model: String,
    window: u64,
    /// The model of the next one, where it is another.
    next_model: Option<(String, u64)>,
    phase: Phase,
    /// The calls of the last answer; while it streams, those that are complete.
    batch: Batch,
    guard: Guard,
    limits: Limits,
    /// The permission mode of this iteration, and of the next one.
    mode: PermissionMode,
    next_mode: PermissionMode,
    /// Model requests started, without retries.
    iterations: u32,
    usage: Usage,
    session_usage: Usage,
    /// The longest answer so far, in tokens that count, and in USD.
    longest_answer: (u64, f64),
    /// This iteration was announced as the last, because of this limit.
    last_step: Option<(Limit, LimitScope)>,
    /// The last-step notice is recorded, its iteration is not.
    announced: Option<(Limit, LimitScope)>,
    /// Iterations in a row whose calls were all refused as duplicates.
    refused_in_a_row: u32,
    /// An answer without text and calls was asked for once more.
    asked_for_text: bool,
    /// How often an answer that the output limit cut was gone on with.
    continued: u32,
    context: context::Context,
    /// One more iteration was made since the record did not fit together.
    rechecked: bool,
    /// The index that the next item gets.
    next_index: u64,
    last_user_index: u64,
    last_assistant_index: u64,
    /// The session's commands that run in the background.
    running: BTreeSet<ProcessId>,
    /// Those that ended, of which the next iteration tells.
    exited: Vec<ProcessExit>,
    /// Inputs that go into the next iteration.
    steered: Vec<(SubmissionId, Vec<Part>)>,
    time: brakes::Stopwatch,
    outbox: Outbox,
}

impl Machine {
    /// The turn's id.
    pub fn turn_id(&self) -> &TurnId {
        &self.turn_id
    }

    /// The submission that started it.
    pub fn submission_id(&self) -> &SubmissionId {
        &self.submission_id
    }

    /// The model that answers in this iteration, `provider/name`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// What the calls of this iteration are judged by.
    pub fn permission_mode(&self) -> PermissionMode {
        self.mode
    }

    /// Whether its terminal event is out.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether it waits for a person and for nothing else.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Calls) && self.batch.waits_for_people()
    }

    /// Whether it does nothing but compact.
    pub fn compacts(&self) -> bool {
        self.context.compacts
    }

    /// Whether the request that is out asks for a summary.
    pub fn is_summarizing(&self) -> bool {
        matches!(&self.phase, Phase::Streaming(stream) if stream.is_summary())
    }

    /// Whether it is being cut off.
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. })
    }

    /// Whether there is news that no commit holds yet; it should be asked for with
    /// [`Input::CheckpointDue`] within 100 ms.
    pub fn has_unsaved(&self) -> bool {
        !self.outbox.is_empty()
            || match &self.phase {
                Phase::Streaming(stream) => stream.has_unsaved() || self.batch.has_granted(),
                Phase::RetryWait(_) | Phase::Calls | Phase::Stopping { .. } | Phase::Ended => false,
            }
    }

    /// Inputs that were steered into the turn and that no iteration took, in order.
    pub fn take_steered(&mut self) -> Vec<SubmissionId> {
        std::mem::take(&mut self.steered).into_iter().map(|(id, _)| id).collect()
    }

    /// An input that was steered into the turn is given up before an iteration took it.
    pub fn forget_steered(&mut self, submission_id: &SubmissionId) {
        self.steered.retain(|(steered, _)| steered != submission_id);
    }

    /// Usage of the session, this turn included.
    pub fn session_usage(&self) -> Usage {
        self.session_usage
    }

    /// The index that the next item gets.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The calls that started and have no result.
    pub fn started_calls(&self) -> Vec<CallId> {
        self.batch.started()
    }

    /// The name and arguments of a call of the last answer, which may still stream.
    pub fn call(&self, call_id: &CallId) -> Option<&agentd_protocol::item::Call> {
        self.batch.find(call_id).map(|state| &state.call)
    }

    /// Whether a question to the caller is open whose answer is still wanted.
    fn is_asking(&self) -> bool {
        match &self.phase {
            Phase::Streaming(_) | Phase::Calls => self.batch.is_asking(),
            Phase::RetryWait(_) | Phase::Stopping { .. } | Phase::Ended => false,
        }
    }

    /// Whether the turn's time stands still since people are asked.
    fn asks_people(&self) -> bool {
        matches!(self.phase, Phase::Calls) && self.batch.asks_people()
    }

    fn totals(&self) -> TurnTotals {
        TurnTotals {
            usage: self.usage,
            iterations: self.iterations,
            duration_ms: self.time.elapsed_ms(),
        }
    }
}
