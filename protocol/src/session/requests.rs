//! Parameters and results of the methods that make, list, read and change sessions.
//!
//! Receives requests about sessions; hands out pages and answers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{EnvMode, Limits, ModelOptions, Session, SessionState};
use crate::event::Event;
use crate::id::{ItemId, SessionId};
use crate::item::Item;
use crate::permission::PermissionMode;

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

/// Parameters of `session/export_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportFileParams {
    /// The session.
    pub session_id: SessionId,
    /// What it looks like.
    pub format: ExportFormat,
    /// The new file, an absolute path.
    pub path: String,
}

/// Result of `session/export_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportFileResult {
    /// The file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Parameters of `session/import_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportFileParams {
    /// A file with a document of `session/export`, an absolute path.
    pub path: String,
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
}
