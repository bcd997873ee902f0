//! Items: the entries of a conversation, as they are stored and shown.
//!
//! The record is append-only. Everything the model reads is an item; a rollback or a compaction
//! is a marker item, not a change to others.
//!
//! Receives content from users, models and tools; hands it to events, pages and exports.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::id::{CallId, ItemId, SubmissionId, TurnId};
use crate::session::Usage;
use crate::time::Time;

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Text.
    Text {
        /// The text, UTF-8.
        text: String,
    },
    /// An image, by its bytes or by a path that is read when the input is accepted.
    Image {
        /// For example `image/png`.
        mime_type: String,
        /// The bytes, base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// The file, absolute or relative to the session's directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A file the user points at.
    File {
        /// The file, absolute or relative to the session's directory.
        path: String,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// What a client may write where content is expected: a string, or parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// One text part.
    Text(String),
    /// Parts in order.
    Parts(Vec<Part>),
}

impl<'de> Deserialize<'de> for Content {
    /// By hand: derived, the message for a wrong part would not say what is wrong with it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::Parts)
            }
        }

        deserializer.deserialize_any(TextOrParts)
    }
}

impl Content {
    /// The content as parts.
    pub fn into_parts(self) -> Vec<Part> {
        match self {
            Self::Text(text) => vec![Part::Text { text }],
            Self::Parts(parts) => parts,
        }
    }

    /// Whether there is nothing in it but white space.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Parts(parts) => parts.iter().all(|part| match part {
                Part::Text { text } => text.trim().is_empty(),
                Part::Image { .. } | Part::File { .. } => false,
            }),
        }
    }

    /// The first line of the text, at most `max_chars` characters, for lists.
    pub fn preview(&self, max_chars: usize) -> String {
        let text = match self {
            Self::Text(text) => text.as_str(),
            Self::Parts(parts) => parts
                .iter()
                .find_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    Part::Image { .. } | Part::File { .. } => None,
                })
                .unwrap_or("(attachment)"),
        };
        let line = text.trim().lines().next().unwrap_or("");
        if line.chars().count() <= max_chars {
            return line.to_owned();
        }
        line.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect()
    }
}

/// A piece of an assistant's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning, kept apart from the text.
    Reasoning {
        /// The text; empty where the provider does not show it.
        text: String,
        /// What the provider wants back with it, opaque.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

/// A tool call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Our id, unique for ever.
    pub call_id: CallId,
    /// The provider's id, which may repeat; kept to send it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// An object; the raw string where the model's text is not one.
    pub arguments: Value,
}

/// Who wrote a user item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The input that started the turn.
    User,
    /// Input given while the turn ran.
    Steer,
    /// A hook.
    Hook,
    /// agentd itself: a last-step notice, a continuation, a resume note.
    Agentd,
}

/// How far an assistant item got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssistantStatus {
    /// The model is still writing it.
    Streaming,
    /// Whole.
    Complete,
    /// Cut off: what there is of it is kept.
    Partial,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It ran and succeeded.
    Ok,
    /// It ran and failed.
    Error,
    /// A person or a rule refused it.
    Denied,
    /// It had run before with the same arguments.
    Duplicate,
    /// Unknown tool or wrong arguments.
    Invalid,
    /// The turn ended first; it may have taken effect.
    Interrupted,
    /// A hook refused it.
    Blocked,
    /// The budget was used up, or the answer was cut.
    NotRun,
}

/// Where all of a cut output is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FullOutput {
    /// A file the model can read.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// What a marker marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "ItemMarker")]
pub enum Marker {
    /// A summary stands for the items up to and with `until`.
    Compaction {
        /// The last item that the summary replaces.
        until: ItemId,
        /// The summary, as the model reads it.
        summary: String,
        /// User items up to `until` that the model goes on reading word for word, before the
        /// summary.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<ItemId>,
        /// It was made without being asked for and freed less than a tenth of the window.
        #[serde(default, skip_serializing_if = "is_false")]
        useless: bool,
    },
    /// A summary was to be made without being asked for, and was not: nothing changed.
    CompactionFailed {
        /// Why.
        message: String,
    },
    /// The results of these items are stubs in the model's view.
    Pruning {
        /// The tool items.
        items: Vec<ItemId>,
        /// What the model reads in their place.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// The model's provider refused a request for its length; from then on the view is kept shorter.
    Overflow {
        /// The model, `provider/name`.
        model: String,
        /// How many tokens the request had, by the daemon's measure.
        tokens: u64,
        /// The model's window in tokens, where the provider said it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// These items are hidden from the model's view.
    Rollback {
        /// The items.
        hidden: Vec<ItemId>,
        /// The rollback that this one takes back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<ItemId>,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Its id.
    pub item_id: ItemId,
    /// Its place in the session: 1, 2, 3 …
    pub index: u64,
    /// The turn that made it.
    pub turn_id: TurnId,
    /// When it was made.
    pub created_at: Time,
    /// The rollback that hides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_by: Option<ItemId>,
    /// What it is.
    #[serde(flatten)]
    pub body: ItemBody,
}

/// What an item is, by role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ItemBody {
    /// Instructions, written once at the session's start.
    System {
        /// The text.
        content: Vec<Part>,
    },
    /// Input to the model.
    User {
        /// The input.
        content: Vec<Part>,
        /// Who wrote it.
        origin: Origin,
        /// The submission it came with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        submission_id: Option<SubmissionId>,
    },
    /// The model's answer.
    Assistant(AssistantItem),
    /// A tool's result.
    Tool(ToolItem),
    /// A change to the view.
    Marker {
        /// What it marks.
        #[serde(flatten)]
        marker: Marker,
    },
}

/// The model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantItem {
    /// Text and reasoning in order.
    pub content: Vec<AssistantPart>,
    /// The calls in the order the model asked for them.
    pub calls: Vec<Call>,
    /// How far it got.
    pub status: AssistantStatus,
    /// The model, `provider/name`.
    pub model: String,
    /// What this answer used.
    pub usage: Usage,
    /// The provider's word, for information only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
}

impl AssistantItem {
    /// The text without the reasoning.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Text { text } => Some(text.as_str()),
                AssistantPart::Reasoning { .. } => None,
            })
            .collect()
    }
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolItem {
    /// The call it answers.
    pub call_id: CallId,
    /// The tool's name.
    pub name: String,
    /// How the call ended.
    pub status: ToolStatus,
    /// What the model reads.
    pub content: Vec<Part>,
    /// Where all of it is, if `content` was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output: Option<FullOutput>,
}

impl ToolItem {
    /// The text parts, joined.
    pub fn text(&self) -> String {
        parts_text(&self.content)
    }
}

/// The text of parts, joined.
pub fn parts_text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image { .. } | Part::File { .. } => None,
        })
        .collect()
}
