//! A conversation that a new session starts with: the events that tell it.
//!
//! A copied item is told like any other, by the event that shows it complete, so the log of a fork
//! or an import rebuilds it as any log does. What happened around the items (turns, calls, usage)
//! happened elsewhere and is not told.
//!
//! Receives items from `sessions.rs`; hands events to the transaction that makes the session.

use agentd_protocol::event::{EventBody, RestoredFiles};
use agentd_protocol::id::TurnId;
use agentd_protocol::item::{Item, ItemBody, Marker};

/// The events of these items, in order, each with its turn.
pub(super) fn events(items: &[Item]) -> impl Iterator<Item = (TurnId, EventBody)> {
    (1..).zip(items).flat_map(|(index, item)| {
        let item = Box::new(Item { index, hidden_by: None, ..item.clone() });
        let turn_id = item.turn_id.clone();
        let hides = hides(&item);
        let told = match &item.body {
            ItemBody::Tool(tool) => EventBody::ToolCompleted {
                call_id: tool.call_id.clone(),
                status: tool.status,
                duration_ms: 0,
                changes: None,
                item,
            },
            _ => EventBody::MessageCompleted { item },
        };
        [Some(told), hides].into_iter().flatten().map(move |body| (turn_id.clone(), body))
    })
}

/// What a rollback does beside being in the conversation.
fn hides(item: &Item) -> Option<EventBody> {
    let ItemBody::Marker { marker: Marker::Rollback { hidden, undo: None } } = &item.body else {
        return None;
    };
    let (item_id, hidden) = (item.item_id.clone(), hidden.clone());
    Some(EventBody::SessionRolledBack { item_id, hidden, files: RestoredFiles::default() })
}
