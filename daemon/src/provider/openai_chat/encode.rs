//! Items and tools → the messages and tools of a Chat Completions request.
//!
//! Servers of this format agree on less than its name says, so the bytes depend on a [`Profile`] of
//! what this one wants. What we send is what every server takes: arguments are always a JSON
//! object, the results of an answer's calls follow it without a gap (images of results come after
//! them, in a user message, since results are text), no field that is not in the format leaves the
//! daemon, and a call's id is the provider's own, or ours where it gave none or gave one twice.
//!
//! Invariant: a pure function of the items and the profile, whose every difference shows in
//! [`Profile::key`].
//!
//! Receives segments from the conversation; hands back messages joined by commas.

use std::borrow::Cow;
use std::sync::Arc;

use agentd_protocol::id::CallId;
use agentd_protocol::item::{AssistantItem, AssistantPart, Call, Item, ItemBody, Part, ToolItem};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::wire::{
    ImageUrl, Message, MessageCall, MessageContent, MessageFunction, MessagePart, Tool,
    ToolFunction,
};
use crate::provider::ToolDefinition;

/// The longest name of a function.
const MAX_NAME_BYTES: usize = 64;

/// What stands between results, or an answer that said nothing, and an input, for servers whose
/// roles must alternate. It tells the same to every model, so that the prefix stays.
const NO_ANSWER_YET: &str = "(no answer yet)";

/// What a server wants, as `quirks` knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(super) struct Profile {
    /// Reasoning goes back with the history.
    pub(super) echoes_reasoning: bool,
    /// An answer that has only calls has an empty text, not `null`.
    pub(super) fills_content: bool,
    /// A tool without parameters has no schema.
    pub(super) omits_parameters: bool,
    /// No two messages of a user in a row.
    pub(super) merges_roles: bool,
    /// An answer's limit is called `max_completion_tokens`. (A fixed field, none of the messages.)
    pub(super) counts_completion: bool,
    /// The system message is the developer's.
    pub(super) is_developer: bool,
}

impl Profile {
    /// The key of encoded bytes.
    pub(super) fn key(self) -> String {
        let mut key = String::from("openai-chat");
        for (differs, mark) in [
            (self.echoes_reasoning, "+reasoning"),
            (self.fills_content, "+empty-content"),
            (self.omits_parameters, "+no-empty-parameters"),
            (self.is_developer, "+developer"),
            (self.merges_roles, "+merged"),
        ] {
            key.push_str(if differs { mark } else { "" });
        }
        key
    }

    /// The messages of a segment.
    pub(super) fn encode(self, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        let mut messages = Messages::default();
        let mut images = Vec::new();
        let mut inputs = Vec::new();
        for item in segment {
            match &item.body {
                ItemBody::System { content } => messages.push(&self.system(content)),
                ItemBody::User { content, .. } => {
                    inputs.extend(images_of_results(std::mem::take(&mut images)));
                    inputs.push(user_content(content));
                }
                ItemBody::Assistant(assistant) => messages.extend(self.assistant(assistant)),
                ItemBody::Tool(tool) => {
                    messages.push(&result(answers, tool));
                    images.extend(tool.content.iter().filter_map(image));
                }
                ItemBody::Marker { .. } => {}
            }
        }
        inputs.extend(images_of_results(images));
        if self.merges_roles && !inputs.is_empty() {
            if segment.first().is_some_and(is_result) || answers.is_some_and(says_nothing) {
                messages.push(&plain("assistant", MessageContent::Text(NO_ANSWER_YET.into())));
            }
            inputs = vec![merged(inputs)];
        }
        for input in inputs {
            messages.push(&plain("user", input));
        }
        messages.0.into()
    }

    fn system(self, content: &[Part]) -> Message<'_> {
        let role = if self.is_developer { "developer" } else { "system" };
        plain(role, MessageContent::Text(text_of(content)))
    }

    /// Nothing for an answer without text and calls: servers refuse it.
    fn assistant(self, assistant: &AssistantItem) -> Option<Message<'_>> {
        let text = assistant.text();
        let text = if text.trim().is_empty() { String::new() } else { text };
        if text.is_empty() && assistant.calls.is_empty() {
            return None;
        }
        let content = (self.fills_content || !text.is_empty())
            .then_some(MessageContent::Text(Cow::Owned(text)));
        let calls = assistant.calls.iter().map(|call| MessageCall {
            id: wire_id(&assistant.calls, call),
            kind: "function",
            function: MessageFunction {
                name: function_name(&call.name),
                arguments: arguments(&call.arguments),
            },
        });
        Some(Message {
            role: "assistant",
            content,
            reasoning_content: self.echoes_reasoning.then(|| reasoning(assistant)).flatten(),
            tool_calls: calls.collect(),
            tool_call_id: None,
        })
    }

    /// The tools as a JSON array; nothing for none.
    pub(super) fn encode_tools(self, tools: &[ToolDefinition]) -> Bytes {
        if tools.is_empty() {
            return Bytes::new();
        }
        let tools: Vec<_> = tools
            .iter()
            .map(|tool| Tool {
                kind: "function",
                function: ToolFunction {
                    name: &tool.name,
                    description: &tool.description,
                    parameters: self.parameters(&tool.input_schema),
                },
            })
            .collect();
        json_of(&tools).into()
    }

    /// Some servers refuse an object schema without properties, some one with none in it.
    fn parameters(self, schema: &Value) -> Option<Cow<'_, Value>> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let has_some = properties.is_some_and(|properties| !properties.is_empty());
        if self.omits_parameters && !has_some {
            return None;
        }
        if properties.is_some() {
            return Some(Cow::Borrowed(schema));
        }
        let mut schema = schema.clone();
        match schema.as_object_mut() {
            Some(object) => {
                object.insert("properties".to_owned(), json!({}));
            }
            None => schema = json!({ "type": "object", "properties": {} }),
        }
        Some(Cow::Owned(schema))
    }
}

/// Messages, written one after the other with commas between them.
#[derive(Debug, Default)]
struct Messages(Vec<u8>);

impl Messages {
    fn push(&mut self, message: &Message<'_>) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        self.0.extend_from_slice(&json_of(message));
    }

    fn extend(&mut self, message: Option<Message<'_>>) {
        if let Some(message) = message {
            self.push(&message);
        }
    }
}

/// The images of results, if there are any.
fn images_of_results(images: Vec<MessagePart<'_>>) -> Option<MessageContent<'_>> {
    (!images.is_empty()).then(|| {
        let text = Cow::Borrowed("The images of the tool results above:");
        let parts = std::iter::once(MessagePart::Text { text }).chain(images);
        MessageContent::Parts(parts.collect())
    })
}

/// What a user said in several messages, in one.
fn merged(contents: Vec<MessageContent<'_>>) -> MessageContent<'_> {
    let texts: Option<Vec<&str>> = contents
        .iter()
        .map(|content| match content {
            MessageContent::Text(text) => Some(&**text),
            MessageContent::Parts(_) => None,
        })
        .collect();
    if let Some(texts) = texts {
        return MessageContent::Text(texts.join("\n\n").into());
    }
    let parts = contents.into_iter().flat_map(|content| match content {
        MessageContent::Text(text) => vec![MessagePart::Text { text }],
        MessageContent::Parts(parts) => parts,
    });
    MessageContent::Parts(parts.collect())
}

fn is_result(item: &Arc<Item>) -> bool {
    matches!(item.body, ItemBody::Tool(_))
}

/// Whether nothing was sent of an answer.
fn says_nothing(answer: &Item) -> bool {
    matches!(&answer.body, ItemBody::Assistant(answer)
        if answer.calls.is_empty() && answer.text().trim().is_empty())
}

fn json_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings, lists and maps with string keys become JSON")
}

fn plain<'a>(role: &'static str, content: MessageContent<'a>) -> Message<'a> {
    Message {
        role,
        content: Some(content),
        reasoning_content: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
    }
}

fn result<'a>(answers: Option<&'a Item>, tool: &'a ToolItem) -> Message<'a> {
    Message {
        tool_call_id: Some(answered_id(answers, &tool.call_id)),
        ..plain("tool", MessageContent::Text(result_text(&tool.content)))
    }
}

/// A result always says something: some servers refuse empty ones.
fn result_text(content: &[Part]) -> Cow<'_, str> {
    match text_of(content) {
        text if !text.is_empty() => text,
        _ if content.iter().any(|part| image(part).is_some()) => "(an image, see below)".into(),
        _ => "(no output)".into(),
    }
}

/// A model may call what cannot be the name of a function; servers refuse a history that says so.
fn function_name(name: &str) -> Cow<'_, str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits) {
        return Cow::Borrowed(name);
    }
    let bytes = name.bytes().take(MAX_NAME_BYTES).map(|byte| if fits(byte) { byte } else { b'_' });
    let name: String = bytes.map(char::from).collect();
    if name.is_empty() { Cow::Borrowed("unknown") } else { Cow::Owned(name) }
}

/// The id under which the answered item's call was sent.
fn answered_id<'a>(answers: Option<&'a Item>, call_id: &'a CallId) -> &'a str {
    let calls = match answers.map(|item| &item.body) {
        Some(ItemBody::Assistant(assistant)) => assistant.calls.as_slice(),
        _ => &[],
    };
    calls
        .iter()
        .find(|call| call.call_id == *call_id)
        .map_or(call_id.as_str(), |call| wire_id(calls, call))
}

/// The provider's id of a call, if it gave one and only once in this answer; else ours.
fn wire_id<'a>(calls: &'a [Call], call: &'a Call) -> &'a str {
    let theirs = |call: &'a Call| call.provider_call_id.as_deref().filter(|id| !id.is_empty());
    match theirs(call) {
        Some(id) if calls.iter().filter(|other| theirs(other) == Some(id)).count() == 1 => id,
        _ => call.call_id.as_str(),
    }
}

/// JSON in a string, always an object: some servers parse it to fill in a template.
fn arguments(arguments: &Value) -> String {
    match arguments {
        Value::Object(_) => arguments.to_string(),
        other => json!({ "invalid_arguments": other }).to_string(),
    }
}

fn reasoning(assistant: &AssistantItem) -> Option<String> {
    let text: String = assistant
        .content
        .iter()
        .filter_map(|part| match part {
            AssistantPart::Reasoning { text, .. } => Some(text.as_str()),
            AssistantPart::Text { .. } => None,
        })
        .collect();
    (!text.is_empty()).then_some(text)
}

/// One string where there is text only, as some servers take nothing else.
fn user_content(content: &[Part]) -> MessageContent<'_> {
    if !content.iter().any(|part| image(part).is_some()) {
        return MessageContent::Text(text_of(content));
    }
    let part = |part| image(part).unwrap_or_else(|| MessagePart::Text { text: part_text(part) });
    MessageContent::Parts(content.iter().map(part).collect())
}

/// The text of parts, each on its own line. Images with bytes are sent otherwise.
fn text_of(content: &[Part]) -> Cow<'_, str> {
    let mut texts = content.iter().filter(|part| image(part).is_none()).map(part_text);
    let first = texts.next().unwrap_or_default();
    match texts.next() {
        None => first,
        Some(second) => {
            let all: Vec<_> = [first, second].into_iter().chain(texts).collect();
            Cow::Owned(all.join("\n"))
        }
    }
}

fn part_text(part: &Part) -> Cow<'_, str> {
    match part {
        Part::Text { text } => Cow::Borrowed(text),
        Part::File { path } => Cow::Owned(format!("[file: {path}]")),
        Part::Image { path, .. } => {
            Cow::Owned(format!("[image: {}]", path.as_deref().unwrap_or("without data")))
        }
    }
}

/// An image whose bytes are there, as a data URL.
fn image(part: &Part) -> Option<MessagePart<'static>> {
    match part {
        Part::Image { mime_type, data: Some(data), .. } => Some(MessagePart::ImageUrl {
            image_url: ImageUrl { url: format!("data:{mime_type};base64,{data}") },
        }),
        Part::Image { data: None, .. } | Part::Text { .. } | Part::File { .. } => None,
    }
}
