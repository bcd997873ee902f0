//! Events: the durable, numbered facts of a session.
//!
//! The event that is stored is the event that is sent. Numbers are dense (1, 2, 3 … in each
//! session) and given once, in the transaction that commits the event; nobody sees an event that
//! is not committed. Every item appears exactly once complete, so the log alone rebuilds a
//! session.
//!
//! Receives facts from the turn machine and the session's actor; hands them to the store and to
//! every watcher.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::daemon::ClientInfo;
use crate::id::{CallId, ItemId, MemoryId, PromptId, SessionId, SkillId, SubmissionId, TurnId};
use crate::item::{Content, Item, ToolStatus};
use crate::permission::{By, PermissionMode, Prompt, Resolution, Risk, Rule, Scope};
use crate::process::{Process, ProcessExit};
use crate::session::{Limits, Session, SessionState, Usage};
use crate::submission::Disposition;
use crate::time::Time;

/// A numbered fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number in the session: 1, 2, 3 …
    pub seq: u64,
    /// When it was committed.
    pub time: Time,
    /// The session.
    pub session_id: SessionId,
    /// The turn, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the fields are named in the protocol's table of events")]
pub enum EventBody {
    #[serde(rename = "session.created")]
    SessionCreated { session: Box<Session>, changed: Vec<String> },
    #[serde(rename = "session.updated")]
    SessionUpdated { session: Box<Session>, changed: Vec<String> },
    #[serde(rename = "session.state")]
    SessionState {
        state: SessionState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_held: Option<bool>,
    },
    #[serde(rename = "submission.accepted")]
    SubmissionAccepted {
        submission_id: SubmissionId,
        op: String,
        disposition: Disposition,
        client: ClientInfo,
    },
    #[serde(rename = "input.queued")]
    InputQueued {
        submission_id: SubmissionId,
        content: Content,
        /// From 1.
        position: u64,
    },
    #[serde(rename = "input.steered")]
    InputSteered { submission_id: SubmissionId, item_id: ItemId },
    #[serde(rename = "input.dropped")]
    InputDropped { submission_id: SubmissionId, reason: String },
    #[serde(rename = "turn.started")]
    TurnStarted { submission_id: SubmissionId, model: String, limits: Limits },
    #[serde(rename = "iteration.started")]
    IterationStarted {
        /// From 1.
        index: u32,
        limit: u32,
        /// In force for the calls of this iteration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permission_mode: Option<PermissionMode>,
    },
    #[serde(rename = "item.started")]
    ItemStarted {
        item_id: ItemId,
        role: Role,
        /// From 1.
        attempt: u32,
    },
    #[serde(rename = "message.completed")]
    MessageCompleted { item: Box<Item> },
    #[serde(rename = "message.reset")]
    MessageReset {
        item_id: ItemId,
        /// The attempt that is over.
        attempt: u32,
        discarded: Vec<CallId>,
    },
    #[serde(rename = "tool.called")]
    ToolCalled { call_id: CallId, item_id: ItemId, name: String, arguments: Value },
    #[serde(rename = "tool.started")]
    ToolStarted {
        call_id: CallId,
        summary: String,
        risk: Risk,
        /// Only if a hook changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        call_id: CallId,
        item: Box<Item>,
        status: ToolStatus,
        duration_ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<Vec<Change>>,
    },
    #[serde(rename = "permission.requested")]
    PermissionRequested { prompt: Box<Prompt> },
    #[serde(rename = "question.requested")]
    QuestionRequested { prompt: Box<Prompt> },
    #[serde(rename = "permission.resolved")]
    PermissionResolved(Resolved),
    #[serde(rename = "question.resolved")]
    QuestionResolved(Resolved),
    #[serde(rename = "usage.updated")]
    UsageUpdated { turn: Usage, session: Usage, context: ContextSize },
    #[serde(rename = "retry.scheduled")]
    RetryScheduled {
        /// The attempt that the wait leads to, from 1.
        attempt: u32,
        max_attempts: u32,
        delay_ms: u64,
        cause: RetryCause,
    },
    #[serde(rename = "context.pruned")]
    ContextPruned { item_id: ItemId, tokens_before: u64, tokens_after: u64 },
    #[serde(rename = "context.compacted")]
    ContextCompacted { item_id: ItemId, tokens_before: u64, tokens_after: u64 },
    #[serde(rename = "plan.updated")]
    PlanUpdated { entries: Vec<PlanEntry> },
    #[serde(rename = "hook.ran")]
    HookRan {
        hook: String,
        event: String,
        outcome: HookOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    #[serde(rename = "process.started")]
    ProcessStarted(Process),
    #[serde(rename = "process.exited")]
    ProcessExited(ProcessExit),
    #[serde(rename = "memory.candidate")]
    MemoryCandidate { memory_id: MemoryId, text: String },
    #[serde(rename = "skill.candidate")]
    SkillCandidate { skill_id: SkillId, name: String, description: String, steps: Vec<Value> },
    #[serde(rename = "session.rolled_back")]
    SessionRolledBack { item_id: ItemId, hidden: Vec<ItemId>, files: RestoredFiles },
    #[serde(rename = "warning")]
    Warning { code: String, message: String },
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        #[serde(flatten)]
        totals: TurnTotals,
    },
    #[serde(rename = "turn.exhausted")]
    TurnExhausted {
        limit: Limit,
        /// `session` where a limit of the session ended the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<LimitScope>,
        #[serde(flatten)]
        totals: TurnTotals,
    },
    #[serde(rename = "turn.aborted")]
    TurnAborted {
        reason: AbortReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
        #[serde(flatten)]
        totals: TurnTotals,
    },
    #[serde(rename = "turn.failed")]
    TurnFailed {
        error: TurnError,
        #[serde(flatten)]
        totals: TurnTotals,
    },
}

impl EventBody {
    /// The event's `type` on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session.created",
            Self::SessionUpdated { .. } => "session.updated",
            Self::SessionState { .. } => "session.state",
            Self::SubmissionAccepted { .. } => "submission.accepted",
            Self::InputQueued { .. } => "input.queued",
            Self::InputSteered { .. } => "input.steered",
            Self::InputDropped { .. } => "input.dropped",
            Self::TurnStarted { .. } => "turn.started",
            Self::IterationStarted { .. } => "iteration.started",
            Self::ItemStarted { .. } => "item.started",
            Self::MessageCompleted { .. } => "message.completed",
            Self::MessageReset { .. } => "message.reset",
            Self::ToolCalled { .. } => "tool.called",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolCompleted { .. } => "tool.completed",
            Self::PermissionRequested { .. } => "permission.requested",
            Self::QuestionRequested { .. } => "question.requested",
            Self::PermissionResolved(_) => "permission.resolved",
            Self::QuestionResolved(_) => "question.resolved",
            Self::UsageUpdated { .. } => "usage.updated",
            Self::RetryScheduled { .. } => "retry.scheduled",
            Self::ContextPruned { .. } => "context.pruned",
            Self::ContextCompacted { .. } => "context.compacted",
            Self::PlanUpdated { .. } => "plan.updated",
            Self::HookRan { .. } => "hook.ran",
            Self::ProcessStarted(_) => "process.started",
            Self::ProcessExited(_) => "process.exited",
            Self::MemoryCandidate { .. } => "memory.candidate",
            Self::SkillCandidate { .. } => "skill.candidate",
            Self::SessionRolledBack { .. } => "session.rolled_back",
            Self::Warning { .. } => "warning",
            Self::TurnCompleted { .. } => "turn.completed",
            Self::TurnExhausted { .. } => "turn.exhausted",
            Self::TurnAborted { .. } => "turn.aborted",
            Self::TurnFailed { .. } => "turn.failed",
        }
    }

    /// Whether this ends a turn.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::TurnCompleted { .. }
                | Self::TurnExhausted { .. }
                | Self::TurnAborted { .. }
                | Self::TurnFailed { .. }
        )
    }

    /// The item that this event shows complete.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::MessageCompleted { item } | Self::ToolCompleted { item, .. } => Some(item),
            _ => None,
        }
    }
}

/// The role of an item that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ItemRole")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
    Marker,
}

/// How a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ChangeKind {
    Created,
    Modified,
    Deleted,
}

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The file, relative to the session's directory where it is inside.
    pub path: String,
    /// How.
    pub kind: ChangeKind,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// A unified diff; absent where the file is not text or the diff is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// How a prompt was resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resolved {
    /// The prompt.
    pub prompt_id: PromptId,
    /// How it ended.
    pub decision: Resolution,
    /// How far the answer reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The rule that is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// A word for the model; for a question, the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Who answered; absent where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
}

/// How full the model's window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ContextSize {
    /// Tokens of the last request and its answer.
    pub tokens: u64,
    /// The window, where it is known; 0 where not.
    pub window: u64,
}

/// Why a request is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryCause {
    /// As in `turn.failed`.
    pub code: TurnErrorCode,
    /// In words.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: PlanStatus,
}

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum PlanStatus {
    Pending,
    Active,
    Done,
}

/// What a hook did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum HookOutcome {
    Ok,
    Blocked,
    Changed,
    Failed,
}

/// What a rollback did to files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RestoredFiles {
    /// Given their former content.
    pub restored: Vec<String>,
    /// Changed by someone else since; left alone.
    pub conflicts: Vec<String>,
    /// What cannot be undone: commands, and files without a kept former content.
    pub not_undoable: Vec<String>,
}

/// What a turn came to; in all four terminal events.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct TurnTotals {
    /// What it used.
    pub usage: Usage,
    /// Model requests that were started, without retries.
    pub iterations: u32,
    /// Boot time from `turn.started` on, waiting for people included.
    pub duration_ms: u64,
}

/// Which brake ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum Limit {
    Iterations,
    Tokens,
    Cost,
    Duration,
    NoProgress,
}

/// Whose limit it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum LimitScope {
    Turn,
    Session,
}

/// Why a turn was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    /// A client asked.
    Interrupted,
    /// Another input took its place.
    Replaced,
    /// Another process took the session.
    LeaseLost,
    /// Its submitter is gone and had asked for this.
    Disconnected,
    /// The daemon stopped in order.
    Shutdown,
    /// The daemon died.
    Crashed,
}

/// What kind of failure ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnErrorCode {
    /// No answer: refused, broken, timed out.
    ProviderUnreachable,
    /// The provider refused the request.
    ProviderRefused,
    /// Too many requests.
    RateLimited,
    /// A plan or a budget at the provider is used up.
    QuotaExhausted,
    /// The conversation does not fit the model's window.
    ContextOverflow,
    /// The answer could not be understood.
    BadResponse,
    /// The store failed.
    Store,
    /// The record at the turn's end did not fit together.
    Inconsistent,
    /// A fault of the daemon's own.
    Internal,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnError {
    /// The kind.
    pub code: TurnErrorCode,
    /// What was wrong, with what, and what to do.
    pub message: String,
    /// Whether the same again may work.
    pub retryable: bool,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_code: Option<String>,
    /// Requests that were sent for the last answer.
    pub attempts: u32,
    /// When it may be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
}
