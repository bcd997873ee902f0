//! Items and tools → the messages and tools of a Messages request.
//!
//! A segment is one message: roles alternate, and where an answer said nothing, something stands
//! for it. Results come first in a user's message, pictures stay inside of them. The system item
//! is a message too, since it is kept and joined like the others; [`split_system`] takes it out
//! again when a request is sent. What the model signed goes back to it in its place.
//!
//! Invariant: a pure function of the items, the model's id and the profile, both of which show in
//! [`Profile::key`].
//!
//! Receives segments from the conversation; hands back messages joined by commas.

use std::sync::Arc;

use agentd_protocol::item::{AssistantItem, Item, ItemBody, Part, ToolItem, ToolStatus};
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::wire::{Block, KnownBlock, Message, ResultContent, Source, Tool};
use crate::provider::ToolDefinition;
use crate::provider::content::{
    Joined, NO_ANSWER_YET, answered_id, arguments, function_name, json_of, parameters, part_text,
    picture, text_of, unique_id,
};
use crate::provider::kept::{Piece, in_order};

/// The place of the system item in its session.
const FIRST: u64 = 1;
/// What a system item starts and ends with.
const SYSTEM_START: &[u8] = br#"{"role":"system","content":["#;
const SYSTEM_END: &[u8] = b"]}";

/// What an answer starts with.
const ANSWER_START: &[u8] = br#"{"role":"assistant","content":["#;

/// What a server wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// The model as items name it: `provider/name`.
    pub(super) model: String,
    /// Whether it gets its reasoning back.
    pub(super) reasoning: bool,
}

impl Profile {
    /// The key of encoded bytes.
    pub(super) fn key(&self) -> String {
        let mark = if self.reasoning { "" } else { "-reasoning" };
        format!("anthropic-messages{mark} {}", self.model)
    }

    /// The messages of a segment.
    pub(super) fn encode(&self, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        let mut messages = Joined::default();
        let mut content = Vec::new();
        for item in segment {
            match &item.body {
                ItemBody::System { content } if item.index == FIRST => {
                    messages.push(&Message { role: "system", content: blocks(content) });
                }
                // Only an import can have another: it is something to read.
                ItemBody::System { content: parts } | ItemBody::User { content: parts, .. } => {
                    content.extend(blocks(parts));
                }
                ItemBody::Tool(tool) => content.push(result(answers, tool)),
                ItemBody::Assistant(answer) => {
                    let content = self.answer(answer);
                    if !content.is_empty() {
                        messages.push(&Message { role: "assistant", content });
                    }
                }
                ItemBody::Marker { .. } => {}
            }
        }
        if !content.is_empty() {
            if answers.is_some_and(|answer| self.says_nothing(answer)) {
                messages.push(&Message { role: "assistant", content: vec![text(NO_ANSWER_YET)] });
            }
            messages.push(&Message { role: "user", content });
        }
        messages.into_bytes()
    }

    /// The blocks of an answer. Thinking is never the last: servers refuse that.
    fn answer<'a>(&self, answer: &'a AssistantItem) -> Vec<Block<'a>> {
        let own = answer.model == self.model;
        let mut blocks = Vec::new();
        let mut said = 0;
        for piece in in_order(answer, own) {
            match piece {
                Piece::Text(words) => blocks.push(text(words)),
                Piece::Kept(block, thought) => {
                    let is_thinking = block["type"] == "thinking";
                    if is_thinking || block["type"] == "redacted_thinking" {
                        if self.reasoning {
                            blocks.push(thinking(block, thought, is_thinking));
                        }
                        continue;
                    }
                    blocks.push(Block::Kept(block));
                }
                Piece::Call(call) => blocks.push(Block::Known(KnownBlock::ToolUse {
                    id: unique_id(&answer.calls, call),
                    name: function_name(&call.name),
                    input: arguments(&call.arguments),
                })),
            }
            said = blocks.len();
        }
        blocks.truncate(said);
        blocks
    }

    /// Whether nothing was sent of an answer that called nothing.
    fn says_nothing(&self, item: &Item) -> bool {
        matches!(&item.body, ItemBody::Assistant(answer) if self.answer(answer).is_empty())
    }
}

/// The tools as a JSON array; nothing for none.
pub(super) fn encode_tools(tools: &[ToolDefinition]) -> Bytes {
    fn encoded(tool: &ToolDefinition) -> Tool<'_> {
        let ToolDefinition { name, description, input_schema } = tool;
        Tool { name, description, input_schema: parameters(input_schema) }
    }
    if tools.is_empty() {
        return Bytes::new();
    }
    json_of(&tools.iter().map(encoded).collect::<Vec<_>>()).into()
}

/// The blocks of the system item that the messages begin with, and the messages without it.
pub(super) fn split_system(messages: &[Bytes]) -> (Option<Bytes>, Vec<Bytes>) {
    let mut rest = messages.to_vec();
    let Some(first) = rest.first_mut().filter(|first| first.starts_with(SYSTEM_START)) else {
        return (None, rest);
    };
    let mut values = serde_json::Deserializer::from_slice(first).into_iter::<IgnoredAny>();
    let whole = matches!(values.next(), Some(Ok(_)));
    let end = values.byte_offset();
    if !whole {
        return (None, rest);
    }
    let system = first.slice(SYSTEM_START.len()..end - SYSTEM_END.len());
    *first = first.slice(end..);
    rest.retain(|piece| !piece.is_empty());
    if let Some(first) = rest.first_mut() {
        // The comma after it.
        *first = first.slice(1..);
    }
    (Some(system), rest)
}

/// Whether the last of the answers begins with what was thought, or there is none. Texts are escaped
/// and arguments sorted, so that nothing else reads like the start of one.
pub(super) fn goes_on_thinking(messages: &[Bytes]) -> bool {
    let last = messages.iter().rev().find_map(|piece| {
        let at = memchr::memmem::rfind(piece, ANSWER_START)?;
        Some(&piece[at + ANSWER_START.len()..])
    });
    let Some(content) = last else { return true };
    let first = serde_json::Deserializer::from_slice(content).into_iter::<Value>().next();
    let kind =
        first.and_then(Result::ok).and_then(|block| block["type"].as_str().map(str::to_owned));
    matches!(kind.as_deref(), Some("thinking" | "redacted_thinking"))
}

fn text(text: &str) -> Block<'_> {
    Block::Known(KnownBlock::Text { text: text.into() })
}

/// The thinking that was shown stands in the part, not in what is kept.
fn thinking(mut block: Value, thought: &str, is_shown: bool) -> Block<'static> {
    if is_shown && let Some(block) = block.as_object_mut() {
        block.insert("thinking".to_owned(), thought.into());
    }
    Block::Kept(block)
}

/// Parts as blocks; always something, and no text that is only white space.
fn blocks(content: &[Part]) -> Vec<Block<'_>> {
    let block = |part| {
        if let Some(picture) = picture(part) {
            return Some(image(picture));
        }
        let text = part_text(part);
        (!text.trim().is_empty()).then_some(Block::Known(KnownBlock::Text { text }))
    };
    let blocks: Vec<_> = content.iter().filter_map(block).collect();
    if blocks.is_empty() { vec![text("(empty)")] } else { blocks }
}

fn image<'a>((media_type, data): (&'a str, &'a str)) -> Block<'a> {
    Block::Known(KnownBlock::Image { source: Source { kind: "base64", media_type, data } })
}

fn result<'a>(answers: Option<&'a Item>, tool: &'a ToolItem) -> Block<'a> {
    let has_images = tool.content.iter().any(|part| picture(part).is_some());
    let text = text_of(&tool.content);
    let content = if has_images {
        ResultContent::Blocks(blocks(&tool.content))
    } else if text.trim().is_empty() {
        ResultContent::Text("(no output)".into())
    } else {
        ResultContent::Text(text)
    };
    let failed = !matches!(tool.status, ToolStatus::Ok | ToolStatus::Duplicate);
    Block::Known(KnownBlock::ToolResult {
        tool_use_id: answered_id(answers, &tool.call_id, unique_id),
        content,
        // Servers refuse an error that is more than text.
        is_error: failed && !has_images,
    })
}
