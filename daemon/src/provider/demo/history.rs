//! What the demo model knows of its turn: the prompt and what its calls came to.
//!
//! The demo's wire format is one item a line, so a request is read from its end back to the prompt
//! that started the turn, and what lies before that costs nothing.
//!
//! Receives a request's messages; hands the turn so far to the script.

use agentd_protocol::item::{Item, ItemBody, Origin, ToolStatus, parts_text};
use bytes::Bytes;

/// The turn so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// The prompt, and what was steered in since.
    pub(super) prompts: Vec<String>,
    /// Calls that were made, in order.
    pub(super) outcomes: Vec<Outcome>,
    /// agentd said that this is the turn's last request.
    pub(super) last_step: bool,
    /// agentd asks for a summary, and for nothing else.
    pub(super) summary: bool,
}

/// What became of a call; no status where nothing is known of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: Option<ToolStatus>,
    pub(super) text: String,
}

impl Turn {
    /// Reads the turn at the end of a request's messages.
    pub(super) fn read(messages: &[Bytes]) -> Self {
        let mut items: Vec<Item> = messages
            .iter()
            .rev()
            .flat_map(|piece| piece.rsplit(|byte| *byte == b'\n'))
            .filter_map(|line| serde_json::from_slice(line).ok())
            .scan(false, |ended, item: Item| {
                if std::mem::replace(ended, starts_turn(&item)) { None } else { Some(item) }
            })
            .collect();
        items.reverse();
        let mut turn = Self::default();
        let mut open = Vec::new();
        for item in items {
            turn.take(item, &mut open);
        }
        turn
    }

    /// Takes the next item; `open` are the calls of the last answer with their outcomes' places.
    fn take(&mut self, item: Item, open: &mut Vec<(String, usize)>) {
        match item.body {
            ItemBody::User { content, origin, .. } => match origin {
                Origin::User | Origin::Steer => self.prompts.push(parts_text(&content)),
                Origin::Agentd => {
                    let text = parts_text(&content);
                    self.last_step |= text.contains("last step");
                    self.summary = text.contains("Write a summary");
                }
                Origin::Hook => {}
            },
            ItemBody::Assistant(assistant) => {
                open.clear();
                for call in assistant.calls {
                    open.push((call.call_id.as_str().to_owned(), self.outcomes.len()));
                    self.outcomes.push(Outcome::default());
                }
            }
            ItemBody::Tool(tool) => {
                let call = open.iter().find(|(id, _)| id == tool.call_id.as_str());
                if let Some((_, at)) = call {
                    self.outcomes[*at] = Outcome { status: Some(tool.status), text: tool.text() };
                }
            }
            ItemBody::System { .. } | ItemBody::Marker { .. } => {}
        }
    }
}

fn starts_turn(item: &Item) -> bool {
    matches!(item.body, ItemBody::User { origin: Origin::User, .. })
}
