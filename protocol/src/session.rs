//! Sessions: their shape, their limits, and the methods that make, list and read them.
//!
//! Receives requests about sessions; hands out what a session is at a moment.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::event::Event;
use crate::id::{ItemId, SessionId, SubmissionId, TurnId};
use crate::item::Item;
use crate::permission::{PermissionMode, Prompt};
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
    /// Adds another request's usage. A cost that is known on one side only is kept.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.reasoning += other.reasoning;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }

    /// What counts against `max_tokens`: input not from the cache, plus output.
    pub fn billable_tokens(&self) -> u64 {
        self.input.saturating_sub(self.cache_read) + self.output
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

/// Parameters of `session/create`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateParams {
    /// The working directory, absolute; it must exist.
    pub cwd: String,
    /// More directories the session may work in, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Vec<String>>,
    /// The model, `provider/name`; absent: the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Options for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_options: Option<ModelOptions>,
    /// A title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The permission mode; absent: the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Limits; those that are absent are the configured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Environment of the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// How `env` relates to the daemon's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_mode: Option<EnvMode>,
    /// The session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The client's own labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The same key gives the same session, daemon-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Which archived sessions a list has: `false` none, `true` only them, `"all"` both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    /// Only them, or none of them.
    Only(bool),
    /// Both kinds.
    All,
}

impl Serialize for Archived {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Only(only) => serializer.serialize_bool(*only),
            Self::All => serializer.serialize_str("all"),
        }
    }
}

impl<'de> Deserialize<'de> for Archived {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrAll;

        impl Visitor<'_> for BoolOrAll {
            type Value = Archived;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or \"all\"")
            }

            fn visit_bool<E: de::Error>(self, only: bool) -> Result<Archived, E> {
                Ok(Archived::Only(only))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Archived, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(word), &self);
                (word == "all").then_some(Archived::All).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(BoolOrAll)
    }
}

impl JsonSchema for Archived {
    fn schema_name() -> Cow<'static, str> {
        "Archived".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, "all"] })
    }
}

/// Parameters of `session/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SessionState>,
    /// Only those of this directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Only those whose title holds this text, whatever the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Which archived ones; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Archived>,
    /// 1 to 1,000; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From a former result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `session/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListResult {
    /// Newest change first.
    pub sessions: Vec<Session>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Parameters of methods that name a session and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// The session.
    pub session_id: SessionId,
}

/// Parameters of `session/update`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateParams {
    /// The session.
    pub session_id: SessionId,
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Put away, or back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// All labels anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The new working directory, absolute; refused while a turn runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Result of `session/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeleteResult {
    /// It is gone.
    pub deleted: bool,
}

/// Parameters of `session/fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
    /// The session.
    pub session_id: SessionId,
    /// The last item the new session has; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_item: Option<ItemId>,
    /// Its working directory; absent: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The same key gives the same session, daemon-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Parameters of `session/items`: a page of the conversation by index, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemsParams {
    /// The session.
    pub session_id: SessionId,
    /// Only items after this index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only items before this index; alone, the page is the last one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// 1 to 1,000; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `session/items`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ItemsResult {
    /// The page.
    pub items: Vec<Item>,
    /// The last event when this was true.
    pub seq: u64,
    /// `after` of the next page (`before`, when the page was asked for with `before` alone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Parameters of `session/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsParams {
    /// The session.
    pub session_id: SessionId,
    /// Only events after this number; absent: from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// 1 to 1,000; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `session/events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventsResult {
    /// The page, ascending.
    pub events: Vec<Event>,
    /// `after` of the next page, if there is one now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// What an export looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// One JSON document; can be imported.
    Json,
    /// A transcript for people.
    Markdown,
}

/// Parameters of `session/export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportParams {
    /// The session.
    pub session_id: SessionId,
    /// What it looks like.
    pub format: ExportFormat,
}

/// Result of `session/export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// The document.
    pub content: String,
}

/// Parameters of `session/import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportParams {
    /// A document of `session/export`.
    pub content: String,
    /// The working directory; absent: the exported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The same key gives the same session, daemon-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Parameters of `session/search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchParams {
    /// Words.
    pub query: String,
    /// 1 to 1,000; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One match of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMatch {
    /// The session.
    pub session_id: SessionId,
    /// Its title.
    pub title: String,
    /// The item; absent where the title matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<ItemId>,
    /// The words around the match.
    pub snippet: String,
}

/// Result of `session/search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// Best first.
    pub matches: Vec<SearchMatch>,
}

/// Parameters of `session/subscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// The session.
    pub session_id: SessionId,
    /// Replay every event after this number; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Whether progress is sent too; absent: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<bool>,
}

/// Result of the unsubscribe methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnsubscribeResult {
    /// Whether there was a subscription.
    pub unsubscribed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_is_a_flag_or_all() {
        for (text, archived) in [
            ("true", Archived::Only(true)),
            ("false", Archived::Only(false)),
            ("\"all\"", Archived::All),
        ] {
            assert_eq!(serde_json::from_str::<Archived>(text).unwrap(), archived);
            assert_eq!(serde_json::to_string(&archived).unwrap(), text);
        }
        for wrong in ["\"some\"", "1", "null"] {
            let error = serde_json::from_str::<Archived>(wrong).unwrap_err().to_string();
            assert!(error.contains("true, false or \"all\""), "{error}");
        }
    }

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
