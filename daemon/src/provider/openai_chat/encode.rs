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

use agentd_protocol::item::{AssistantItem, AssistantPart, Call, Item, ItemBody, Part, ToolItem};
use bytes::Bytes;
use serde_json::Value;

use super::wire::{
    ImageUrl, Message, MessageCall, MessageContent, MessageFunction, MessagePart, Tool,
    ToolFunction,
};
use crate::provider::ToolDefinition;
use crate::provider::content::{
    Joined, NO_ANSWER_YET, answered_id, arguments, function_name, json_of, parameters, part_text,
    picture, text_of,
};

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
        let mut messages = Joined::default();
        let mut images = Vec::new();
        let mut inputs = Vec::new();
        for item in segment {
            match &item.body {
                ItemBody::System { content } => messages.push(&self.system(content)),
                ItemBody::User { content, .. } => {
                    inputs.extend(images_of_results(std::mem::take(&mut images)));
                    inputs.push(user_content(content));
                }
                ItemBody::Assistant(assistant) => {
                    if let Some(message) = self.assistant(assistant) {
                        messages.push(&message);
                    }
                }
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
        messages.into_bytes()
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
                // JSON in a string.
                arguments: arguments(&call.arguments).to_string(),
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
        Some(parameters(schema))
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
        tool_call_id: Some(answered_id(answers, &tool.call_id, wire_id)),
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

/// The provider's id of a call, if it gave one and only once in this answer; else ours.
fn wire_id<'a>(calls: &'a [Call], call: &'a Call) -> &'a str {
    let theirs = |call: &'a Call| call.provider_call_id.as_deref().filter(|id| !id.is_empty());
    match theirs(call) {
        Some(id) if calls.iter().filter(|other| theirs(other) == Some(id)).count() == 1 => id,
        _ => call.call_id.as_str(),
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

/// A picture as a data URL.
fn image(part: &Part) -> Option<MessagePart<'static>> {
    let (kind, data) = picture(part)?;
    let url = format!("data:{kind};base64,{data}");
    Some(MessagePart::ImageUrl { image_url: ImageUrl { url } })
}
