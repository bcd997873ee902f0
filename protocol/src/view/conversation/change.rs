//! What a page of text gains and loses by a message.
//!
//! A terminal cannot take a line back, so a loss is told apart from a growth, and a growth holds
//! only what is new.
//!
//! Receives what is shown and what is to be shown; hands [`Change`]s to the view's callers.

use crate::id::{CallId, ItemId};
use crate::item::{AssistantItem, AssistantPart};
use crate::progress::{DeltaKind, InFlight, InFlightItem};

/// A growth or a loss of text, for clients that write to the end of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This text was added at the end of an item.
    Text {
        /// The item.
        item_id: ItemId,
        /// The answer or the reasoning.
        kind: DeltaKind,
        /// What was added.
        text: String,
    },
    /// Forget what was shown of this item: the request is tried again, or a crash took it back.
    Withdrawn {
        /// The item.
        item_id: ItemId,
    },
    /// A running tool wrote this.
    Output {
        /// The call.
        call_id: CallId,
        /// Bytes that it wrote before and that are not shown: there was too much to tell. Its
        /// result has them.
        missed: u64,
        /// What was added.
        text: String,
    },
}

/// A complete answer in the form of what streams.
pub(super) fn whole(item_id: &ItemId, answer: &AssistantItem) -> InFlightItem {
    let reasoning = answer.content.iter().filter_map(|part| match part {
        AssistantPart::Reasoning { text, .. } => Some(text.as_str()),
        AssistantPart::Text { .. } => None,
    });
    InFlightItem {
        item_id: item_id.clone(),
        attempt: 0,
        text: answer.text(),
        reasoning: reasoning.collect(),
    }
}

/// Whether there is nothing to show of it.
pub(super) fn is_empty(item: &InFlightItem) -> bool {
    item.text.is_empty() && item.reasoning.is_empty()
}

/// What leads from the text that is shown to `now`.
pub(super) fn growth(shown: Option<&InFlightItem>, now: &InFlightItem) -> Vec<Change> {
    let mut changes = Vec::new();
    let (text, reasoning) = shown.map_or(("", ""), |shown| (&shown.text, &shown.reasoning));
    let extends = now.text.starts_with(text) && now.reasoning.starts_with(reasoning);
    let (text, reasoning) = if extends {
        (text.len(), reasoning.len())
    } else {
        changes.push(Change::Withdrawn { item_id: now.item_id.clone() });
        (0, 0)
    };
    let added =
        [(DeltaKind::Reasoning, &now.reasoning[reasoning..]), (DeltaKind::Text, &now.text[text..])];
    changes.extend(added.into_iter().filter(|(_, text)| !text.is_empty()).map(|(kind, text)| {
        Change::Text { item_id: now.item_id.clone(), kind, text: text.to_owned() }
    }));
    changes
}

/// What leads from what is shown to `now`.
pub(super) fn difference(before: &InFlight, now: &InFlight) -> Vec<Change> {
    let mut changes = Vec::new();
    let is_there = |id: &ItemId| now.item.as_ref().is_some_and(|item| item.item_id == *id);
    let gone = before.item.as_ref().filter(|shown| !is_empty(shown) && !is_there(&shown.item_id));
    changes.extend(gone.map(|shown| Change::Withdrawn { item_id: shown.item_id.clone() }));
    if let Some(item) = &now.item {
        let shown = before.item.as_ref().filter(|shown| shown.item_id == item.item_id);
        changes.extend(growth(shown, item));
    }
    for tool in &now.tools {
        let known = before.tools.iter().find(|known| known.call_id == tool.call_id);
        let end = known.map_or(0, |known| known.offset + known.output.len() as u64);
        let missed = tool.offset.saturating_sub(end);
        let from = usize::try_from(end.saturating_sub(tool.offset)).unwrap_or(usize::MAX);
        let text = tool.output.get(from..).unwrap_or("");
        if !text.is_empty() {
            let (call_id, text) = (tool.call_id.clone(), text.to_owned());
            changes.push(Change::Output { call_id, missed, text });
        }
    }
    changes
}
