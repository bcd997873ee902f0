//! Sessions: their shape, their limits, and the methods that make, list and read them.
//!
//! Receives requests about sessions; hands out what a session is at a moment.

mod requests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::requests::*;
use crate::id::{SessionId, SubmissionId, TurnId};
use crate::permission::{PermissionMode, Prompt};
use crate::process::Process;
use crate::time::Time;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Nothing.
    #[default]
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for a person.
    Waiting,
    /// The last turn was cut off by a crash or a shutdown.
    Interrupted,
    /// The last turn failed.
    Failed,
}

/// Tokens and money. `input` includes the cached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read by the model, from its cache or not.
    pub input: u64,
    /// Tokens written by the model, reasoning included.
    pub output: u64,
    /// How many of `input` came from the provider's cache.
    pub cache_read: u64,
    /// How many of `input` were written to the provider's cache.
    pub cache_write: u64,
    /// How many of `output` were reasoning, where the provider says so.
    pub reasoning: u64,
    /// The price in USD, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Adds another request's usage. A cost that is known on one side only is kept; a count that
    /// is too large for its type stays the largest.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }

    /// What counts against `max_tokens`: input not from the cache, plus output.
    pub fn billable_tokens(&self) -> u64 {
        self.input.saturating_sub(self.cache_read).saturating_add(self.output)
    }
}

/// The brakes. Those that are absent do not limit (but for `max_iterations`, which has a default).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model requests of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Input not from the cache plus output, of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// USD of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Boot time of a turn, without waiting for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// Tokens of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_session_tokens: Option<u64>,
    /// USD of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_session_cost_usd: Option<f64>,
}

impl Limits {
    /// These limits, and `other`'s where these are absent.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            max_iterations: self.max_iterations.or(other.max_iterations),
            max_tokens: self.max_tokens.or(other.max_tokens),
            max_cost_usd: self.max_cost_usd.or(other.max_cost_usd),
            max_duration_ms: self.max_duration_ms.or(other.max_duration_ms),
            max_session_tokens: self.max_session_tokens.or(other.max_session_tokens),
            max_session_cost_usd: self.max_session_cost_usd.or(other.max_session_cost_usd),
        }
    }
}

/// How hard a model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

/// Options that go to the model's provider.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelOptions {
    /// How hard to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Fields put into the request as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_body: Option<BTreeMap<String, Value>>,
    /// An absolute path of the daemon's machine: every request of the session and the raw stream of
    /// its answer are appended to this file (made with mode 0600), without keys. Absent: nothing is
    /// recorded but what the provider's `record` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// How `env` relates to the daemon's own, scrubbed environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvMode {
    /// Over it.
    #[default]
    Overlay,
    /// Instead of it.
    Replace,
}

/// An input that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueEntry {
    /// Its submission.
    pub submission_id: SubmissionId,
    /// The start of its text.
    pub preview: String,
}

/// Who runs a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The daemon's id.
    pub owner: String,
    /// Its process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// Raised with every takeover.
    pub epoch: u64,
    /// When it would be free.
    pub expires_in_ms: u64,
}

/// A session at a moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id.
    pub session_id: SessionId,
    /// A title; empty until there is one.
    pub title: String,
    /// The working directory, absolute.
    pub cwd: String,
    /// The model, `provider/name`; absent when none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Options for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_options: Option<ModelOptions>,
    /// The permission mode.
    pub permission_mode: PermissionMode,
    /// What it is doing.
    pub state: SessionState,
    /// When it was made.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// The number of its last event.
    pub head_seq: u64,
    /// How many items it has.
    pub item_count: u64,
    /// What it used so far.
    pub usage: Usage,
    /// Its limits.
    pub limits: Limits,
    /// Inputs that wait, in order.
    pub queue: Vec<QueueEntry>,
    /// The queue waits for `resume` or a new input.
    pub queue_held: bool,
    /// More directories it may work in, absolute.
    pub roots: Vec<String>,
    /// Open prompts, oldest first.
    pub prompts: Vec<Prompt>,
    /// Background commands that run, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<Process>,
    /// The turn that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_turn_id: Option<TurnId>,
    /// Who runs it, if anyone does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The client's own labels.
    pub labels: BTreeMap<String, String>,
    /// The session it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Put away: left out of lists.
    pub archived: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_fill_up_and_usage_adds_up() {
        let own = Limits { max_iterations: Some(3), ..Limits::default() };
        let others = Limits { max_iterations: Some(9), max_tokens: Some(5), ..Limits::default() };
        let both = Limits { max_iterations: Some(3), max_tokens: Some(5), ..Limits::default() };
        assert_eq!(own.or(others), both);

        let mut usage = Usage { input: 10, cache_read: 4, output: 2, ..Usage::default() };
        assert_eq!(usage.billable_tokens(), 8);
        usage.add(&Usage { input: 1, cost_usd: Some(0.5), ..Usage::default() });
        usage.add(&Usage { cost_usd: Some(0.25), ..Usage::default() });
        assert_eq!((usage.input, usage.cost_usd), (11, Some(0.75)));
    }
}
