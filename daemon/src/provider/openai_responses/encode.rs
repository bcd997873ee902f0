//! Items and tools → the input and tools of a Responses request.
//!
//! Nothing is stored at the provider, so all of the conversation goes along: texts as messages,
//! calls and their outputs as items of their own, reasoning in the encrypted form in which it came.
//! Reasoning is sent only where something of the same answer follows it: servers refuse it else.
//!
//! Invariant: a pure function of the items, the model's id and the profile, both of which show in
//! [`Profile::key`].
//!
//! Receives segments from the conversation; hands back items joined by commas.

use std::sync::Arc;

use agentd_protocol::item::{AssistantItem, Item, ItemBody, Part, ToolItem};
use bytes::Bytes;
use serde_json::{Value, json};

use super::wire::{Content, InputItem, InputPart, OtherItem, Tool};
use crate::config::SystemRole;
use crate::provider::ToolDefinition;
use crate::provider::content::{
    Joined, answered_id, arguments, function_name, json_of, parameters, part_text, picture,
    text_of, unique_id,
};
use crate::provider::kept::{Piece, in_order};

/// What a server wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// The model as items name it: `provider/name`.
    pub(super) model: String,
    /// Whether it gets its reasoning back.
    pub(super) reasoning: bool,
    pub(super) system: SystemRole,
}

impl Profile {
    /// The key of encoded bytes.
    pub(super) fn key(&self) -> String {
        let reasoning = if self.reasoning { "" } else { "-reasoning" };
        let system = if self.system == SystemRole::Developer { "+developer" } else { "" };
        format!("openai-responses{reasoning}{system} {}", self.model)
    }

    /// The items of a segment.
    pub(super) fn encode(&self, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        let mut items = Joined::default();
        for item in segment {
            match &item.body {
                ItemBody::System { content } => {
                    items.push(&message(self.system_role(), Content::Text(text_of(content))));
                }
                ItemBody::User { content, .. } => items.push(&message("user", said(content))),
                ItemBody::Assistant(answer) => {
                    self.answer(answer).iter().for_each(|item| items.push(item));
                }
                ItemBody::Tool(tool) => items.push(&output(answers, tool)),
                ItemBody::Marker { .. } => {}
            }
        }
        items.into_bytes()
    }

    fn system_role(&self) -> &'static str {
        match self.system {
            SystemRole::System => "system",
            SystemRole::Developer => "developer",
        }
    }

    fn answer<'a>(&self, answer: &'a AssistantItem) -> Vec<InputItem<'a>> {
        let own = self.reasoning && answer.model == self.model;
        let mut items = Vec::new();
        let mut said = 0;
        for piece in in_order(answer, own) {
            match piece {
                Piece::Text(text) => items.push(message("assistant", Content::Text(text.into()))),
                Piece::Kept(block, _) if block["type"] == "message" => {
                    if let Some(InputItem::Message { phase, .. }) = items.last_mut() {
                        *phase = block["phase"].as_str().map(str::to_owned);
                    }
                }
                Piece::Kept(block, thought) => {
                    items.extend(reasoning(&block, thought));
                    continue;
                }
                Piece::Call(call) => items.push(InputItem::Other(OtherItem::FunctionCall {
                    call_id: unique_id(&answer.calls, call),
                    name: function_name(&call.name),
                    arguments: arguments(&call.arguments).to_string(),
                })),
            }
            said = items.len();
        }
        items.truncate(said);
        items
    }
}

/// The tools as a JSON array; nothing for none.
pub(super) fn encode_tools(tools: &[ToolDefinition]) -> Bytes {
    fn encoded(tool: &ToolDefinition) -> Tool<'_> {
        let ToolDefinition { name, description, input_schema } = tool;
        let parameters = parameters(input_schema);
        Tool { kind: "function", name, description, parameters, strict: false }
    }
    if tools.is_empty() {
        return Bytes::new();
    }
    json_of(&tools.iter().map(encoded).collect::<Vec<_>>()).into()
}

fn message<'a>(role: &'static str, content: Content<'a>) -> InputItem<'a> {
    InputItem::Message { role, content, phase: None }
}

/// Reasoning as it came. Without its encrypted form a server that stores nothing knows nothing of
/// it, unless it thinks aloud.
fn reasoning(block: &Value, thought: &str) -> Option<InputItem<'static>> {
    let mut item = json!({ "type": "reasoning", "summary": [] });
    if block["text"] == "content" {
        item["content"] = json!([{ "type": "reasoning_text", "text": thought }]);
    } else if block["encrypted_content"].is_null() {
        return None;
    } else if !thought.is_empty() {
        item["summary"] = json!([{ "type": "summary_text", "text": thought }]);
    }
    for name in ["id", "encrypted_content"] {
        if !block[name].is_null() {
            item[name] = block[name].clone();
        }
    }
    Some(InputItem::Kept(item))
}

/// What a user said: one string where there is text only. It always says something.
fn said(content: &[Part]) -> Content<'_> {
    if content.iter().any(|part| picture(part).is_some()) {
        return Content::Parts(parts(content));
    }
    match text_of(content) {
        text if text.is_empty() => Content::Text("(empty)".into()),
        text => Content::Text(text),
    }
}

fn parts(content: &[Part]) -> Vec<InputPart<'_>> {
    let part = |part| match picture(part) {
        Some((kind, data)) => {
            InputPart::InputImage { image_url: format!("data:{kind};base64,{data}") }
        }
        None => InputPart::InputText { text: part_text(part) },
    };
    let is_empty =
        |part: &InputPart<'_>| matches!(part, InputPart::InputText { text } if text.is_empty());
    content.iter().map(part).filter(|part| !is_empty(part)).collect()
}

fn output<'a>(answers: Option<&'a Item>, tool: &'a ToolItem) -> InputItem<'a> {
    let output = if tool.content.iter().any(|part| picture(part).is_some()) {
        Content::Parts(parts(&tool.content))
    } else {
        match text_of(&tool.content) {
            text if text.is_empty() => Content::Text("(no output)".into()),
            text => Content::Text(text),
        }
    };
    let call_id = answered_id(answers, &tool.call_id, unique_id);
    InputItem::Other(OtherItem::FunctionCallOutput { call_id, output })
}
