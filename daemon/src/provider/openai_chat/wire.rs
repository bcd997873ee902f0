//! The JSON of Chat Completions, as far as we read and write it. Private to this wire format.
//!
//! What we read is typed but lenient: a field that servers disagree about is kept as raw JSON and
//! decoded where it is used, so that one odd field does not cost the whole chunk. Everything
//! borrows from the event's bytes.
//!
//! Receives events' data from `stream`, and content from `encode`; hands them each other's form.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A chunk of a stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error_type: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error_message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// What a whole answer has in place of `delta`.
    #[serde(borrow)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of content that is a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageReport {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's word for cached tokens.
    pub(super) prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

/// The text of a JSON string; nothing for other things and for what is no proper string.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// The text of a JSON string that says something.
pub(super) fn nonempty(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    raw.and_then(text).filter(|text| !text.is_empty())
}

/// A small whole number.
pub(super) fn number(raw: Option<&RawValue>) -> Option<u64> {
    raw?.get().parse().ok()
}

/// A message of a request.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    /// `null` where an answer has only calls.
    pub(super) content: Option<MessageContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<MessageCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<MessagePart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessagePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

#[derive(Debug, Serialize)]
pub(super) struct MessageCall<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: MessageFunction<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct MessageFunction<'a> {
    pub(super) name: Cow<'a, str>,
    /// JSON in a string.
    pub(super) arguments: String,
}

/// A tool of a request.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: ToolFunction<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolFunction<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Cow<'a, serde_json::Value>>,
}
