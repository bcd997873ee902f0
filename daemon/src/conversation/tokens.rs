//! Tokens, estimated: what a text or an item costs in a request where the provider has not said.
//!
//! A quarter of the bytes, as the rule of thumb goes. It is too little for some scripts and too
//! much for others; whoever knows a provider's own count scales by it.
//!
//! Receives items from the window; hands back numbers of tokens.

use agentd_protocol::item::{AssistantPart, Call, Item, ItemBody, Part};

/// Bytes that make a token, about.
const BYTES_PER_TOKEN: usize = 4;

/// What stands around an item's text: its role, and marks of the model's template.
const AROUND: u64 = 4;

/// An image, whatever its bytes: providers scale them down.
const IMAGE: u64 = 1_500;

/// So many bytes of text.
pub fn of_bytes(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// An item, as far as it is sent.
pub fn of_item(item: &Item) -> u64 {
    AROUND
        + match &item.body {
            ItemBody::System { content } | ItemBody::User { content, .. } => of_parts(content),
            ItemBody::Tool(tool) => of_parts(&tool.content),
            ItemBody::Assistant(answer) => {
                let call = |call: &Call| {
                    AROUND + of_bytes(call.name.len() + call.arguments.to_string().len())
                };
                let said = answer.content.iter().map(of_said).sum::<u64>();
                said + answer.calls.iter().map(call).sum::<u64>()
            }
            ItemBody::Marker { .. } => 0,
        }
}

/// Reasoning is sent back only where its provider wants it.
fn of_said(part: &AssistantPart) -> u64 {
    match part {
        AssistantPart::Text { text } => of_bytes(text.len()),
        AssistantPart::Reasoning { text, signature: Some(signature) } => {
            of_bytes(text.len() + signature.len())
        }
        AssistantPart::Reasoning { signature: None, .. } => 0,
    }
}

fn of_parts(parts: &[Part]) -> u64 {
    let part = |part: &Part| match part {
        Part::Text { text } => of_bytes(text.len()),
        Part::Image { .. } => IMAGE,
        Part::File { path } => of_bytes(path.len()),
    };
    parts.iter().map(part).sum()
}
