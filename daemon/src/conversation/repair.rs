//! Repair: histories that were cut off become valid requests.
//!
//! Model servers refuse a request in which a call has no result, a result no call, or an assistant
//! message nothing in it; one such request makes a session useless for ever. Repair works on the
//! view only, never on the record, and pairs calls with results by position, one assistant item at
//! a time: ids may come again later in a history, so a set of answered ids over all of it would
//! take a call for answered that is not.
//!
//! Invariant *every call has one result*: in what [`results`] returns, in the order of the calls.
//!
//! Receives one assistant item and what followed it from the window; hands back what is sent.

use std::sync::Arc;

use agentd_protocol::id::CallId;
use agentd_protocol::item::{
    AssistantItem, AssistantPart, Item, ItemBody, Part, ToolItem, ToolStatus,
};

/// What the model reads for a call that had not started when its turn was cut off.
pub const NOT_STARTED: &str = "Tool execution was interrupted before a result was recorded. This \
                               call must be retried if still needed.";

/// What the model reads for a call that had started when its turn was cut off.
pub const STARTED: &str = "Tool execution was interrupted after it had started. It may have taken \
                           effect; its outcome is unknown. Check before you repeat it.";

/// The results that follow the assistant item `answer`: exactly one for each of its calls, in the
/// order of the calls. `recorded` are the tool items up to the next assistant item; those that
/// answer none of the calls, and second ones, are left out. For a call without one, a result is
/// made up, whose text depends on whether the call had `started`. No `answer`, no results.
pub fn results(
    answer: Option<&Item>,
    recorded: &[Arc<Item>],
    started: impl Fn(&CallId) -> bool,
) -> Vec<Arc<Item>> {
    let Some((item, assistant)) = answer.and_then(as_assistant) else { return Vec::new() };
    let mut taken = vec![false; recorded.len()];
    assistant
        .calls
        .iter()
        .map(|call| {
            let found = recorded.iter().enumerate().position(|(at, result)| {
                !taken[at] && tool(result).is_some_and(|tool| tool.call_id == call.call_id)
            });
            if let Some(at) = found {
                taken[at] = true;
                return Arc::clone(&recorded[at]);
            }
            let text = if started(&call.call_id) { STARTED } else { NOT_STARTED };
            Arc::new(made_up(item, &call.call_id, &call.name, text))
        })
        .collect()
}

/// Whether an assistant item has nothing a request could carry: no text, no call, and nothing that
/// its provider wants back. Reasoning alone is not sent either.
pub fn is_empty(assistant: &AssistantItem) -> bool {
    assistant.calls.is_empty()
        && assistant.content.iter().all(|part| match part {
            AssistantPart::Text { text } => text.trim().is_empty(),
            AssistantPart::Reasoning { signature, .. } => signature.is_none(),
        })
}

fn as_assistant(item: &Item) -> Option<(&Item, &AssistantItem)> {
    match &item.body {
        ItemBody::Assistant(assistant) => Some((item, assistant)),
        ItemBody::System { .. }
        | ItemBody::User { .. }
        | ItemBody::Tool(_)
        | ItemBody::Marker { .. } => None,
    }
}

fn tool(item: &Item) -> Option<&ToolItem> {
    match &item.body {
        ItemBody::Tool(tool) => Some(tool),
        ItemBody::System { .. }
        | ItemBody::User { .. }
        | ItemBody::Assistant(_)
        | ItemBody::Marker { .. } => None,
    }
}

/// A result that is in no record. It takes its place and time from the assistant item, so that
/// the same history always gives the same bytes.
fn made_up(answer: &Item, call_id: &CallId, name: &str, text: &str) -> Item {
    Item {
        item_id: answer.item_id.clone(),
        index: answer.index,
        turn_id: answer.turn_id.clone(),
        created_at: answer.created_at,
        hidden_by: None,
        body: ItemBody::Tool(ToolItem {
            call_id: call_id.clone(),
            name: name.to_owned(),
            status: ToolStatus::Interrupted,
            content: vec![Part::text(text)],
            full_output: None,
        }),
    }
}
