//! The JSON of OpenAI's Responses, as far as we read and write it. Private to this wire format.
//!
//! What we read is lenient: every field may be absent, and servers differ in which events they
//! send at all, so an item's last form is read like its deltas.
//!
//! Receives events' data from `stream`, and content from `encode`; hands them each other's form.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::provider::decoder;

/// An event of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Cow<'a, str>>,
    pub(super) item: Option<OutputItem>,
    pub(super) response: Option<Response>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// An answer, or as much of it as an event tells.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub(super) status: Option<String>,
    pub(super) output: Option<Vec<OutputItem>>,
    #[serde(deserialize_with = "decoder::dispensable")]
    pub(super) usage: Option<UsageReport>,
    pub(super) incomplete_details: Option<Incomplete>,
    pub(super) error: Option<Value>,
    /// Some servers say outright that their turn goes on.
    pub(super) end_turn: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incomplete {
    pub(super) reason: Option<String>,
}

/// An item of an answer: a message, a call, reasoning, or one that we do not know.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputItem {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) phase: Option<String>,
    pub(super) content: Option<Vec<ContentPart>>,
    pub(super) summary: Option<Vec<ContentPart>>,
    pub(super) encrypted_content: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
    /// JSON in a string; an object where a server gets it wrong.
    pub(super) arguments: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentPart {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageReport {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) input_tokens_details: Option<InputDetails>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

/// An item of a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum InputItem<'a> {
    Message {
        role: &'static str,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    Other(OtherItem<'a>),
    /// What goes back as it came.
    Kept(Value),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OtherItem<'a> {
    FunctionCall {
        call_id: &'a str,
        name: Cow<'a, str>,
        /// JSON in a string.
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Content<'a>,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<InputPart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum InputPart<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String },
}

/// A tool of a request.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: Cow<'a, Value>,
    /// The format's own default would be to demand more of a schema than ours promise.
    pub(super) strict: bool,
}
