//! Progress and markers: what a subscription carries besides events.
//!
//! Progress is passing news between two events: not numbered, never needed for correctness.
//! Markers tell where a subscription stands. Both go out in the same notification as events.
//!
//! Receives deltas from streams and tools; hands them to watchers that asked for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::{CallId, ItemId};
use crate::permission::Prompt;
use crate::session::{Lease, QueueEntry, Session};

/// What kind of text a delta extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// The answer.
    Text,
    /// The reasoning.
    Reasoning,
}

/// Passing news. Offsets count bytes of the UTF-8 text sent before this piece: for text and for
/// reasoning each from 0 over the whole item, for output from 0 over the whole call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the fields are named in the protocol's text")]
pub enum Progress {
    #[serde(rename = "message.delta")]
    MessageDelta { item_id: ItemId, attempt: u32, kind: DeltaKind, offset: u64, delta: String },
    #[serde(rename = "tool.output")]
    ToolOutput { call_id: CallId, offset: u64, chunk: String },
}

/// Text and output that no event holds yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct InFlight {
    /// The item that streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<InFlightItem>,
    /// The tools that run and have written something.
    pub tools: Vec<InFlightTool>,
}

/// The item that streams, so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InFlightItem {
    /// The item.
    pub item_id: ItemId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its text.
    pub text: String,
    /// Its reasoning.
    pub reasoning: String,
}

/// A running tool's output, so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InFlightTool {
    /// The call.
    pub call_id: CallId,
    /// The last part of its output.
    pub output: String,
    /// How many bytes were sent before that part.
    pub offset: u64,
}

/// Who watches a session through this daemon, oneself included: what is true now, in no log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Watchers {
    /// How many connections; 0 where a daemon does not say it.
    pub count: u64,
    /// What they said they are, by name. At most 16 names of at most 64 characters; those that
    /// are left out are in `count` all the same.
    pub clients: Vec<WatchingClient>,
}

impl Watchers {
    /// Whether there is nothing to say.
    pub fn is_unknown(&self) -> bool {
        self.count == 0
    }
}

/// The watchers of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchingClient {
    /// The name that the client gave in `initialize`.
    pub name: String,
    /// How many connections have it.
    pub count: u64,
}

/// Why a subscription follows the log instead of the running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetachReason {
    /// Another process runs the session.
    LeaseLost,
}

/// Where a subscription stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the fields are named in the protocol's text")]
pub enum Marker {
    /// Replay has met live: every event up to `head_seq` was sent or not asked for, every one
    /// after it will come.
    #[serde(rename = "subscription.joined")]
    Joined {
        head_seq: u64,
        session: Box<Session>,
        in_flight: InFlight,
        prompts: Vec<Prompt>,
        queue: Vec<QueueEntry>,
        #[serde(default, skip_serializing_if = "Watchers::is_unknown")]
        watchers: Watchers,
    },
    /// Somebody began to watch or ended. Only the last state is told, and with `progress: false`
    /// none.
    #[serde(rename = "subscription.watchers")]
    Watchers(Watchers),
    /// Another process now runs the session; events go on, from the log.
    #[serde(rename = "subscription.detached")]
    Detached {
        reason: DetachReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Lease>,
    },
    /// The store cannot be written; a turn that ran was cancelled and its end is written when
    /// there is room.
    #[serde(rename = "subscription.store_failed")]
    StoreFailed { cause: String },
    /// The session was deleted; nothing follows.
    #[serde(rename = "subscription.closed")]
    Closed { reason: String },
}

/// What the notification `session/event` carries in `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamMessage {
    /// A numbered fact.
    Event(Box<Event>),
    /// Passing news.
    Progress(Progress),
    /// Where the subscription stands.
    Marker(Marker),
}
