//! The words between the machine and its caller: inputs, records, actions.
//!
//! Receives nothing; hands its types to the machine and to `session`.

use std::collections::BTreeSet;

use agentd_protocol::event::Resolved;
use agentd_protocol::event::{AbortReason, EventBody, RetryCause, TurnError};
use agentd_protocol::id::{CallId, ItemId, ProcessId, SubmissionId, TurnId};
use agentd_protocol::item::{Origin, Part};
use agentd_protocol::permission::{By, PermissionMode, Prompt};
use agentd_protocol::process::ProcessExit;
use agentd_protocol::progress::{DeltaKind, Progress};
use agentd_protocol::session::{Limits, Usage};
use serde_json::Value;

use super::Settings;
use super::calls::{Outcome, Traits};
use super::context::{Cut, Full};

/// What a turn starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Its rules.
    pub settings: Settings,
    /// Its id.
    pub turn_id: TurnId,
    /// What started it.
    pub submission_id: SubmissionId,
    /// The model, `provider/name`.
    pub model: String,
    /// The model's window in tokens; 0 where it is not known.
    pub window: u64,
    /// The turn does nothing but compact: its first input is [`Input::Compact`].
    pub compacts: bool,
    /// The limits in force: the submission's over the session's.
    pub limits: Limits,
    /// The session's permission mode.
    pub permission_mode: PermissionMode,
    /// The session's usage so far.
    pub session_usage: Usage,
    /// The index that the next item gets.
    pub next_index: u64,
    /// Commands that run in the background now.
    pub running: BTreeSet<ProcessId>,
    /// Those that ended, of which no iteration has told.
    pub exited: Vec<ProcessExit>,
}

/// What a turn begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// The system item, for a session without items.
    pub system: Option<Vec<Part>>,
    /// The input.
    pub input: Vec<Part>,
    /// Who wrote it.
    pub origin: Origin,
}

/// What the machine is told.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are named after the words they carry")]
pub enum Input {
    /// Begin; the first input of a new machine.
    Begin(Opening),
    /// Compact; the first input of a new machine whose turn does nothing else.
    Compact,
    /// Go on where the record stopped, or end for this reason; the first input of a restored
    /// machine.
    TakeUp { otherwise: AbortReason },
    /// News from the model's stream.
    Stream(StreamInput),
    /// A wait between two attempts is over, or was ended.
    RetryDue,
    /// What the tool says of a call; `Err` is a text for the model.
    Prepared { call_id: CallId, traits: Result<Traits, String> },
    /// What the policy says of a call.
    Judged { call_id: CallId, judgement: Judgement },
    /// A prompt was resolved by a person, by time, or because nobody could be asked.
    Answered { resolved: Resolved, interrupt: bool },
    /// A call is over.
    Finished { call_id: CallId, outcome: Outcome },
    /// Input for the next iteration.
    Steered { submission_id: SubmissionId, content: Vec<Part> },
    /// A command in the background ended.
    Exited(ProcessExit),
    /// Other limits from the next iteration on.
    Limits(Limits),
    /// Another permission mode from the next iteration on.
    PermissionMode(PermissionMode),
    /// Another model, with its window in tokens, from the next iteration on.
    Model { model: String, window: u64 },
    /// What no commit holds yet has waited long enough.
    CheckpointDue,
    /// Cut the turn off.
    Cancel { reason: AbortReason, by: Option<By> },
    /// Close the turn since something failed; the first input of a restored machine.
    Fail(TurnError),
}

/// News from a model's stream.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are named after the words they carry")]
pub enum StreamInput {
    /// The request goes out and has about so many tokens. Of a session's first one it is said what
    /// its system message and its tools take.
    Measured { tokens: u64, fixed: Option<u64> },
    /// The view does not fit into the model's window.
    Full(Full),
    /// The request for a summary goes out, and this is what the summary will replace.
    Planned(Cut),
    /// No request for a summary goes out: there is nothing that it could replace.
    NothingToCompact,
    /// More text or reasoning.
    Delta { kind: DeltaKind, text: String },
    /// What the provider wants back with the reasoning before it, which is complete.
    Signature(String),
    /// A call is complete.
    Call { provider_call_id: Option<String>, name: String, arguments: Value },
    /// What the request used so far, priced; the last one counts.
    Usage(Usage),
    /// Something that a person should know.
    Warning { code: String, message: String },
    /// The proper end.
    End { finish_reason: Option<String>, continues: bool },
    /// The end that is none.
    Broken {
        /// What went wrong.
        error: TurnError,
        /// When the caller's policy says to try again.
        retry: Option<Retry>,
    },
}

/// A wait before the next attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// How long.
    pub delay_ms: u64,
    /// How many attempts there are at most.
    pub max_attempts: u32,
    /// Why.
    pub cause: RetryCause,
}

/// What the policy says of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// Run it.
    Allow,
    /// Ask with this prompt.
    Ask(Box<Prompt>),
    /// Refuse it, with this text for the model.
    Deny(String),
    /// Nobody is asked, since it would fail all the same, for this reason.
    Fail(String),
    /// Not before the answer is whole: somebody has to be asked.
    Later,
}

/// Something to be committed.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are named after the words they carry")]
pub enum Record {
    /// An event of the turn.
    Event(EventBody),
    /// More text of the item that streams.
    Checkpoint { item_id: ItemId, attempt: u32, kind: DeltaKind, offset: u64, text: String },
    /// A file as the session saw it last.
    FileSeen { path: String, sha256: String },
}

/// Something to be done after the commit.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are named after the words they carry")]
pub enum Action {
    /// Send the request for the item that was booked. With `fit`, answer [`StreamInput::Full`]
    /// instead where it would be too large and something can be done about it.
    Request { item_id: ItemId, attempt: u32, fit: bool },
    /// Ask for a summary of what can be left out. `narrowed` is how often that was too
    /// long, by the provider's word.
    Summarize { attempt: u32, narrowed: u32 },
    /// Drop the model's stream.
    StopRequest,
    /// Tell watchers.
    Progress(Progress),
    /// Ask the tool what the call is; answer with [`Input::Prepared`].
    Prepare { call_id: CallId },
    /// Ask the policy; answer with [`Input::Judged`]. An `early` call's answer still streams: it is
    /// not asked about, but judged [`Judgement::Later`].
    Judge { call_id: CallId, early: bool },
    /// Run the call, which was judged or granted.
    Run { call_id: CallId },
    /// Stop these calls, which count no longer, and say nothing of them.
    Discard { calls: Vec<CallId> },
    /// Signal every running tool; each answers with [`Input::Finished`].
    StopTools,
    /// Wait, then say [`Input::RetryDue`].
    WaitRetry { delay_ms: u64 },
}

impl Action {
    /// Whether it may be done before the records of its step are committed.
    pub(super) fn is_question(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Judge { .. } | Self::Progress(_))
    }
}

/// What the machine answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// One transaction, in order.
    pub records: Vec<Record>,
    /// To be done after its commit, in order.
    pub actions: Vec<Action>,
}

/// What a step has collected and an earlier one has held back.
#[derive(Debug, Clone, Default)]
pub(super) struct Outbox {
    pub(super) records: Vec<Record>,
    pub(super) actions: Vec<Action>,
    /// Something in it must not wait for the next checkpoint.
    pub(super) urgent: bool,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.actions.is_empty()
    }

    /// What goes out now: everything, or, while it is held or nothing is urgent, only the
    /// questions and the progress.
    pub(super) fn release(&mut self, held: bool) -> Step {
        if !held && self.urgent {
            self.urgent = false;
            return Step {
                records: std::mem::take(&mut self.records),
                actions: std::mem::take(&mut self.actions),
            };
        }
        let (now, later) =
            std::mem::take(&mut self.actions).into_iter().partition(Action::is_question);
        self.actions = later;
        Step { records: Vec::new(), actions: now }
    }
}
